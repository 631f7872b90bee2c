"""One honest fault at a time, put into a correct kernel: what *repair* examples are made from.

The faults are the ones that models make: a mask left out, a wrong bound, a swapped operation, a name that does not
exist, an import that newer versions removed, an offset without its program id. Whether a fault shows is the
verifier's to say: a mutant that it accepts is no repair example.

Not drawn from `faults`, whose edits are safe rather than natural: 70 of 126 left needless parentheses, `| True` or
`* 0.0` at the fault, which a repairer would learn to look for; none stops a module from compiling; 24 ms each, not 0.1.
"""

from __future__ import annotations

import random
import re

FAULTS: tuple[tuple[str, str, str], ...] = (
    ("mask dropped from a load", r"(tl\.load\([^\n]*?), mask=\w+(?:, other=0\.0)?\)", r"\1)"),
    ("mask dropped from a store", r"(tl\.store\([^\n]*), mask=\w+\)", r"\1)"),
    ("program id forgotten", r"tl\.program_id\(0\) \* \w+ \+ (tl\.arange)", r"\1"),
    ("row forgotten", r"row \* (\w+) \+ (\w+)", r"\2"),
    ("wrong program axis", r"tl\.program_id\(0\)", "tl.program_id(1)"),
    ("max for min", r"tl\.maximum\(", "tl.minimum("),
    ("min for max", r"tl\.minimum\(", "tl.maximum("),
    ("plus for times", r"(\w+ = \w+) \* ", r"\1 + "),
    ("times for plus", r"(\w+ = \w+) \+ ", r"\1 * "),
    ("plus for minus", r"(\w+ = \w+) - ", r"\1 + "),
    ("sum for max", r"tl\.max\(", "tl.sum("),
    ("max for sum", r"tl\.sum\(", "tl.max("),
    ("no such function", r"tl\.(sigmoid|erf|rsqrt)\(", r"tl.math.fast_\1("),
    ("tanh is not in tl", r"2\.0 \* tl\.sigmoid\(2\.0 \* (\w+)\) - 1\.0", r"tl.tanh(\1)"),
    ("torch inside the kernel", r"    (\w+) = tl\.exp\(", r"    \1 = torch.exp("),
    (
        "removed import",
        r"import triton\n",
        "import triton\nfrom torch._inductor.runtime.triton_helpers import libdevice\n",
    ),
    ("missing import", r"import triton\.language as tl\n", ""),
    ("argument missing in the launch", r"(\)\]\(\w+), out,", r"\1,"),
    ("grid too small", r"triton\.cdiv\((\w+), (\w+)\)", r"\1 // \2"),
    ("output not returned", r"\n        return (\w+)\n", "\n"),
    ("tile not a power of two", r"BLOCK = \d+", "BLOCK = 1000"),
    ("statistic without its length", r" / n\b", ""),
    ("maximum not subtracted", r"tl\.exp\((\w+) - m\)", r"tl.exp(\1)"),
    ("constant off", r"(?<=[ (])0\.5\b", "0.25"),
)


def mutate(code: str, rng: random.Random) -> str:
    """`code` with one fault of `FAULTS`, at one place. Raises ValueError when none applies."""
    order = list(FAULTS)
    rng.shuffle(order)
    for _, pattern, replacement in order:
        places = list(re.finditer(pattern, code))
        if places:
            place = rng.choice(places)
            mutant = code[: place.start()] + place.expand(replacement) + code[place.end() :]
            if mutant != code:
                return mutant
    raise ValueError("no fault applies to this code")
