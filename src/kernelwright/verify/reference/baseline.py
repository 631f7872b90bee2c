"""The modelled baselines of a task: what eager PyTorch and torch.compile would cost on a target.

The reference runs once on meta tensors at full size while its aten operators are recorded. Eager is one launch per
operator, each reading its inputs and writing its outputs. The compiled baseline fuses every run of pointwise and reduction
operators between two contractions, as Inductor would, up to a reduction that all programs wait for. A fused kernel reads what
it does not make itself and writes what others read. Both are models.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import flop_registry

from kernelwright.errors import InfrastructureError
from kernelwright.graph.operators import RECURRENT, packet
from kernelwright.hardware import Target
from kernelwright.precision import Precision
from kernelwright.records import Binary, Cost, Task
from kernelwright.verify import one_call, without_data
from kernelwright.verify.cost import model as cost
from kernelwright.verify.cost.eager import BY_INDEX
from kernelwright.verify.cost.footprint import Footprint, Live
from kernelwright.verify.messages import Gradients
from kernelwright.verify.reference import gaps
from kernelwright.verify.reference.task_module import Reference, private_rng, runs_reference
from kernelwright.verify.sandbox import channel
from kernelwright.verify.structures import (
    Args,
    DispatchMode,
    Function,
    Kwargs,
    Op,
    convert,
    describe,
    flatten,
    skeleton,
)
from kernelwright.verify.trace import replay
from kernelwright.verify.trace.overlap import sharing
from kernelwright.verify.trace.pretend_cuda import ALLOCATION, METADATA, VIEWS
from kernelwright.verify.trace.tape import Tape, View

# Share of peak bandwidth that PyTorch's own kernels reach on large tensors, measured on an H200 with torch 2.11
# (benchmarks/golds.py); operators not named here are pointwise.
_POINTWISE = 0.80
_BANDWIDTH = {
    "cumsum": 0.16, "cumprod": 0.02, "logcumsumexp": 0.05, "cummax": 0.05, "cummin": 0.05, "flip": 0.16,
    "logsumexp": 0.11, "_softmax": 0.50, "_log_softmax": 0.50, "nll_loss_forward": 0.50,
    "native_layer_norm": 0.37, "native_group_norm": 0.31, "native_batch_norm": 0.58, "rms_norm": 0.66,
    "argmax": 0.45, "argmin": 0.45, "max": 0.45, "min": 0.45, "amax": 0.45, "amin": 0.45, "prod": 0.45,
    "sum": 0.43, "mean": 0.60, "var": 0.40, "linalg_vector_norm": 0.48, "var_mean": 0.40, "std": 0.40,
    "mse_loss": 0.37, "smooth_l1_loss": 0.37, "huber_loss": 0.37, "binary_cross_entropy": 0.37,
    "avg_pool2d": 0.27, "avg_pool3d": 0.27, "max_pool2d_with_indices": 0.37, "max_pool3d_with_indices": 0.37,
    "convolution": 0.24,
}  # fmt: skip
# Share of peak arithmetic of the library's matrix products, convolutions and fused attention.
_ARITHMETIC = {"convolution": 0.48, "scaled_dot_product_attention": 0.43}
_PRODUCT = 0.70
_FILLS = frozenset({
    "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full",
    "arange",
})  # fmt: skip
"""Allocations that a kernel fills, as a candidate's do. A single number is none: torch passes those to kernels by value."""
_MAPS = frozenset({"log_sigmoid_forward", "hardswish"})
"""Pointwise operators that torch does not tag as pointwise."""
_VECTOR_FLOPS = 4.0
"""Operations per element charged to a pointwise operator."""
_OF_VECTORS = frozenset(["mv", "addmv", "dot", "vdot"])
"""Products that `flop_registry` does not count and that kernels compute without `dot`."""

