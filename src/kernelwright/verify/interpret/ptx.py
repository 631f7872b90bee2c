"""Evaluates inline assembly that calculates: a small PTX machine on numpy arrays.

`trace/assembly.py` only admits instructions that compute from their operands, and accesses to global memory. Here the
computations are done, lane by lane as `tl.inline_asm_elementwise` passes them, so kernels with inline assembly are checked
like others. Registers hold bits; an instruction's type gives them meaning.

Not evaluated (raises `NotEvaluated`): memory, exchanges between lanes, jumps, labels, and rare instructions.
Approximate functions have the manual's errors (`approximate.py`) where it models them, and are exact otherwise.

Source: PTX ISA 8.7, chapters 6 (conversions, vectors) and 9 (instructions).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from kernelwright.verify.interpret import approximate, libdevice
from kernelwright.verify.interpret.number_formats import flush

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DECLARED = re.compile(r"\.reg\b(?:\s*\.v\d)?\s*\.(\w+)\s+(.*)", re.DOTALL)
_STATEMENT = re.compile(r"(?:@(!?)([\w$%]+)\s+)?([a-z]\w*(?:(?:\.|::)\w+)*)\s*(.*)", re.DOTALL)
_OPERANDS = re.compile(r"\{[^}]*\}|[^,\s][^,]*")
_UNWRITTEN = 0x5A5A_7FC1_A5A5_7FC1
"""Contents of a register that was only written conditionally, where the condition is false."""


class NotEvaluated(Exception):
    """The text does something that is not evaluated here."""


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A PTX type."""

    letter: str
    """`s`, `u`, `b`, `f`, or `bf`."""
    bits: int
    lanes: int = 1

    @property
    def numpy(self) -> np.dtype:
        if self.letter == "bf":
            return np.dtype(np.float32)
        return np.dtype({"s": "i", "u": "u", "b": "u", "f": "f"}[self.letter] + str(self.bits // 8))


def _kinds(opcode: str) -> list[_Kind]:
    found = []
    for part in opcode.split(".")[1:]:
        match = re.fullmatch(r"(s|u|b|f|bf)(8|16|32|64)(x2)?", part)
        if match:
            found.append(_Kind(match[1], int(match[2]), 2 if match[3] else 1))
        elif part == "pred":
            found.append(_Kind("b", 8))
    return found


class _Machine:
    """Registers by name, for all lanes at once."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.registers: dict[str, np.ndarray] = {}
        """Unsigned bit patterns."""
        self.widths: dict[str, int] = {}

    # -- operands ---------------------------------------------------------------------------------------------

    def bits(self, operand: str, width: int) -> np.ndarray:
        """The bits of a register or immediate, in that width."""
        if operand.startswith("{"):
            parts = [part.strip() for part in operand.strip("{}").split(",")]
            each = width // len(parts)
            whole = np.zeros(self.lanes, dtype=f"u{width // 8}")
            for place, part in enumerate(parts):
                whole |= self.bits(part, each).astype(whole.dtype) << whole.dtype.type(place * each)
            return whole
        if operand in self.registers:
            return self.registers[operand].astype(f"u{width // 8}")
        if operand in self.widths:
            raise NotEvaluated(f"`{operand}` is read before it is written")
        return np.full(self.lanes, self._immediate(operand, width)).astype(f"u{width // 8}")

    @staticmethod
    def _immediate(text: str, width: int) -> np.ndarray:
        if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
            value = np.uint32(int(match[1], 16)).view(np.float32)
            return _as_bits(np.asarray(value), _Kind("f", 32) if width == 32 else _Kind("f", width))
        if match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", text):
            value = np.uint64(int(match[1], 16)).view(np.float64)
            return _as_bits(np.asarray(value), _Kind("f", width))
        if match := re.fullmatch(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", text):
            number = int(match[2], 0) * (-1 if match[1] else 1)
            return np.asarray(number & ((1 << width) - 1), dtype=f"u{width // 8}")
        if re.fullmatch(r"-?\d*\.\d+(?:[eE][-+]?\d+)?", text):
            return _as_bits(np.asarray(float(text)), _Kind("f", width))
        raise NotEvaluated(f"`{text}` is not a known operand")

    def read(self, operand: str, kind: _Kind) -> np.ndarray:
        """An operand as values; two lanes in one register become a second axis."""
        if operand.startswith("-") and operand[1:] in self.registers:
            made: np.ndarray = -self.read(operand[1:], kind)
            return made
        return _as_values(self.bits(operand, kind.bits * kind.lanes), kind)

    def truth(self, operand: str) -> np.ndarray:
        return ~self.truth(operand[1:]) if operand.startswith("!") else self.bits(operand, 8) != 0

    def write(self, operand: str, bits: np.ndarray, where: np.ndarray | None) -> None:
        if operand == "_":
            return
        if operand.startswith("{"):
            parts = [part.strip() for part in operand.strip("{}").split(",")]
            each = 8 * bits.dtype.itemsize // len(parts)
            for place, part in enumerate(parts):
                self.write(part, (bits >> bits.dtype.type(place * each)).astype(f"u{each // 8}"), where)
            return
        if operand not in self.widths:
            raise NotEvaluated(f"`{operand}` is written and was not declared")
        made = bits.astype(f"u{self.widths[operand] // 8}")
        made = np.broadcast_to(made, (self.lanes,)).copy()
        if where is not None:
            before = self.registers.get(
                operand, np.full_like(made, _UNWRITTEN & ((1 << self.widths[operand]) - 1))
            )
            made = np.where(where, made, before)
        self.registers[operand] = made

    # -- instructions -----------------------------------------------------------------------------------------

    def step(self, statement: str) -> None:
        """Execute one instruction. Raises NotEvaluated."""
        match = _STATEMENT.fullmatch(statement)
        if match is None:
            raise NotEvaluated(f"`{statement[:40]}` is not an instruction")
        negated, guard, opcode, rest = match.groups()
        where = None
        if guard:
            where = ~self.truth(guard) if negated else self.truth(guard)
        operands = [operand.strip() for operand in _OPERANDS.findall(rest)]
        name, _, modifiers = opcode.partition(".")
        parts = modifiers.split(".")
        kinds = _kinds(opcode)
        if name in ("mov", "cvt", "setp", "set", "selp", "slct") or not kinds:
            special = _SPECIAL.get(name)
            if special is None or not (kinds or name == "mov"):
                raise NotEvaluated(f"`{opcode}` is not evaluated")
            special(self, parts, kinds, operands, where)
            return
        self._calculate(name, parts, kinds[-1], operands, where)

    def _calculate(
        self, name: str, parts: list[str], kind: _Kind, operands: list[str], where: np.ndarray | None
    ) -> None:
        widened = name in ("mul", "mad") and "wide" in parts
        function = _UNARY.get(name) or _BINARY.get(name) or _TERNARY.get(name) or _BITWISE.get(name)
        if function is None:
            raise NotEvaluated(f"`{name}` is not evaluated")
        given = operands[1:]
        wide = _Kind(kind.letter, 2 * kind.bits) if widened else kind
        values = []
        for place, operand in enumerate(given):
            if name in ("shl", "shr") and place == 1:
                values.append(self.read(operand, _Kind("u", 32)).astype(np.uint64))
            elif name in ("bfe", "bfi") and place >= len(given) - 2:
                values.append(self.read(operand, _Kind("u", 32)))
            else:
                values.append(self.read(operand, wide if place == 2 and name == "mad" else kind))
        if widened:
            values = [value.astype(wide.numpy) for value in values]
        if "ftz" in parts:
            values = list(map(flush, values))
        if "hi" in parts and name in ("mul", "mad"):
            made = libdevice._high(values[0], values[1]) + (values[2] if name == "mad" else 0)
        else:
            made = function(parts, kind, *values)
        if "ftz" in parts:
            made = flush(made)
        if "relu" in parts:
            made = np.maximum(made, 0)
        if "sat" in parts and kind.letter in ("f", "bf"):
            made = np.clip(np.nan_to_num(made, nan=0.0), 0.0, 1.0)
        counts = name in ("popc", "clz")
        self.write(operands[0], _as_bits(made, _Kind("u", 32) if counts else wide), where)


def _as_values(bits: np.ndarray, kind: _Kind) -> np.ndarray:
    if kind.lanes == 2:
        half = bits.view(np.uint16).reshape(*bits.shape, 2)
        return _as_values(half, _Kind(kind.letter, 16))
    if kind.letter == "bf":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.ascontiguousarray(bits).view(kind.numpy)


def _as_bits(values: np.ndarray, kind: _Kind) -> np.ndarray:
    values = np.ascontiguousarray(values)
    if kind.lanes == 2:
        half = _as_bits(values, _Kind(kind.letter, 16))
        return np.ascontiguousarray(half).view(np.uint32).reshape(half.shape[:-1])
    if kind.letter == "bf":
        raw = values.astype(np.float32).view(np.uint32)
        made = (
            (raw + (((raw >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
        ).astype(np.uint16)
        return np.where(np.isnan(values), np.uint16(0x7FFF), made)
    with np.errstate(all="ignore"):
        typed = np.ascontiguousarray(values.astype(kind.numpy))
    return typed.view(f"u{kind.bits // 8}")


def _least(parts: list[str], kind: _Kind, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmin(a, b) if kind.letter in ("f", "bf") and "NaN" not in parts else np.minimum(a, b)


def _most(parts: list[str], kind: _Kind, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmax(a, b) if kind.letter in ("f", "bf") and "NaN" not in parts else np.maximum(a, b)


def _divide(parts: list[str], kind: _Kind, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if kind.letter in ("f", "bf"):
        return a / b
    if not b.all():
        raise NotEvaluated("a division of integers by zero")
    whole = np.abs(a.astype(object)) // np.abs(b.astype(object))
    made: np.ndarray = np.where((a < 0) != (b < 0), -whole, whole).astype(kind.numpy)
    return made


def _shift_left(parts: list[str], kind: _Kind, a: np.ndarray, by: np.ndarray) -> np.ndarray:
    far = by >= kind.bits
    return np.where(far, 0, a << np.where(far, 0, by).astype(a.dtype)).astype(a.dtype)


def _shift_right(parts: list[str], kind: _Kind, a: np.ndarray, by: np.ndarray) -> np.ndarray:
    far = by >= kind.bits
    filled = np.where(a < 0, -1, 0) if kind.letter == "s" else 0
    return np.where(far, filled, a >> np.where(far, 0, by).astype(a.dtype)).astype(a.dtype)


def _extract(parts: list[str], kind: _Kind, a: np.ndarray, at: np.ndarray, count: np.ndarray) -> np.ndarray:
    at, count = at & np.uint32(0xFF), count & np.uint32(0xFF)
    made = a.astype(np.int64) >> np.minimum(at, 63).astype(np.int64)
    mask = (np.int64(1) << np.minimum(count, 62).astype(np.int64)) - 1
    field = made & mask
    sign = (field >> np.maximum(count.astype(np.int64) - 1, 0)) & 1
    return field - ((sign << count.astype(np.int64)) if kind.letter == "s" else 0)


def _insert(
    parts: list[str], kind: _Kind, a: np.ndarray, b: np.ndarray, at: np.ndarray, count: np.ndarray
) -> np.ndarray:
    at, count = (at & np.uint32(0xFF)).astype(np.uint64), (count & np.uint32(0xFF)).astype(np.uint64)
    mask = ((np.uint64(1) << np.minimum(count, np.uint64(63))) - np.uint64(1)) << np.minimum(
        at, np.uint64(63)
    )
    wide = a.astype(np.uint64) << np.minimum(at, np.uint64(63))
    return (b.astype(np.uint64) & ~mask) | (wide & mask)


def _table(
    parts: list[str], kind: _Kind, a: np.ndarray, b: np.ndarray, c: np.ndarray, t: np.ndarray
) -> np.ndarray:
    """`lop3`: a function of three bits, by its truth table."""
    made = np.zeros_like(a)
    for row in range(8):
        chosen = [one if row >> (2 - place) & 1 else ~one for place, one in enumerate((a, b, c))]
        made |= np.where(
            (t >> t.dtype.type(row)) & t.dtype.type(1), chosen[0] & chosen[1] & chosen[2], 0
        ).astype(a.dtype)
    return made


_Function = Callable[..., np.ndarray]
_UNARY: dict[str, _Function] = {
    "abs": lambda parts, kind, x: np.abs(x),
    "neg": lambda parts, kind, x: -x,
    "ex2": lambda parts, kind, x: approximate.power_of_two(x),
    "lg2": lambda parts, kind, x: approximate.logarithm(x),
    "rcp": lambda parts, kind, x: 1.0 / x,
    "sqrt": lambda parts, kind, x: np.sqrt(x),
    "rsqrt": lambda parts, kind, x: 1.0 / np.sqrt(x),
    "sin": lambda parts, kind, x: approximate.sine(x),
    "cos": lambda parts, kind, x: approximate.cosine(x),
    "tanh": lambda parts, kind, x: approximate.hyperbolic_tangent(x),
    "popc": lambda parts, kind, x: libdevice.popc(x),
    "clz": lambda parts, kind, x: libdevice.clz(x),
    "brev": lambda parts, kind, x: libdevice.brev(x),
}
_BINARY: dict[str, _Function] = {
    "add": lambda parts, kind, a, b: a + b,
    "sub": lambda parts, kind, a, b: a - b,
    "mul": lambda parts, kind, a, b: a * b,
    "div": _divide,
    "rem": lambda parts, kind, a, b: a - _divide(parts, kind, a, b) * b,
    "min": _least,
    "max": _most,
    "shl": _shift_left,
    "shr": _shift_right,
    "copysign": lambda parts, kind, a, b: np.copysign(b, a),
}
_TERNARY: dict[str, _Function] = {
    "fma": lambda parts, kind, a, b, c: _fuse(a, b, c),
    "mad": lambda parts, kind, a, b, c: a * b + c,
    "sad": lambda parts, kind, a, b, c: np.where(a > b, a - b, b - a) + c,
    "prmt": lambda parts, kind, a, b, c: libdevice.byte_perm(a, b, c),
    "bfe": _extract,
    "bfi": _insert,
    "lop3": _table,
}
_BITWISE: dict[str, _Function] = {
    "and": lambda parts, kind, a, b: a & b,
    "or": lambda parts, kind, a, b: a | b,
    "xor": lambda parts, kind, a, b: a ^ b,
    "not": lambda parts, kind, a: ~a,
    "cnot": lambda parts, kind, a: (a == 0).astype(a.dtype),
}


def _fuse(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    if a.dtype == np.float64:
        return a * b + c
    made: np.ndarray = (a.astype(np.float64) * b + c).astype(a.dtype)
    return made


def _move(
    machine: _Machine, parts: list[str], kinds: list[_Kind], operands: list[str], where: np.ndarray | None
) -> None:
    kind = kinds[0] if kinds else _Kind("b", 32)
    machine.write(operands[0], machine.bits(operands[1], kind.bits * kind.lanes), where)


def _convert(
    machine: _Machine, parts: list[str], kinds: list[_Kind], operands: list[str], where: np.ndarray | None
) -> None:
    if len(kinds) != 2 or any(part.startswith(("e4m3", "e5m2", "e2m", "tf32", "ue8")) for part in parts):
        raise NotEvaluated("a conversion between rare types")
    to, source = kinds
    given = [machine.read(operand, source) for operand in operands[1:]]
    if to.lanes == 2:  # the first operand is the upper half
        if len(given) != 2:
            raise NotEvaluated("a conversion of one number to two")
        value = np.stack([given[1], given[0]], axis=-1)
    else:
        value = given[0]
    rounding = next((part for part in parts if re.fullmatch("r[nzmp]i?", part)), "")
    floating = to.letter in ("f", "bf"), source.letter in ("f", "bf")
    if floating == (False, True):
        whole = {"rni": np.rint, "rmi": np.floor, "rpi": np.ceil}.get(rounding, np.trunc)(value)
        value = libdevice.saturate_to(whole, to.numpy)
    elif floating == (True, True) and rounding.endswith("i"):
        value = {"rni": np.rint, "rmi": np.floor, "rpi": np.ceil, "rzi": np.trunc}[rounding](value)
    elif floating == (True, True) and to.letter == "f" and rounding in ("rz", "rm", "rp"):
        value = libdevice.round_directed(value, to.numpy, {"rz": "z", "rm": "d", "rp": "u"}[rounding])
    elif floating == (True, True) and to.letter == "bf" and rounding == "rz":
        raw = np.ascontiguousarray(value.astype(np.float32)).view(np.uint32)
        value = (raw & np.uint32(0xFFFF0000)).view(np.float32)
    elif floating == (False, False) and "sat" in parts:
        limits = np.iinfo(to.numpy)
        value = np.clip(value.astype(object), limits.min, limits.max).astype(to.numpy)
    if "relu" in parts:
        value = np.maximum(value, 0)
    if "sat" in parts and floating[0]:
        value = np.clip(np.nan_to_num(value, nan=0.0), 0.0, 1.0)
    bits = _as_bits(value, to)
    if to.letter == "s" and operands[0] in machine.widths and machine.widths[operands[0]] > to.bits:
        # Wider registers are sign-extended.
        bits = _as_bits(bits.view(to.numpy).astype(np.int64), _Kind("s", 64))
    machine.write(operands[0], bits, where)


_COMPARE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def _compare(machine: _Machine, parts: list[str], kind: _Kind, operands: Sequence[str]) -> np.ndarray:
    one, other = (machine.read(operand, kind) for operand in operands)
    if kind.lanes == 2:
        raise NotEvaluated("a comparison of two lanes at once")
    nan = np.isnan(one) | np.isnan(other) if kind.letter in ("f", "bf") else np.zeros(one.shape, dtype=bool)
    name = parts[0]
    if name in ("num", "nan"):
        return ~nan if name == "num" else nan
    unordered = len(name) == 3 and name.endswith("u")
    compare = _COMPARE.get(name.removesuffix("u") if unordered else name)
    if compare is None:
        raise NotEvaluated(f"`{name}` is not a comparison")
    found = compare(one, other)
    return (found | nan) if unordered else (found & ~nan)


def _set_predicate(
    machine: _Machine, parts: list[str], kinds: list[_Kind], operands: list[str], where: np.ndarray | None
) -> None:
    found = _compare(machine, parts, kinds[-1], operands[1:3])
    if len(operands) > 3:
        joined = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
        found = joined[parts[1]](found, machine.truth(operands[3]))
    outputs = operands[0].split("|")
    machine.write(outputs[0].strip(), found.astype(np.uint8), where)
    if len(outputs) == 2:
        machine.write(outputs[1].strip(), (~found).astype(np.uint8), where)


def _set(
    machine: _Machine, parts: list[str], kinds: list[_Kind], operands: list[str], where: np.ndarray | None
) -> None:
    if len(operands) != 3 or len(kinds) != 2:
        raise NotEvaluated("`set` with a third operand")
    found = _compare(machine, parts, kinds[1], operands[1:])
    made = found.astype(np.float32) if kinds[0].letter == "f" else -found.astype(np.int32)
    machine.write(operands[0], _as_bits(made, kinds[0]), where)


def _select(
    machine: _Machine, parts: list[str], kinds: list[_Kind], operands: list[str], where: np.ndarray | None
) -> None:
    one, other = (machine.bits(operand, kinds[0].bits) for operand in operands[1:3])
    machine.write(operands[0], np.where(machine.truth(operands[3]), one, other), where)


def _select_by_sign(
    machine: _Machine, parts: list[str], kinds: list[_Kind], operands: list[str], where: np.ndarray | None
) -> None:
    one, other = (machine.bits(operand, kinds[0].bits) for operand in operands[1:3])
    machine.write(operands[0], np.where(machine.read(operands[3], kinds[1]) >= 0, one, other), where)


_SPECIAL: dict[str, Callable[..., None]] = {
    "mov": _move, "cvt": _convert, "setp": _set_predicate, "set": _set, "selp": _select,
    "slct": _select_by_sign,
}  # fmt: skip


def evaluate(
    text: str, constraints: str, given: Sequence[np.ndarray], results: Sequence[np.dtype], pack: int
) -> list[np.ndarray]:
    """The results of `tl.inline_asm_elementwise` on arrays of equal shape: one array for each type of `results`.

    Raises NotEvaluated.
    """
    names = [part.strip() for part in constraints.split(",")]
    outputs = [name for name in names if name.startswith("=")]
    shape = np.broadcast_shapes(*(one.shape for one in given)) if given else (1,)
    total = math.prod(shape)
    if total % pack:
        raise NotEvaluated("fewer elements than one instance of the assembly takes")
    machine = _Machine(total // pack)
    places: list[list[str]] = []
    number = 0
    for kind in results:
        count = pack * kind.itemsize // _register_bytes(kind, pack)
        places.append([f"${number + place}" for place in range(count)])
        for name in places[-1]:
            machine.widths[name] = _register_bytes(kind, pack) * 8
        number += count
    if number != len(outputs):
        raise NotEvaluated("constraints that do not fit what is returned")
    for one in given:
        flat = np.ascontiguousarray(np.broadcast_to(one, shape)).reshape(machine.lanes, pack)
        held = _register_bytes(one.dtype, pack)
        packed = flat.view(f"u{held}") if one.dtype != np.bool_ else flat.astype(f"u{held}")
        for place in range(packed.shape[1]):
            machine.widths[f"${number}"] = held * 8
            machine.registers[f"${number}"] = packed[:, place].copy()
            number += 1
    tied = [place for place, name in enumerate(names[len(outputs) :]) if name.isdigit()]
    for place in tied:
        machine.registers[f"${names[len(outputs) + place]}"] = machine.registers[f"${len(outputs) + place}"]
    with np.errstate(all="ignore"):
        _execute(machine, text)
    made = []
    for kind, registers in zip(results, places, strict=True):
        if any(name not in machine.registers for name in registers):
            raise NotEvaluated("a result that is never written")
        columns = np.stack([machine.registers[name] for name in registers], axis=1)
        made.append(np.ascontiguousarray(columns).view(kind).reshape(shape))
    return made


def _register_bytes(kind: np.dtype, pack: int) -> int:
    """Bytes of a register for elements of a type: smaller elements share 32 bits, as many as are packed."""
    return kind.itemsize * min(max(4 // kind.itemsize, 1), pack)


def _execute(machine: _Machine, text: str) -> None:
    text = _COMMENT.sub(" ", text)
    for statement in _statements(text):
        declared = _DECLARED.match(statement)
        if declared is None:
            machine.step(statement)
            continue
        kinds = _kinds(f"reg.{declared[1]}")
        if not kinds:
            raise NotEvaluated(f"a register of type {declared[1]}")
        width = kinds[0].bits * kinds[0].lanes
        for name, count in re.findall(r"([\w$%]+)(?:<(\d+)>)?", declared[2]):
            names = [f"{name}{place}" for place in range(int(count))] if count else [name]
            machine.widths |= dict.fromkeys(names, width)


def _statements(text: str) -> list[str]:
    """The statements, without the braces of scopes (those of vectors stay)."""
    found = []
    for raw in text.split(";"):
        plain = raw.strip()
        while plain.startswith(("{", "}")):
            plain = plain[1:].strip()
        while plain.endswith("}") and plain.count("}") > plain.count("{"):
            plain = plain[:-1].strip()
        if plain:
            found.append(" ".join(plain.split()))
    return found
