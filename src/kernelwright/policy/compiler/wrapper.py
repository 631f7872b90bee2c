"""Parses Inductor's `call`: the buffers it allocates, the kernels it launches with which arguments, and its results.

The result is plain data over expressions in the graph's symbols; nothing is executed. Calls other than Triton kernels raise
`CannotCompile("extern: aten.mm")` and the like; unknown forms of wrapper code raise `unsupported`.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelwright.graph import operators
from kernelwright.graph.types import Dim
from kernelwright.parsing import names_within, substitute
from kernelwright.policy.compiler.lower import Lowered
from kernelwright.policy.compiler.reasons import CannotCompile

_IGNORED = {
    "copy_if_misaligned", "assert_size_stride", "assert_alignment", "get_raw_stream", "clear", "set_device",
}  # fmt: skip


@dataclass(eq=False)
class Tensor:
    """A tensor in `call`: an argument, or a buffer that it allocates."""

    name: str
    """The argument's name, or Inductor's name of a buffer."""
    kind: str
    """`input` or `buffer`."""
    size: list[ast.expr]
    stride: list[ast.expr]
    dtype: str
    offset: ast.expr | None = None
    of: Tensor | None = None
    """The tensor that this is a view of."""
    zeroed: bool = False

    @property
    def base(self) -> Tensor:
        return self if self.of is None else self.of.base

    @property
    def start(self) -> ast.expr | None:
        """Offset of this view from the start of its base, in elements; None: no offset."""
        before = self.of.start if self.of is not None else None
        if self.offset is None or before is None:
            return self.offset if before is None else before
        return ast.BinOp(copy.deepcopy(before), ast.Add(), copy.deepcopy(self.offset))


@dataclass
class Launch:
    kernel: str
    arguments: list[Any]
    """Tensors and expressions."""


@dataclass
class Library:
    """A call that stays with ATen."""

    function: str
    """Name in torch's public API, such as `torch.mm`; the operator's name, such as `aten.topk.default`, if `_PUBLIC` lacks
    it."""
    arguments: list[Any]
    """Tensors and expressions."""
    options: dict[str, Any]
    results: list[Tensor | None]
    """None for a result that is not read."""
    given: bool
    """Whether it writes to an existing buffer: `out=`, or the first argument of a function whose name ends with an underscore."""
    contiguous: bool = False
    """Whether kernels expect its result to be contiguous: for operators whose strides Inductor does not know."""


_PUBLIC = {
    "mm": "torch.mm", "bmm": "torch.bmm", "addmm": "torch.addmm", "bias_addmm": "torch.addmm",
    "baddbmm": "torch.baddbmm", "_int_mm": "torch._int_mm", "convolution": "torch.convolution",
    "attention": "torch.nn.functional.scaled_dot_product_attention",
    "grouped_convolution": "torch.convolution",
}  # fmt: skip
"""Calls in Inductor's wrapper that may stay, by the last part of their name."""
_LINEAR_ALGEBRA = re.compile(r"aten\.(_?linalg_|cholesky|triangular_solve)")
"""Decompositions and systems, for which nobody has code but the library."""
_IN_PLACE = {
    "aten.scatter_reduce_.two": "torch.Tensor.scatter_reduce_",
    "aten.scatter_.src": "torch.Tensor.scatter_",
    "aten.scatter_.value": "torch.Tensor.scatter_",
}
"""Calls that write to a buffer of Inductor's own, their first argument."""


@dataclass
class Plan:
    """The steps of `call`, in order."""

    steps: list[Tensor | Launch | Library] = field(default_factory=list)
    """Allocations of buffers, launches, and library calls."""
    outputs: list[Tensor] = field(default_factory=list)
    kernels: dict[str, str] = field(default_factory=dict)
    """Kernel name -> source."""


def read(lowered: Lowered) -> Plan:
    """Parse Inductor's module. Raises CannotCompile."""
    tree = ast.parse(lowered.code)
    plan = Plan()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            call = node.value
            if ast.unparse(call.func) == "async_compile.triton":
                plan.kernels[call.args[0].value] = call.args[1].value  # type: ignore[attr-defined]
            elif ast.unparse(call.func).startswith("async_compile."):
                raise CannotCompile("unsupported", ast.unparse(call.func))
    body = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "call")
    _Reader(lowered, plan).run(body)
    if not any(isinstance(step, Launch | Library) for step in plan.steps):
        raise CannotCompile("unsupported", "no kernel: only views")
    return plan