_OUTSIDE = frozenset(
    ["sort", "topk", "kthvalue", "median", "mode", "nonzero", "bincount", "histc", "multinomial", "randperm", "_unique2",
     "unique_dim", "unique_consecutive", "masked_scatter", "repeat_interleave", "index_reduce", "searchsorted",
     "linalg_inv_ex", "linalg_cholesky_ex", "_linalg_solve_ex", "_linalg_det", "_linalg_slogdet", "_linalg_eigh", "_linalg_svd",
     "linalg_qr", "linalg_lu", "linalg_lu_factor_ex", "linalg_matrix_exp", "linalg_solve_triangular", "triangular_solve",
     "cholesky_solve", "cholesky_inverse"]
)  # fmt: skip
"""Operators that torch.compile leaves to a library and never fuses."""
_SCATTERS = frozenset(
    ["scatter", "scatter_add", "scatter_reduce", "index_put", "_index_put_impl", "_unsafe_index_put", "index_add", "index_copy"]
)  # fmt: skip
"""Operators that write where others have written: they wait for those, and readers wait for them."""


Part = tuple[int, tuple[object, ...]]
"""A value, by number, and how it is viewed: offset, shape and strides."""


@dataclasses.dataclass
class Operator:
    """One aten operator that launches a kernel."""

    name: str
    reads: Mapping[Part, float]
    """Bytes of each part read. A value is the content of a storage between two writes to it."""
    writes: Mapping[Part, float]
    flops: float
    unit: str
    contraction: bool
    results: int
    """Elements of the first output."""
    operands: int
    """Elements of the largest input."""
    waits: int = 1
    """Parts that run one after the other, as a recurrent layer's steps do."""

    @property
    def moved(self) -> float:
        """Bytes read and written."""
        return sum(self.reads.values()) + sum(self.writes.values())


@dataclasses.dataclass(frozen=True)
class Form:
    """What a reference returns at one size, without data; fields are named as in `Case`."""

    name: str
    structure: object
    expected: list[torch.Tensor]
    aliases: list[int]
    shared: list[int]
    written: frozenset[int | str]


@dataclasses.dataclass(frozen=True)
class Baseline:
    """Modelled times of a reference at one size. Milliseconds and bytes."""

    precision: Precision
    eager: Cost
    compiled_ms: float
    min_bytes: float
    init: Any
    input_spec: Any
    """Inputs as a tree of shapes and dtypes, for the host process."""
    contraction_flops: float
    """FLOPs of matrix products and convolutions, as the reference does them."""
    products: bool
    """Whether the reference multiplies matrices or vectors."""
    state: dict[str, torch.Tensor]
    """The reference's weights, without data."""
    gradients: Gradients | None
    """See `ShapeCases.gradients`."""
    form: Form
    read_share: list[float]
    """By input, the share that operators read whatever the indices are; 0 if it is read only by index."""
    footprint: Footprint


