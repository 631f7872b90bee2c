"""A kernel's host function as a short fx graph of allocations and launches, so that Inductor launches the kernels itself.

An opaque operator costs the CPU some 50 us a call: dispatch, the host function's Python, Triton's own launcher. Here the
host function runs once, on fake tensors of the graph's sizes, with stand-ins for its kernels that note each launch as the
higher-order operator that Inductor has for users' kernels. When Inductor lowers our operator, it lowers that graph: buffers
come from its memory plan and launches from its wrapper. Until then the operator is one node without side effects.

Only for graphs of fixed sizes. What a host function does that cannot be noted raises NotTraceable; the operator then stays opaque.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from kernelwright.graph import Graph, sizes
from kernelwright.graph.execute import DTYPES
from kernelwright.graph.types import TensorType

_OPTIONS = ("num_warps", "num_stages", "maxnreg")
"""Of a launch, beside the kernel's own arguments."""


class NotTraceable(Exception):
    """The host function does what Inductor could not do for it."""


def traced(graph: Graph, function: Callable[..., Any]) -> fx.GraphModule:
    """What `function` does on a GPU, as nodes of ATen and of `triton_kernel_wrapper_mutation`, in order. Its placeholders are
    the graph's arguments, contiguous or as the graph lays them out. Raises NotTraceable."""
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    if graph.symbols or any(not isinstance(one.type, TensorType) for one in graph.arguments):
        raise NotTraceable("sizes are not fixed")
    host = _with_stand_ins(function)

    def flat(*values: torch.Tensor) -> list[torch.Tensor]:
        made = host(*values)
        return [made] if isinstance(made, torch.Tensor) else list(made)

    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            examples = [_example(one.type) for one in graph.arguments]  # type: ignore[arg-type]
            made = make_fx(flat)(*examples)
        _without_out(made.graph)
    except NotTraceable:
        raise
    except Exception as error:  # whatever Python a host function may hold
        raise NotTraceable(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}") from None
    made.recompile()
    return made


def _without_out(graph: fx.Graph) -> None:
    """`mm(a, b, out=c)` into a fresh `c` as `c = mm(a, b)`: Inductor has no `out`. Raises NotTraceable for any other."""
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


def lower_inline(operator: torch._ops.OpOverload, graph: Graph, inside: fx.GraphModule) -> None:
    """Let Inductor lower `operator` to the launches `inside`, from now on."""
    from torch._inductor import ir
    from torch._inductor.lowering import process_subgraph_nodes, register_lowering
    from torch._inductor.virtualized import V

    plain = [isinstance(one.type, TensorType) and one.type.strides is None for one in graph.arguments]

    def lowered(*values: Any) -> Any:
        laid = [
            ir.ExternKernel.require_contiguous(value) if contiguous else ir.ExternKernel.realize_input(value)
            for value, contiguous in zip(values, plain, strict=True)
        ]
        for node in inside.graph.nodes:  # a graph can hold the operator twice
            V.graph.env.pop(node, None)
        made = process_subgraph_nodes(inside, laid)
        return made[0] if len(made) == 1 else tuple(made)

    register_lowering(operator, type_promotion_kind=None)(lowered)


def _example(type_: TensorType) -> torch.Tensor:
    shape = [int(sizes.evaluate(size, {})) for size in type_.shape]
    dtype = DTYPES[type_.dtype]
    if type_.strides is None:
        return torch.empty(shape, dtype=dtype, device="cuda")
    strides = [int(sizes.evaluate(size, {})) for size in type_.strides]
    return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")


def _with_stand_ins(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, and those of its module that it calls, with launches that are noted."""
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
    """Stands in for Triton's TensorDescriptor: a tensor and the block that is moved."""

    def __init__(
        self, base: torch.Tensor, shape: Sequence[int], strides: Sequence[int], block_shape: Sequence[int]
    ):
        self.tensor = base.as_strided(tuple(shape), tuple(strides))
        self.block: list[int | torch.SymInt] = list(block_shape)

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, block_shape: Sequence[int]) -> _Descriptor:
        return cls(tensor, tensor.shape, tensor.stride(), block_shape)


class _Kernel:
    """Stands in for a jitted kernel: `kernel[grid](...)` notes a launch."""

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
            if isinstance(value, torch.Tensor | int | float | bool)
        }
        rest = {name: value for name, value in plain.items() if name not in nodes}
        triton_kernel_wrapper_mutation(
            kernel_idx=kernel_side_table.add_kernel(self._configured(options)),
            constant_args_idx=kernel_side_table.add_constant_args(rest),
            grid=[_grid(grid(plain) if callable(grid) else grid)],
            tma_descriptor_metadata={
                name: create_tma_stable_metadata(one.block) for name, one in blocks.items()
            },
            kwargs=nodes,
        )

    def _given(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Every argument by its name, in the kernel's order, defaults included."""
        params = self._kernel.params
        given = {one.name: value for one, value in zip(params, args, strict=False)} | kwargs
        unknown = set(given) - {one.name for one in params}
        if unknown:
            raise NotTraceable(f"launch option {min(unknown)}")
        made = {}
        for one in params:
            if one.name not in given and not one.has_default:
                raise NotTraceable(f"no value for {one.name}")
            made[one.name] = given.get(one.name, one.default if one.has_default else None)
        return made

    def _configured(self, options: dict[str, Any]) -> Any:
        """The kernel with its launch options: by the one configuration of an autotuner that has nothing to choose."""
        import triton

        if not options:
            return self._kernel
        return triton.autotune(configs=[triton.Config({}, **options)], key=[])(self._kernel)


def _grid(grid: Any) -> tuple[int, int, int]:
    sides = [int(one) for one in (grid if isinstance(grid, Sequence) else [grid])]
    if not 1 <= len(sides) <= 3:
        raise NotTraceable("a grid of more than three sides")
    first, second, third = [*sides, 1, 1][:3]
    return first, second, third
