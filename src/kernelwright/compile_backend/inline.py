"""Traces a kernel's host function to a short fx graph of allocations and launches, so that Inductor launches the kernels itself.

An opaque operator costs the CPU some 80 us per call: dispatch, the host function's Python, Triton's own launcher. Here the
host function runs once, on fake tensors, with stand-ins for its kernels that record each launch as Inductor's higher-order
operator for user kernels. When Inductor lowers our operator, it lowers that graph: buffers come from its memory plan and
launches from its wrapper. Until then the operator is one node without side effects.

A host function that cannot be recorded, or would fix a free size to one value, raises NotTraceable; then the operator stays
opaque.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from kernelwright.graph import Graph, sizes
from kernelwright.graph.execute import DTYPES
from kernelwright.graph.types import TensorType

logger = logging.getLogger(__name__)
_OPTIONS = ("num_warps", "num_stages", "maxnreg")
"""Options of a launch, besides the kernel's own arguments."""


class NotTraceable(Exception):
    """The host function does something that Inductor cannot do in its place."""


def lower_inline(
    operator: torch._ops.OpOverload,
    graph: Graph,
    function: Callable[..., Any],
    holds: Callable[[Sequence[Any]], bool],
) -> None:
    """From now on, let Inductor lower `operator` to what `function` does on a GPU, for arguments for which `holds` is true;
    evaluating that on free sizes adds guards. Raises NotTraceable."""
    from torch._inductor import ir
    from torch._inductor.lowering import (
        constrain_to_fake_tensor,
        fallback_handler,
        process_subgraph_nodes,
        register_lowering,
    )
    from torch._inductor.virtualized import V

    host = _with_stand_ins(function)
    _try(host, graph)
    opaque = fallback_handler(operator, add_to_fallback_set=False)
    plain = [isinstance(one.type, TensorType) and one.type.strides is None for one in graph.arguments]

    def lowered(*values: Any) -> Any:
        known = [node.meta["val"] for node in V.graph.current_node.args]  # type: ignore[union-attr]
        if not holds(known):
            return opaque(*values)
        examples = [one.contiguous() if flat else one for one, flat in zip(known, plain, strict=True)]
        try:
            with V.fake_mode:
                inside = trace(host, examples)
        except NotTraceable as why:
            logger.info("kernelwright: %s is called through Python: %s", operator, why)
            return opaque(*values)
        laid = [
            ir.ExternKernel.require_contiguous(value)
            if contiguous
            else ir.ExternKernel.realize_input(constrain_to_fake_tensor(value, fake))
            for value, fake, contiguous in zip(values, known, plain, strict=True)
        ]
        # An operator's own buffer is returned without the box that lowerings expect.
        boxed = [one if isinstance(one, ir.TensorBox) else ir.TensorBox(one) for one in laid]
        made = process_subgraph_nodes(inside, boxed)
        return made[0] if len(made) == 1 else tuple(made)

    register_lowering(operator, type_promotion_kind=None)(lowered)


def trace(host: Callable[..., Any], examples: Sequence[torch.Tensor]) -> fx.GraphModule:
    """Trace a host function with stand-ins to nodes of ATen and of `triton_kernel_wrapper_mutation`, in order. Placeholders are
    the arguments in the layout the kernel was verified with. Raises NotTraceable."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def flat(*values: torch.Tensor) -> list[torch.Tensor]:
        made = host(*values)
        return [made] if isinstance(made, torch.Tensor) else list(made)

    try:
        made = make_fx(flat)(*examples)
        _without_out(made.graph)
    except NotTraceable:
        raise
    except Exception as error:  # a host function may raise anything
        raise NotTraceable(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}") from None
    made.recompile()
    return made


def _try(host: Callable[..., Any], graph: Graph) -> None:
    """Test the trace with sizes of our own. Raises NotTraceable, also if a free size would be fixed to one value."""
    from torch._dynamo.source import ConstantSource
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    if any(not isinstance(one.type, TensorType) for one in graph.arguments):
        raise NotTraceable("an argument is a number")
    shapes = ShapeEnv()
    free = {
        one.name: shapes.create_unspecified_symint_and_symbol(
            one.hint, ConstantSource(one.name), DimDynamic.DYNAMIC
        )
        for one in graph.symbols
    }
    with FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True):
        trace(host, [_example(one.type, free) for one in graph.arguments])  # type: ignore[arg-type]
    if shapes.replacements:
        raise NotTraceable(f"{min(str(one) for one in shapes.replacements)} would be one size only")


def _without_out(graph: fx.Graph) -> None:
    """Rewrite `mm(a, b, out=c)` with a fresh `c` to `c = mm(a, b)`, since Inductor lacks `out`. Raises NotTraceable for others."""
    for node in list(graph.nodes):
        if "out" not in node.kwargs:
            continue
        into = node.kwargs["out"]
        target = getattr(node.target.overloadpacket, "default", None)
        fresh = into.target in (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default)
        if target is None or not fresh or any(user is not node and user < node for user in into.users):
            raise NotTraceable(f"{node.target} writes into what others read")
        with graph.inserting_before(node):
            kwargs = {name: value for name, value in node.kwargs.items() if name != "out"}
            made = graph.call_function(target, node.args, kwargs)
        made.meta = dict(into.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        into.replace_all_uses_with(made)
        graph.erase_node(into)


def _example(type_: TensorType, free: Mapping[str, Any]) -> torch.Tensor:
    shape = [sizes.evaluate(size, free) for size in type_.shape]
    dtype = DTYPES[type_.dtype]
    if type_.strides is None:
        return torch.empty(shape, dtype=dtype, device="cuda")
    strides = [sizes.evaluate(size, free) for size in type_.strides]
    return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")


def _with_stand_ins(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, and those of its module, with kernels that record launches."""
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction
    from triton.tools.tensor_descriptor import TensorDescriptor

    assert isinstance(function, types.FunctionType)
    own = function.__globals__
    names: dict[str, Any] = dict(own)
    for name, value in own.items():
        if isinstance(value, Autotuner | Heuristics):
            raise NotTraceable("a kernel that chooses its configuration when it is called")
        if isinstance(value, JITFunction):
            names[name] = _Kernel(value)
        elif value is TensorDescriptor:
            names[name] = _Descriptor
        elif isinstance(value, types.FunctionType) and value.__globals__ is own:
            names[name] = types.FunctionType(
                value.__code__, names, name, value.__defaults__, value.__closure__
            )
            names[name].__kwdefaults__ = value.__kwdefaults__
    found: Callable[..., Any] = names[function.__name__]
    return found


