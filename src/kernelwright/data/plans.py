"""Short plans, read off the kernels themselves, and a checker that holds any plan against its code.

    linear_kernel: cdiv(M, 128) x cdiv(N, 64) programs, 8 warps, BLOCK_M=128, BLOCK_N=64, BLOCK_K=32
    reads a, b, bias; loop(dot tf32x3), + bias, maximum 0.0; writes c; 64-bit offsets

Two lines a launch: what runs in parallel over what and in which tiles; what is read, computed in which order, and written.
All of it comes from the syntax tree of the code, so a plan cannot promise what the code does not do. The checker reads the
same claims out of any plan, also one that a model wrote; what it does not recognise as a claim it lets pass.
"""

from __future__ import annotations

import re

from kernelwright.data.launches import Launch, launches

MOST = 24
"""Operations of a kernel that are listed; the rest is `...`."""
_MORE = "..."


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
    parts += [did] if (did := computed(launch)) else []
    parts += [f"writes {', '.join(filter(None, launch.writes))}"] if any(launch.writes) else []
    parts += ["64-bit offsets"] * launch.wide
    return "; ".join(parts)


def computed(launch: Launch) -> str:
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
    found = []
    meant: list[Launch] = every_of(every, "")
    for line in text.splitlines():
        named = re.match(r"(\w+): ", line)
        if named and (of := every_of(every, named[1])):
            meant = of
            line = line.removeprefix(named[0])
            if " programs" in line and line.partition(" programs")[0] not in {one.grid for one in meant}:
                found.append(f"says {line.partition(' programs')[0]} programs, the grid is {meant[0].grid}")
        found += _untrue(line, meant)
    for match in re.finditer(r"(\d+) (kernel|load|store)s?\b", text):
        count = {
            "kernel": len(every),
            "load": sum(one.loads for one in every),
            "store": sum(one.stores for one in every),
        }[match[2]]
        if int(match[1]) != count:
            found.append(f"says {match[0]}, the code has {count}")
    return found


def every_of(found: tuple[Launch, ...], kernel: str) -> list[Launch]:
    """The launches of a kernel; all where none is named."""
    return [launch for launch in found if not kernel or launch.kernel == kernel]


def _untrue(line: str, meant: list[Launch]) -> list[str]:
    """What a line claims of launches and none of them has."""
    tiles = {tile for launch in meant for tile in launch.tiles}
    whole = {name for launch in meant for name in launch.whole}
    found = []
    for match in re.finditer(r"(\d+(?:/\d+)*) warps?\b", line):
        claimed = {int(part) for part in match[1].split("/")}
        known = [launch.warps for launch in meant]
        if None not in known and not any(claimed <= warps for warps in known if warps is not None):
            found.append(f"says {match[0]}, the code uses {', '.join(sorted(_warps(w) for w in known if w))}")
    for match in re.finditer(r"(?:tiles?|blocks?) of (\d+)\b", line, re.IGNORECASE):
        if int(match[1]) not in {value for _, value in tiles}:
            found.append(f"says {match[0]}, the code's tiles are {sorted(value for _, value in tiles)}")
    for match in re.finditer(r"\b([A-Z][A-Z0-9_]*) ?= ?(?:(\d+)\b|whole row)", line):
        if (match[1], int(match[2])) not in tiles if match[2] else match[1] not in whole:
            found.append(f"says {match[0]}, which the code does not use")
    if re.search(r"\bwhole rows?\b", line) and not whole:
        found.append("says whole rows, no launch takes a whole row")
    if "64-bit offsets" in line and not any(launch.wide for launch in meant):
        found.append("says 64-bit offsets, no kernel has them")
    for claim in line.split("; "):
        word, _, names = claim.partition(" ")
        if word in ("reads", "writes") and line.startswith(("reads ", "writes ")):
            known = {
                name for launch in meant for name in (launch.reads if word == "reads" else launch.writes)
            }
            found += [
                f"says {word} {name}, no kernel does" for name in names.split(", ") if name not in known
            ]
    if line.startswith("reads "):
        middle = [
            part
            for part in line.split("; ")[1:]
            if not part.startswith("writes ") and part != "64-bit offsets"
        ]
        if middle and middle[0] not in {computed(launch) for launch in meant}:
            found.append(f"says {middle[0]}, the code does {computed(meant[0])}")
    return found


def is_true(text: str, code: str) -> bool:
    """Whether every claim that can be recognised in the plan holds of the code (and the code parses)."""
    try:
        return not problems(text, code)
    except SyntaxError:
        return False