class _Fused(TorchFunctionMode):
    """Records functions that are one kernel on a GPU as one operator, though torch on a CPU decomposes them."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(
        self, func: Function, types: object, args: Args = (), kwargs: Kwargs = None
    ) -> object:
        kwargs = kwargs or {}
        op = one_call.overload(func, args, kwargs)
        if op is None:
            return func(*args, **kwargs)
        before = len(self.recorder.operators)
        given = flatten([list(args), kwargs])
        reads = self.recorder.parts(given)
        out = func(*args, **kwargs)
        inside = self.recorder.operators[before:]
        if not inside:
            return out
        del self.recorder.operators[before:]
        flops = sum(op.flops for op in inside if op.contraction)
        name = packet(str(op))
        if "attention" in name and (kwargs.get("is_causal") or any(args[5:6])):
            flops /= 2
        self.recorder.operators.append(
            Operator(
                name=name,
                reads=reads,
                writes=self.recorder.parts(flatten(out)),
                flops=flops or _VECTOR_FLOPS * sum(t.numel() for t in given),
                unit=str(given[0].dtype).removeprefix("torch.") if flops else "float32",
                contraction=flops > 0,
                results=flatten(out)[0].numel(),
                operands=max(t.numel() for t in given),
                waits=one_call.steps(args) if name in RECURRENT else 1,
            )
        )
        return out


class _Recorder(DispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators: list[Operator] = []
        self.read_share: dict[int, float] = {}
        """By storage, the share that some operator reads. Reads of a pointwise operator count only as far as its output is
        read: a kernel need not compute an element that is not selected later."""
        self._made_of: dict[int, frozenset[int]] = {}
        """For a storage written by a pointwise operator: the storages it was made of, element by element."""
        self._values: dict[int, int] = {}
        """By storage, the number of its current value."""
        self._numbers = itertools.count()

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        try:
            self._record(func, args, kwargs, out)
        except Exception as error:  # our own bug, raised inside a call of the reference
            raise InfrastructureError(f"recording {func}: {type(error).__name__}: {error}") from error
        return out

    def _record(self, func: Op, args: Any, kwargs: Any, out: Any) -> None:
        name = func._schema.name.removeprefix("aten::")
        quiet = (name in ALLOCATION and name not in ("fill_", "zero_")) or name in VIEWS or name in METADATA
        if not quiet:
            given = list({id(t): t for t in flatten([list(args), kwargs])}.values())
            outputs = flatten(out)
            reads = self.parts(given)
            if name in BY_INDEX and reads:
                table = next(iter(reads))
                reads[table] = min(reads[table], _rows_bytes(name, given, outputs))
            kept: set[int] = set()
            for place, tensor in enumerate(given):
                if (torch.Tag.pointwise in func.tags or name in _MAPS) and tensor.shape == outputs[0].shape:
                    kept |= self._sources(tensor)
                elif name not in BY_INDEX:
                    self.reads(tensor, gaps.share_read(name, args, outputs) if place == 0 else 1.0)
            self._wrote(outputs, kept)
            counter = flop_registry.get(func._overloadpacket)
            flops = 0.0
            if counter is not None:
                with contextlib.suppress(AssertionError, IndexError, TypeError, ValueError):
                    flops = float(counter(*args, **kwargs, out_val=out))
                    if func._overloadpacket is torch.ops.aten.convolution_backward:
                        flops = _gradient_flops(args)
            contraction = flops > 0
            elements = sum(t.numel() for t in [*given, *outputs])
            first = next((t for t in given if t.is_floating_point()), None)
            dtype = str(first.dtype).removeprefix("torch.") if first is not None else "float32"
            self.operators.append(
                Operator(
                    name=name,
                    reads=reads,
                    writes=self.parts(outputs),
                    flops=flops or _VECTOR_FLOPS * elements,
                    unit=dtype if contraction else "float32",
                    contraction=contraction,
                    results=outputs[0].numel() if outputs else 0,
                    operands=max((t.numel() for t in given), default=0),
                )
            )
        elif name not in VIEWS:
            self._wrote(outputs := flatten(out), set())
            if name in _FILLS and outputs[0].numel() > 1:
                results = outputs[0].numel()
                self.operators.append(
                    Operator("fill_", {}, self.parts(outputs), 0.0, "float32", False, results, 0)
                )

    def value(self, tensor: torch.Tensor) -> int:
        """The number of the value now in a tensor's memory."""
        storage = tensor.untyped_storage()._cdata
        if storage not in self._values:
            self._values[storage] = next(self._numbers)
        return self._values[storage]

    def parts(self, tensors: Iterable[torch.Tensor]) -> dict[Part, float]:
        """Bytes of each tensor, by part."""
        return {(self.value(t), (t.storage_offset(), t.shape, t.stride())): _bytes(t) for t in tensors}

    def reads(self, tensor: torch.Tensor, share: float = 1.0) -> None:
        """Record that this share of `tensor` is read."""
        for storage in self._sources(tensor):
            self.read_share[storage] = max(share, self.read_share.get(storage, 0.0))

    def _sources(self, tensor: torch.Tensor) -> frozenset[int]:
        storage = tensor.untyped_storage()._cdata
        return self._made_of.get(storage, frozenset({storage}))

    def _wrote(self, outputs: Sequence[torch.Tensor], made_of: set[int]) -> None:
        for tensor in outputs:
            storage = tensor.untyped_storage()._cdata
            self._values[storage] = next(self._numbers)
            self._made_of.pop(storage, None)
            if made_of:
                self._made_of[storage] = frozenset(made_of)