class _Descriptor:
    """Stands in for Triton's TensorDescriptor: a tensor and its block shape."""

    def __init__(
        self, base: torch.Tensor, shape: Sequence[int], strides: Sequence[int], block_shape: Sequence[int]
    ):
        self.tensor = base.as_strided(tuple(shape), tuple(strides))
        self.block: list[int | torch.SymInt] = list(block_shape)

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, block_shape: Sequence[int]) -> _Descriptor:
        return cls(tensor, tensor.shape, tensor.stride(), block_shape)


class _Kernel:
    """Stands in for a jitted kernel: `kernel[grid](...)` records a launch."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: self._note(grid, args, kwargs)

    def _note(self, grid: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        from torch._higher_order_ops.triton_kernel_wrap import (
            create_tma_stable_metadata,
            kernel_side_table,
            triton_kernel_wrapper_mutation,
        )

        options = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
        given = self._given(args, kwargs)
        blocks = {name: value for name, value in given.items() if isinstance(value, _Descriptor)}
        plain = {name: value.tensor if name in blocks else value for name, value in given.items()}
        nodes = {
            name: value
            for name, value in plain.items()
            if isinstance(value, torch.Tensor | int | float | torch.SymInt | torch.SymFloat)
        }
        rest = {name: value for name, value in plain.items() if name not in nodes}
        triton_kernel_wrapper_mutation(
            kernel_idx=kernel_side_table.add_kernel(self._configure(options)),
            constant_args_idx=kernel_side_table.add_constant_args(rest),
            grid=[_grid(grid(plain) if callable(grid) else grid)],
            tma_descriptor_metadata={
                name: create_tma_stable_metadata(one.block) for name, one in blocks.items()
            },
            kwargs=nodes,
        )

    def _given(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """All arguments by name, in the kernel's order, with defaults."""
        params = self._kernel.params
        given = {one.name: value for one, value in zip(params, args, strict=False)} | kwargs
        unknown = set(given) - {one.name for one in params}
        if unknown:
            raise NotTraceable(f"launch option {min(unknown)}")
        made = {}
        for one in params:
            if one.name not in given and not one.has_default:
                raise NotTraceable(f"no value for {one.name}")
            value = given.get(one.name, one.default)
            made[one.name] = _fix(value) if one.is_constexpr else value
        return made

    def _configure(self, options: dict[str, Any]) -> Any:
        """The kernel with its launch options, as the only configuration of an autotuner."""
        import triton

        if not options:
            return self._kernel
        return triton.autotune(configs=[triton.Config({}, **options)], key=[])(self._kernel)


def _fix(value: Any) -> Any:
    """The value of a constexpr; a free size is fixed to its current value."""
    if isinstance(value, torch.SymBool):
        return bool(value)
    return int(value) if isinstance(value, torch.SymInt) else value


def _grid(grid: Any) -> tuple[Any, Any, Any]:
    sides = list(grid) if isinstance(grid, Sequence) else [grid]
    if not 1 <= len(sides) <= 3:
        raise NotTraceable("a grid of more than three sides")
    first, second, third = [*sides, 1, 1][:3]
    return first, second, third
