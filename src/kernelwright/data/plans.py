"""Short plans, read off the kernels themselves, and a checker that holds any plan against its code.

    linear_kernel: cdiv(M, 128) x cdiv(N, 64) programs, 8 warps, BLOCK_M=128, BLOCK_N=64, BLOCK_K=32
    reads a, b, bias; loop(dot tf32x3), + bias, maximum 0.0; writes c; 64-bit offsets

Two lines a launch: what runs in parallel over what and in which tiles; what is read, computed in which order, and written.
All of it comes from the syntax tree of the code, so a plan cannot promise what the code does not do. The checker reads the
same claims out of any plan, also one that a model wrote; what it does not recognise as a claim it lets pass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelwright.data.launches import Launch, launches

MOST = 24
"""Operations of a kernel that are listed; the rest is `...`."""
_MORE = "..."
_WIDE = "64-bit offsets"


def plan(code: str) -> str:
    """The plan of `code`: two lines a launch. Raises SyntaxError for code that does not parse."""
    return "\n".join(line for launch in launches(code) for line in (_shape(launch), _work(launch)))


def _shape(launch: Launch) -> str:
    parts = [f"{launch.grid} programs"]
    if launch.warps:
        parts.append(_warps(launch.warps))
    parts += [f"{name}={value}" for name, value in launch.tiles]
    parts += [f"{name}=whole row" for name in launch.whole]
    return f"{launch.kernel}: {', '.join(parts)}"


def _work(launch: Launch) -> str:
    parts = [f"reads {', '.join(filter(None, launch.reads))}"] if any(launch.reads) else []
    parts += [did] if (did := _computed(launch)) else []
    parts += [f"writes {', '.join(filter(None, launch.writes))}"] if any(launch.writes) else []
    parts += [_WIDE] * launch.wide
    return "; ".join(parts)


def _computed(launch: Launch) -> str:
    """The operations of a launch in order: `loop(dot tf32x3), + bias, maximum 0.0`."""
    left = MOST
    parts = []
    for looped, operations in launch.work:
        shown = [*operations[:left], _MORE] if len(operations) > left else operations
        left -= len(operations)
        text = ", ".join(shown)
        parts.append(f"loop({text})" if looped else text)
        if left <= 0:
            break
    return ", ".join(parts)


def _warps(counts: frozenset[int]) -> str:
    text = "/".join(str(count) for count in sorted(counts))
    return f"{text} warp{'s' * (text != '1')}"


def problems(text: str, code: str) -> list[str]:
    """The claims of a plan that its code does not bear out, one line each; empty when it is true.

    Raises SyntaxError for code that does not parse.
    """
    every = launches(code)
    found: list[str] = []
    meant = every
    for line in text.splitlines():
        name, colon, rest = line.partition(": ")
        if colon and (named := tuple(launch for launch in every if launch.kernel == name)):
            meant, line = named, rest
            grid, programs, _ = line.partition(" programs")
            if programs and grid not in {launch.grid for launch in meant}:
                found.append(f"says {grid} programs, the grid is {meant[0].grid}")
        found += _untrue_shape(line, meant)
        if line.startswith(("reads ", "writes ")):
            found += _untrue_work(line, meant)
    counts = {
        "kernel": len(every),
        "load": sum(launch.loads for launch in every),
        "store": sum(launch.stores for launch in every),
    }
    for match in re.finditer(r"(\d+) (kernel|load|store)s?\b", text):
        if int(match[1]) != counts[match[2]]:
            found.append(f"says {match[0]}, the code has {counts[match[2]]}")
    return found


def _untrue_shape(line: str, meant: Sequence[Launch]) -> list[str]:
    """Claims of warps, tiles and offsets that none of the launches meets."""
    tiles = {tile for launch in meant for tile in launch.tiles}
    whole = {name for launch in meant for name in launch.whole}
    warps = [launch.warps for launch in meant]
    found = []
    for match in re.finditer(r"(\d+(?:/\d+)*) warps?\b", line):
        claimed = {int(part) for part in match[1].split("/")}
        if not any(known is None or claimed <= known for known in warps):
            has = ", ".join(sorted(_warps(known) for known in warps if known))
            found.append(f"says {match[0]}, the code uses {has}")
    for match in re.finditer(r"(?:tiles?|blocks?) of (\d+)\b", line, re.IGNORECASE):
        if int(match[1]) not in {value for _, value in tiles}:
            found.append(f"says {match[0]}, the code's tiles are {sorted(value for _, value in tiles)}")
    for match in re.finditer(r"\b([A-Z][A-Z0-9_]*) ?= ?(?:(\d+)\b|whole row)", line):
        if (match[1], int(match[2])) not in tiles if match[2] else match[1] not in whole:
            found.append(f"says {match[0]}, which the code does not use")
    if re.search(r"\bwhole rows?\b", line) and not whole:
        found.append("says whole rows, no launch takes a whole row")
    if _WIDE in line and not any(launch.wide for launch in meant):
        found.append(f"says {_WIDE}, no kernel has them")
    return found


def _untrue_work(line: str, meant: Sequence[Launch]) -> list[str]:
    """Claims of memory and arithmetic that none of the launches meets."""
    memory = {
        "reads": {name for launch in meant for name in launch.reads},
        "writes": {name for launch in meant for name in launch.writes},
    }
    does = [_computed(launch) for launch in meant]
    found = []
    for claim in line.split("; "):
        word, _, names = claim.partition(" ")
        if word in memory:
            found += [f"says {word} {n}, no kernel does" for n in names.split(", ") if n not in memory[word]]
        elif claim != _WIDE and claim not in does:
            found.append(f"says {claim}, the code does {does[0] if does else 'nothing'}")
    return found


def is_true(text: str, code: str) -> bool:
    """Whether every claim that can be recognised in the plan holds of the code (and the code parses)."""
    try:
        return not problems(text, code)
    except SyntaxError:
        return False
