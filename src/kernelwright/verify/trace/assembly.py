"""Refuses inline assembly that can find out when, where or how often a kernel runs.

A kernel that reads a clock, its launch number or shared memory left by an earlier launch can tell a checked call from
a timed one. So each instruction must either compute from its operands or access global memory, as `tl.load` and
`tl.store` do. Special registers, other memory, jumps and directives are refused.

Source: PTX ISA 8.7, chapters 7 (directives), 9 (instructions) and 10 (special registers).
"""

from __future__ import annotations

import re

_CALCULATES = """
abs activemask add addc and bfe bfi bfind bmsk brev clz cnot copysign cos cvt div dp2a dp4a ex2 fma fns
lg2 lop3 mad mad24 madc match max min mov mul mul24 neg not or popc prmt rcp redux rem rsqrt sad selp
set setp shf shfl shl shr sin slct sqrt sub subc szext tanh testp vabsdiff vabsdiff2 vabsdiff4 vadd
vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub
vsub2 vsub4 xor
"""
_GLOBAL = re.compile(
    r"(ld|st|atom|red)(\.(relaxed|volatile|weak|acquire|release|acq_rel|gpu|cta|sys))*\.global(\.|$)"
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STATEMENT = re.compile(r"(@!?[\w$%]+\s+)?([a-z]\w*(?:(?:\.|::)\w+)*)(?:\s|$)")
_REGISTER = re.compile(r"\.reg\b(?:\s*\.\w+)+\s+(.*)", re.DOTALL)
_VECTOR_AMD = re.compile(r"v_[a-z0-9_]+$")


def why_refused(text: str) -> str:
    """Why inline assembly is refused; an empty string if it is not."""
    text = _COMMENT.sub(" ", text)
    depth = 0
    for mark in re.findall(r"[{}]", text):
        depth += 1 if mark == "{" else -1
        if depth < 0:
            break
    if depth != 0:
        return "braces that do not match"
    declared: dict[str, int] = {}
    for statement in text.split(";") if ";" in text else text.split("\n"):
        plain = statement.strip("{} \t\r\n")
        if not plain:
            continue
        if registers := _REGISTER.match(plain):
            for name, count in re.findall(r"([\w$%]+)(?:<(\d+)>)?", registers[1]):
                declared[name] = int(count or -1)
        elif why := _instruction(plain, declared):
            return why
    return ""


def _instruction(statement: str, declared: dict[str, int]) -> str:
    """Why an instruction is refused. `declared`: registers declared under a name (`%r<4>`), -1 for a single one (`%r`)."""
    found = _STATEMENT.match(statement)
    if found is None:
        return f"`{statement[:40]}` is not an instruction"
    opcode = found[2]
    known = opcode.partition(".")[0] in _CALCULATES.split() or _VECTOR_AMD.match(opcode)
    if not known and not _GLOBAL.match(opcode):
        return f"`{opcode}` is not a calculation"
    for name in re.findall(r"%[\w.]+", statement):
        stem = name.rstrip("0123456789")
        numbered = stem != name and int(name[len(stem) :]) < declared.get(stem, 0)
        if not numbered and declared.get(name) != -1:
            return f"`{name}` tells when or where a kernel runs"
    return ""