def _bytes(tensor: torch.Tensor) -> float:
    """Bytes of a tensor's memory: an expanded dimension counts once."""
    elements = 1
    for extent, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= extent if stride != 0 else 1
    return float(elements * tensor.element_size())


def _rows_bytes(name: str, given: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> float:
    """The most bytes of a table, `given[0]`, that an operator reads by index."""
    table, index = given[0], given[1] if len(given) > 1 else given[0]
    if name == "_embedding_bag":
        return float(index.numel() * table.shape[-1] * table.element_size())
    found = max(sum(t.numel() for t in outputs[:1]), index.numel() if name.startswith("nll_loss") else 0)
    return float(found * table.element_size())


def rates(base: Baseline, ms: float) -> dict[str, float]:
    """`gflop_s` and `gb_s` of a candidate that takes `ms`, from the reference's products and the least bytes moved, so that
    candidates of one task are comparable. Without products only `gb_s`."""
    found = {"gb_s": base.min_bytes / ms / 1e6}
    if base.contraction_flops:
        found["gflop_s"] = base.contraction_flops / ms / 1e6
    return found


def _gradient_flops(args: Args) -> float:
    """FLOPs of a convolution's gradients; torch counts those of grouped weights once per group."""
    grad, x, weight, *_, transposed, _, _, wanted = args
    assert isinstance(grad, torch.Tensor)
    assert isinstance(x, torch.Tensor)
    assert isinstance(weight, torch.Tensor)
    assert isinstance(wanted, list | tuple)
    places = x if transposed else grad
    each = 2.0 * places.numel() * math.prod(weight.shape[1:])
    return each * (bool(wanted[0]) + bool(wanted[1])) + (grad.numel() if wanted[2] else 0)


def baseline(task: Task, shape: dict[str, int], target: Target) -> Baseline:
    """Model the reference at `shape`. Raises UserError if its file cannot be loaded, NotModelled if it raises on meta
    tensors."""
    reference = Reference(task, shape)
    init, module, inputs = _without_data(reference)
    held = dict(enumerate(flatten(inputs))) | module.state_dict()
    versions = {key: tensor._version for key, tensor in held.items()}
    recorder, live = _Recorder(), Live()
    edge = recorder.parts(held.values())
    with (
        runs_reference(), private_rng(0), torch.device("meta"), torch.no_grad(),
        _Fused(recorder), live, recorder,
    ):  # fmt: skip
        output = module(*inputs)
    given, returned = flatten(inputs), flatten(output)
    for tensor in returned:
        recorder.reads(tensor)
    owners = {tensor.untyped_storage()._cdata: index for index, tensor in enumerate(given)}
    kept = recorder.parts([*returned, *held.values()])
    min_bytes = _least(recorder.operators, edge, {part: kept[part] for part in kept if part not in edge})
    eager, useful = _eager(recorder.operators, min_bytes, reference.precision, target)
    compiled = min(_compiled_ms(recorder.operators, frozenset(value for value, _ in kept), target), eager.ms)
    return Baseline(
        precision=reference.precision,
        eager=eager,
        compiled_ms=max(compiled, 1e-6),
        min_bytes=min_bytes,
        init=init,
        input_spec=describe(inputs),
        contraction_flops=sum(useful.values()),
        products=any(op.contraction or op.name in _OF_VECTORS for op in recorder.operators),
        state=dict(module.state_dict()),
        gradients=reference.gradients(module),
        form=Form(
            "full",
            skeleton(output),
            returned,
            [owners.get(tensor.untyped_storage()._cdata, -1) for tensor in returned],
            sharing(returned),
            frozenset(key for key, tensor in held.items() if tensor._version != versions[key]),
        ),
        read_share=[recorder.read_share.get(tensor.untyped_storage()._cdata, 0.0) for tensor in given],
        footprint=Footprint.of(given, returned, module.state_dict(), live.peak),
    )


def _without_data(reference: Reference) -> tuple[list[object], torch.nn.Module, list[Any]]:
    """Arguments of the constructor, the module, and arguments of `forward`."""
    with runs_reference(), private_rng(0), torch.device("meta"), torch.no_grad(), without_data.Remembered():
        init = reference.init_inputs()
        module, inputs = reference.module(init), reference.arguments()
        return init, module.to("meta"), convert(inputs, lambda t: t.to("meta"))


def forms(task: Task, shape: dict[str, int]) -> tuple[list[object], object]:
    """`Baseline.init` and `Baseline.input_spec` at `shape`, whether or not the reference accepts that. Raises as `baseline` does."""
    init, _, inputs = _without_data(Reference(task, shape))
    return init, describe(inputs)


def _unit(op: Operator, precision: Precision) -> str:
    """The unit that computes a contraction: tensor cores for float32 where TF32 is allowed."""
    allowed = precision.convolutions if "convolution" in op.name else precision.products
    return "tf32" if allowed and op.unit == "float32" else op.unit


def _eager(
    operators: Sequence[Operator], min_bytes: float, precision: Precision, target: Target
) -> tuple[Cost, dict[str, float]]:
    """The cost of operators run one by one, and FLOPs of contractions by unit, which may be TF32 where `precision` allows."""
    useful: dict[str, float] = {}
    for op in operators:
        if op.contraction:
            op.unit = _unit(op, precision)
            useful[op.unit] = useful.get(op.unit, 0.0) + op.flops
    moved = sum(op.moved for op in operators)
    cost_of = Cost(
        target=target.name,
        bytes=moved,
        l2_bytes=moved,
        flops=sum(op.flops for op in operators),
        launches=len(operators),
        ms=max(operators_ms(operators, target), 1e-6),
        roofline_ms=cost.roofline_ms(min_bytes, useful, target),
    )
    return cost_of, useful


def _least(operators: Iterable[Operator], given: Mapping[Part, float], left: Mapping[Part, float]) -> float:
    """Bytes that any implementation moves: of what is `given` as much as operators read, and all that is `left` at the end."""
    read: dict[int, float] = {}
    for op in operators:
        for (value, _), size in op.reads.items():
            read[value] = read.get(value, 0.0) + size
    return sum(min(size, read.get(value, 0.0)) for (value, _), size in given.items()) + sum(left.values())


def beside(tape: Tape, precision: Precision) -> list[Operator]:
    """Torch's operations on a tape, next to the candidate's kernels: fills, copies and operators, priced as eager is.

    Raises TapeError for an unknown operator.
    """
    recorder = _Recorder()
    for step in tape.operations:
        fields = step.fields
        if step.kind in ("fill", "arange", "numbers"):
            recorder.operators.append(_moves("fill_", None, fields["view"]))
        elif step.kind == "copy":
            recorder.operators.append(_moves("copy_", fields["source"], fields["target"]))
        elif step.kind == "aten":
            arguments = fields["arguments"]
            with torch.no_grad(), _Fused(recorder), recorder:
                replay.operator(fields["name"])(
                    *(_on_meta(item) for item in arguments["args"]),
                    **{name: _on_meta(item) for name, item in arguments["kwargs"].items()},
                )
    for op in recorder.operators:
        op.unit = _unit(op, precision) if op.contraction else op.unit
    return recorder.operators


def candidate_cost(
    tape: Tape, works: Sequence[cost.Work], binaries: Mapping[str, Binary], target: Target, base: Baseline
) -> tuple[Cost, float]:
    """Modelled cost of a call, torch's part included, and the kernels' share of its time."""
    kernels = cost.total_cost(works, binaries, target, base.eager.roofline_ms)
    operators = beside(tape, base.precision)
    moved = sum(op.moved for op in operators)
    whole = kernels.model_copy(
        update={
            "bytes": kernels.bytes + moved,
            "l2_bytes": kernels.l2_bytes + moved,
            "flops": kernels.flops + sum(op.flops for op in operators),
            "launches": kernels.launches + len(operators),
            "ms": kernels.ms + operators_ms(operators, target),
        }
    )
    return whole, kernels.ms / whole.ms


def _bytes_of(view: View | None) -> dict[Part, float]:
    return {} if view is None else {(0, ()): float(view.numel * view.itemsize)}


def _moves(name: str, source: View | None, target: View) -> Operator:
    """A fill or copy of a tape, as an operator."""
    reads, writes = (_bytes_of(view) for view in (source, target))
    operands = 0 if source is None else source.numel
    return Operator(name, reads, writes, 0.0, "float32", False, target.numel, operands)


def _on_meta(item: object) -> Any:
    """An operator's argument with tensors on meta."""
    if isinstance(item, dict) and "view" in item:
        view = View.read(item["view"])
        return torch.empty_strided(view.shape, view.stride, dtype=channel.DTYPES[view.dtype], device="meta")
    if isinstance(item, list):
        return [_on_meta(part) for part in item]
    return replay.scalar(item)


def operators_ms(operators: Iterable[Operator], target: Target) -> float:
    """Modelled milliseconds of operators run one by one."""
    return sum(
        _operator_ms(op.name, op.moved, {op.unit: op.flops}, op.contraction, target, op.waits)
        for op in operators
    )


def _operator_ms(
    name: str, moved: float, flops: dict[str, float], contraction: bool, target: Target, waits: int = 1
) -> float:
    memory = moved / (target.dram_gb_s * 1e9 * _BANDWIDTH.get(name, _POINTWISE))
    share = _ARITHMETIC.get(name, _PRODUCT) if contraction else 0.5
    compute = sum(
        n / (target.peak_tflops.get(unit, target.fp32_tflops) * 1e12 * share) for unit, n in flops.items()
    )
    floor = waits * target.latency_ns * 2e-9  # even an empty kernel waits for one round trip to memory
    return 1e3 * max(memory, compute, floor) + 1e-3 * target.launch_us


_WAITS = 64
"""Elements per result from which a reduction is split, if there are fewer than two results per multiprocessor."""


def _compiled_ms(operators: Sequence[Operator], kept: frozenset[int], target: Target) -> float:
    """Contractions and library calls cost what they do in eager. Each run of others is one kernel, which reads what it does
    not make and writes what is `kept` or read later, plus one launch if a reduction is split among multiprocessors. What is
    filled for a library's call is a launch of its own, once for all of one shape."""
    given = {value for op in operators if _is_apart(op) for value, _ in op.reads}
    last = {value: place for place, op in enumerate(operators) for value, _ in op.reads}
    total, first = 0.0, 0
    for run in _runs(operators, target.sms):
        end = first + len(run)
        if _is_apart(run[0]):
            total += operators_ms(run, target)
        else:
            fills = [op for op in run if op.name == "fill_" and any(value in given for value, _ in op.writes)]
            of_shape = {tuple(place for _, place in op.writes): op for op in fills}
            total += operators_ms(of_shape.values(), target)
            run = [op for op in run if op not in fills]
            made = {value for op in run for value, _ in op.writes}
            reads = {part: size for op in run for part, size in op.reads.items() if part[0] not in made}
            writes = {
                part: size
                for op in run
                for part, size in op.writes.items()
                if part[0] in kept or last.get(part[0], -1) >= end
            }
            moved = sum(reads.values()) + sum(writes.values())
            if run:
                total += _operator_ms("", moved, {"float32": sum(op.flops for op in run)}, False, target)
            total += 1e-3 * target.launch_us * any(_is_split(op, target.sms) for op in run)
        first = end
    return total


def _runs(operators: Iterable[Operator], sms: int) -> Iterator[list[Operator]]:
    """Operators grouped by launch: contractions and library calls alone, others together up to a scatter, or up to a reader of
    the result of a scatter or split reduction."""
    run: list[Operator] = []
    waited: set[int] = set()
    for op in operators:
        apart = _is_apart(op) or op.name in _SCATTERS or (bool(run) and _is_apart(run[0]))
        if run and (apart or any(value in waited for value, _ in op.reads)):
            yield run
            run, waited = [], set()
        run.append(op)
        if _is_split(op, sms) or op.name in _SCATTERS:
            waited |= {value for value, _ in op.writes}
    if run:
        yield run


def _is_apart(op: Operator) -> bool:
    return op.contraction or op.name in _OUTSIDE


def _is_split(op: Operator, sms: int) -> bool:
    return (
        not op.contraction
        and op.results < 2 * sms
        and op.operands >= _WAITS * max(op.results, 1)
        and op.operands >= 2**16
    )
