"""Puts a kernel's host function before its Triton kernels, as small models read and write code.

The host function defines the sizes that the kernels use, and names each kernel's arguments in order. Written first, it tells a model
what a kernel's signature and its index arithmetic may name; and the library can print it from the plan, so that a model has to
write the kernels alone. Python finds a kernel when the host function is called, so the order makes no difference to what it computes.
"""

from __future__ import annotations

import re

from kernelwright.errors import UserError
from kernelwright.graph.types import Graph
from kernelwright.synth.library import program_of_plan
from kernelwright.synth.plan import print_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.to_triton import label_of, print_triton

_HOST = "kernel"
_LINES = re.compile(r"^(?=@|def )", re.MULTILINE)


def host_first(code: str) -> str:
    """The code with `def kernel` before the functions above it; unchanged if there is none.

    >>> print(host_first("import triton\\n\\n\\n@triton.jit\\ndef one(x):\\n    pass\\n\\n\\ndef kernel(x):\\n    return one\\n"))
    import triton
    <BLANKLINE>
    <BLANKLINE>
    def kernel(x):
        return one
    <BLANKLINE>
    <BLANKLINE>
    @triton.jit
    def one(x):
        pass
    """
    parts = _parts(code)
    if parts is None:
        return code
    before, host, kernels = parts
    return "\n\n\n".join(part.strip("\n") for part in (before, host, kernels) if part.strip()).strip()


def plan_and_host(json: str, plan: str) -> tuple[str, str] | None:
    """(the plan about the graph's own operators, imports and host function as the library prints them for it), for a graph as JSON and
    a plan whose names of operators may be wrong. None if the library prints no such kernel."""
    try:
        program = program_of_plan(Graph.model_validate_json(json), plan, by_name=False)
        parts = _parts(print_triton(program, program.schedule.nest))
    except (UserError, Unsupported):
        return None
    if parts is None:
        return None
    host = "\n\n\n".join(part.strip("\n") for part in parts[:2])
    return print_plan(label_of(program.graph), program.schedule), host


def _parts(code: str) -> tuple[str, str, str] | None:
    """(what is above the first function, the host function, all other functions in order); None without a host function."""
    head, *pieces = _LINES.split(code)
    functions, decorators = [], ""
    for one in pieces:
        if one.startswith("@"):
            decorators += one
            continue
        functions.append(decorators + one)
        decorators = ""
    at = next((at for at, one in enumerate(functions) if one.startswith(f"def {_HOST}(")), None)
    if at is None:
        return None
    host = functions.pop(at)
    return head, host, "\n\n\n".join(one.strip("\n") for one in functions)