class _Reader:
    def __init__(self, lowered: Lowered, plan: Plan) -> None:
        self.lowered, self.plan = lowered, plan
        self.scalars: dict[str, ast.expr] = {}
        self.tensors: dict[str, Tensor] = {}
        self.several: dict[str, Library] = {}
        """Calls with several results, by the name of the tuple."""

    def run(self, body: ast.FunctionDef) -> None:
        for statement in _statements(body.body):
            self._step(statement)

    def _step(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for value in values:
                self.plan.outputs.append(self._output(value))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assign(node.targets[0], node.value)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._call(node.value)
        elif isinstance(node, ast.Delete) or _is_note(node):
            return
        else:
            raise CannotCompile("unsupported", f"wrapper statement {ast.unparse(node)[:60]}")

    def _output(self, value: ast.expr | None) -> Tensor:
        if isinstance(value, ast.Name) and value.id in self.tensors:
            return self.tensors[value.id]
        if isinstance(value, ast.Call) and "reinterpret_tensor" in ast.unparse(value.func):
            return self._view("output", value)
        raise CannotCompile("unsupported", f"output {ast.unparse(value)[:60] if value else None}")

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            return self._arguments([element.id for element in target.elts if isinstance(element, ast.Name)])
        if not isinstance(target, ast.Name):
            raise CannotCompile("unsupported", f"wrapper assignment to {ast.unparse(target)[:60]}")
        name = target.id
        if isinstance(value, ast.Name) and value.id in self.tensors:
            self.tensors[name] = self.tensors[value.id]
            return None
        if isinstance(value, ast.Subscript) and ast.unparse(value.value) in self.several:
            made = self.tensors[name] = Tensor(name, "buffer", [], [], "")
            self.several[ast.unparse(value.value)].results[ast.literal_eval(value.slice)] = made
            return None
        if not isinstance(value, ast.Call):
            self.scalars[name] = self.resolve(value)
            return None
        function = ast.unparse(value.func).rpartition(".")[2]
        if function in _IGNORED:
            return None
        if function.startswith("empty_strided_cuda"):
            size, stride, dtype = value.args[:3]
            self._made(Tensor(name, "buffer", self._list(size), self._list(stride), ast.unparse(dtype)))
        elif function == "reinterpret_tensor":
            self.tensors[name] = self._view(name, value)
        elif function in ("max", "min"):
            self.scalars[name] = self.resolve(value)
        elif (public := self._public(value)) is not None:
            self.tensors[name] = self._stays(public, value, Tensor(name, "buffer", [], [], ""), False)
        else:
            self._operator(name, value)
        return None

    def _operator(self, name: str, call: ast.Call) -> None:
        """A call of an operator that Inductor has no code for. Raises CannotCompile if it may not stay."""
        op = ast.unparse(call.func).removeprefix("torch.ops.")
        stays = op.startswith("aten.") and operators.kind(op) not in ("other", "random")
        stays |= bool(_LINEAR_ALGEBRA.match(op))
        if self.lowered.contractions != "auto" or not stays:
            raise _extern(call)
        count = len(operators.resolve(op)._schema.returns)
        made: list[Tensor | None] = [Tensor(name, "buffer", [], [], "")] if count == 1 else [None] * count
        step = self._staying(op, call, made, False, True)
        if made[0] is None:
            self.several[name] = step
        else:
            self.tensors[name] = made[0]

    def _arguments(self, names: Sequence[str]) -> None:
        lowered = self.lowered
        skip = len(lowered.symbols)
        for name, symbol in zip(names, lowered.symbols, strict=False):
            self.scalars[name] = ast.Name(symbol, ast.Load())
        for name, label in zip(names[skip:], lowered.arguments, strict=True):
            kind = lowered.types[label]
            size = dims(kind.shape)
            stride = contiguous_strides(size) if kind.strides is None else dims(kind.strides)
            self.tensors[name] = Tensor(label, "input", size, stride, f"torch.{kind.dtype}")

    def _call(self, call: ast.Call) -> None:
        text = ast.unparse(call.func)
        owner, _, method = text.rpartition(".")
        if method == "assert_size_stride" and isinstance(call.args[0], ast.Name):
            made = self.tensors.get(call.args[0].id)
            if made is not None and made.kind == "buffer" and not made.dtype:
                made.size, made.stride = self._list(call.args[1]), self._list(call.args[2])
        if method in _IGNORED or text in _IGNORED:
            return
        if method == "run" and owner in self.plan.kernels:
            self.plan.steps.append(Launch(owner, [self._argument(argument) for argument in call.args]))
            return
        if method == "zero_" and owner in self.tensors:
            self.tensors[owner].zeroed = True
            return
        if method == "default" and owner.endswith("._linalg_check_errors"):
            self._check_errors(call)
            return
        if text in _IN_PLACE and self.lowered.contractions == "auto":
            target = self._argument(call.args[0])
            if isinstance(target, Tensor) and target.kind == "buffer":
                self._staying(_IN_PLACE[text], call, [target], True, False)
                return
        public = self._public(call)
        out = next((word.value for word in call.keywords if word.arg == "out"), None)
        if public is not None and out is not None:
            target = self._argument(out)
            assert isinstance(target, Tensor)
            self._stays(public, call, target, True)
            return
        raise _extern(call)

    def _check_errors(self, call: ast.Call) -> None:
        """Makes the operator whose codes this call reads raise by itself, as in `torch.linalg.inv_ex(x, check_errors=True)`."""
        codes = self._argument(call.args[0])
        for step in self.several.values():
            if any(one is codes for one in step.results):
                step.results = [None if one is codes else one for one in step.results]
                step.options["check_errors"] = ast.Constant(True)
                return
        raise _extern(call)

    def _public(self, call: ast.Call) -> str | None:
        """The public name of a call that may stay with the library."""
        text = ast.unparse(call.func).removesuffix(".default")
        owner, _, name = text.rpartition(".")
        allowed = self.lowered.contractions == "auto" and owner in (
            "extern_kernels",
            "torch.ops.kernelwright",
        )
        return _PUBLIC.get(name) if allowed else None

    def _stays(self, public: str, call: ast.Call, result: Tensor, given: bool) -> Tensor:
        ours = "torch.ops.kernelwright." in ast.unparse(call.func)
        self._staying(public, call, [result], given, ours)
        return result

    def _staying(
        self, function: str, call: ast.Call, results: list[Tensor | None], given: bool, contiguous: bool
    ) -> Library:
        arguments = [self._argument(one) for one in call.args]
        options = {
            word.arg: self._argument(word.value) for word in call.keywords if word.arg and word.arg != "out"
        }
        step = Library(function, arguments, options, results, given, contiguous)
        self.plan.steps.append(step)
        return step

    def _argument(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name) and node.id in self.tensors:
            return self.tensors[node.id]
        if isinstance(node, ast.Call) and "reinterpret_tensor" in ast.unparse(node.func):
            return self._view("view", node)
        if not self.tensors.keys().isdisjoint(names_within(node)):
            raise CannotCompile("unsupported", f"tensors in an argument {ast.unparse(node)[:60]}")
        return self.resolve(node)

    def _view(self, name: str, call: ast.Call) -> Tensor:
        of = self._argument(call.args[0])
        if not isinstance(of, Tensor):
            raise CannotCompile("unsupported", "a view of something unknown")
        size, stride = self._list(call.args[1]), self._list(call.args[2])
        offset = self.resolve(call.args[3]) if len(call.args) > 3 else ast.Constant(0)
        plain = isinstance(offset, ast.Constant) and offset.value == 0
        return Tensor(name, of.kind, size, stride, of.dtype, None if plain else offset, of)

    def _made(self, tensor: Tensor) -> None:
        self.tensors[tensor.name] = tensor
        self.plan.steps.append(tensor)

    def _list(self, node: ast.expr) -> list[ast.expr]:
        return [self.resolve(element) for element in getattr(node, "elts", [])]

    def resolve(self, node: ast.expr) -> ast.expr:
        """The expression with every scalar of the wrapper substituted."""
        return substitute(copy.deepcopy(node), self.scalars)


def dims(sizes: Sequence[Dim]) -> list[ast.expr]:
    """Sizes of a graph as expressions."""
    return [ast.parse(str(size), mode="eval").body for size in sizes]


def contiguous_strides(size: Sequence[ast.expr]) -> list[ast.expr]:
    strides: list[ast.expr] = []
    product: ast.expr = ast.Constant(1)
    for side in reversed(size):
        strides.insert(0, product)
        product = ast.BinOp(copy.deepcopy(side), ast.Mult(), copy.deepcopy(product))
    return strides


def dense(size: Sequence[ast.expr], stride: Sequence[ast.expr]) -> bool:
    """Whether these are a contiguous tensor's strides, ignoring dimensions of size 1."""
    wanted = contiguous_strides(size)
    pairs = zip(size, stride, wanted, strict=True)
    return all(
        (isinstance(side, ast.Constant) and side.value == 1) or same(given, want)
        for side, given, want in pairs
    )


def same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two size expressions are equal at random sizes of very different magnitudes, which matters for quotients."""
    dice = random.Random(7)
    names = {*names_within(one), *names_within(other)}
    for _ in range(12):
        space = {name: int(2 ** dice.uniform(1, 20)) for name in sorted(names - {"max", "min"})}
        if evaluate(one, space) != evaluate(other, space):
            return False
    return True


def all_same(one: Sequence[ast.expr], other: Sequence[ast.expr]) -> bool:
    return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))


def evaluate(node: ast.expr, space: Mapping[str, int]) -> Any:
    """The value of a size expression."""
    return eval(ast.unparse(node), {"__builtins__": {"max": max, "min": min}}, dict(space))


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.With):
            yield from _statements(node.body)
        else:
            yield node


def _is_note(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _extern(call: ast.Call) -> CannotCompile:
    text = ast.unparse(call.func)
    operator = re.search(r"(?:extern_kernels|aten)\.(\w+)", text)
    if operator:
        name = operator[1]
        if name.startswith("inductor_") or "rand" in name:
            return CannotCompile("random", f"aten.{name}")
        return CannotCompile("extern", f"aten.{name}")
    return CannotCompile("extern" if "torch.ops" in text else "unsupported", f"call of {text[:60]}")
