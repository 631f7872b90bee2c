"""The reference side of the trust boundary: inputs from secret seeds, expected outputs in fp64, tolerances.

Nothing here ever enters a worker but inputs and weights. The allowed error is a small multiple of what an
honest PyTorch run in the task's own precision gets wrong against fp64, and never looser than the protocol.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import math
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from kernelwright.drawing import DRAWING
from kernelwright.errors import UserError
from kernelwright.records import Mismatch, Task
from kernelwright.shapes import apply_shape
from kernelwright.verify import affine, channel, tf32
from kernelwright.verify.device import poison_mask
from kernelwright.verify.protocol import BELOW_ZERO, Protocol
from kernelwright.verify.room import ran_out

INIT_SEED = 20_231
"""Weights are drawn under a public seed: it is the inputs that are secret."""

# Multiples of (honest error, eps * |expected|) that are allowed, by precision class.
_FULL_PRECISION = (16.0, 64.0)
_HALF_PRECISION = (4.0, 4.0)
_HALF_SPREAD = (2.0, 0.5)
"""In half precision the final rounding is most of an honest error, so the root mean square over many elements is
known well: multiples of (honest one, eps * that of the values). Digits lost everywhere show there, however small each
loss is beside the largest error allowed."""
_ROUNDED_SHARE = 0.2
"""Of an output: fewer elements that are slightly wrong are not rounding."""
_MANY = 256
"""Elements from which a root mean square says something."""
_RUNS, _REDUCED = 4, 4
_FAR, _FAR_SLACK = 3.0, 8.0
_BELOW, _FAR_BELOW = (1.0, 4.0), (30.0, 120.0)
"""Of inputs below zero: factor on the absolute value, and distance from zero."""
_TWIN_SHARE, _TWIN_SEED = 1 / 16, 6151
_UNSEEN_SEED, _AUDIT_SEED = 27_644_437, 39_916_801
_AUDITED = 1 << 24
"""Elements of an output that an audit looks at."""
_DRAWN_AGAIN = 64 << 20
"""Bytes of inputs from which they are drawn again rather than kept."""
_LARGE = 1 << 22
"""Elements from which an expected output is kept in fp32."""
_CHUNK = 1 << 24
"""Elements compared at a time."""


@contextlib.contextmanager
def private_rng(seed: int) -> Iterator[None]:
    """Seed torch's generators for a block, one block at a time, and put the caller's state back."""
    with DRAWING:
        state = torch.get_rng_state()
        on_gpu = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(state)
            if on_gpu is not None:
                torch.cuda.set_rng_state(on_gpu)


@dataclasses.dataclass
class Expected:
    """What one output should be, and how far an honest module of the same precision strays from it."""

    value: torch.Tensor
    """fp64 for floating-point outputs (fp32 for large ones of at most that precision, whose rounding is far
    below any tolerance here); the output itself for others."""
    shape: tuple[int, ...]
    dtype: torch.dtype
    honest_error: float
    """Largest absolute error of the reference in its own precision."""
    typical: float
    """Mean absolute value: what cancellation errors scale with."""
    judged: torch.Tensor | None
    """Where both oracle and reference are finite; None where that is everywhere."""
    infinite: torch.Tensor | None
    """Where both are the same infinity; None where that is nowhere."""
    slack: float = 1.0
    """Factor on the error allowed: above 1 for inputs scaled far up, which are there to make naive kernels overflow
    and where an honest one may lose more digits than the reference does."""
    spread: float = math.inf
    """Root of the mean squared error of the reference in its own precision."""
    root_mean_square: float = 0.0
    """Of the values."""
    tf32: bool = False
    """Products behind it may be made in TF32."""

    @property
    def half(self) -> bool:
        """Judged as half precision is: few digits, of which none may be lost twice."""
        return self.tf32 or self.dtype in (torch.float16, torch.bfloat16)

    @property
    def epsilon(self) -> float:
        return tf32.EPSILON if self.tf32 else torch.finfo(self.dtype).eps

    @property
    def size(self) -> int:
        """Bytes held."""
        held = [self.value, self.judged, self.infinite]
        return sum(_nbytes(tensor) for tensor in held if tensor is not None)


@dataclasses.dataclass
class Case:
    """One correctness case."""

    name: str
    inputs: Any
    """Arguments of `forward`, as `get_inputs` made them (scaled); None while only the seed is kept."""
    structure: Any
    """The reference's output with tensors replaced by their index."""
    expected: list[Expected]
    aliases: list[int]
    """Per output: the index of the input whose memory it shares, or -1."""
    changed: list[int]
    """Indices of inputs that the reference itself changes."""
    state_changed: frozenset[str]
    """Weights and buffers that the reference itself changes, as batch norm does in training."""
    scale: float
    """Factor on the inputs."""
    module: torch.nn.Module
    """The reference."""

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(map(_nbytes, flatten(self.inputs))) + sum(item.size for item in self.expected)


@dataclasses.dataclass
class ShapeCases:
    """All cases of one shape set, with what a worker needs to build the module."""

    name: str
    init: list[Any]
    state: dict[str, torch.Tensor]
    cases: list[Case]
    make_twin: Callable[[], Case | None]

    @functools.cached_property
    def twin(self) -> Case | None:
        """The first case with a few input elements changed: what a fingerprint of the inputs does not notice.

        Made when a candidate first asks for it: most keep nothing from one call to the next.
        """
        return self.make_twin()


class Reference:
    """The task's own module, executed by the judge (the task is trusted; the candidate is not)."""

    def __init__(self, task: Task, overrides: dict[str, int] | None = None, device: str = "cpu") -> None:
        self.task, self.device = task, device
        source = apply_shape(task.source, overrides) if overrides else task.source
        self.namespace: dict[str, Any] = {"__name__": "reference"}
        try:
            with tf32.switches_kept():
                exec(compile(source, f"<{task.id}>", "exec"), self.namespace)
        except Exception as error:
            raise UserError(f"task {task.id} raises when loaded: {type(error).__name__}: {error}") from None
        for name in ("Model", "get_inputs"):
            if not callable(self.namespace.get(name)):
                raise UserError(
                    f"task {task.id} has no {name}: a task defines Model, get_inputs and get_init_inputs"
                )

    def init_inputs(self) -> list[Any]:
        maker = self.namespace.get("get_init_inputs")
        return list(maker()) if callable(maker) else []

    def build(self, vary: bool = False) -> torch.nn.Module:
        """The module with weights drawn under the public seed; `vary` those that are constant (`affine.py`)."""
        with private_rng(INIT_SEED), tf32.switches_kept(), self._explained("Model(*get_init_inputs())"):
            init = self.init_inputs()
            torch.manual_seed(INIT_SEED)
            if not vary:
                return self.namespace["Model"](*init)
            with affine.varied() as finished:
                module = self.namespace["Model"](*init)
                finished(module)
            return module

    def inputs(self, seed: int) -> list[Any]:
        """Arguments of `forward`, made on the device itself (a core takes seconds for what a GPU does in one ms)."""
        with (
            private_rng(seed),
            tf32.switches_kept(),
            self._explained("get_inputs()"),
            torch.device(self.device),
        ):
            made = list(self.namespace["get_inputs"]())
        return convert(made, lambda tensor: tensor.to(self.device))

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if ran_out(error):
                raise
            raise UserError(f"task {self.task.id}: {what} raises {type(error).__name__}: {error}") from None


def flatten(tree: Any) -> list[torch.Tensor]:
    """The tensors of a nest of lists, tuples and dicts, in order."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [tensor for item in tree for tensor in flatten(item)]
    if isinstance(tree, dict):
        return [tensor for item in tree.values() for tensor in flatten(item)]
    return []


def convert(tree: Any, function: Any) -> Any:
    """The same nest with every tensor replaced by `function(tensor)`."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, (list, tuple)):
        items = [convert(item, function) for item in tree]
        return items if isinstance(tree, list) else tuple(items)
    if isinstance(tree, dict):
        return {key: convert(value, function) for key, value in tree.items()}
    return tree


def describe(tree: Any) -> Any:
    """A nest as shapes, strides and dtypes: all that a candidate's process learns of its inputs."""
    if isinstance(tree, torch.Tensor):
        dtype = str(tree.dtype).removeprefix("torch.")
        return {"meta": {"shape": list(tree.shape), "stride": list(tree.stride()), "dtype": dtype}}
    if isinstance(tree, (list, tuple)):
        return {"list" if isinstance(tree, list) else "tuple": [describe(item) for item in tree]}
    if isinstance(tree, dict):
        return {"dict": {key: describe(value) for key, value in tree.items()}}
    return {"value": tree}


def skeleton(tree: Any) -> Any:
    """The nest's form: tensors as `*`, scalars as themselves."""
    if isinstance(tree, torch.Tensor):
        return "*"
    if isinstance(tree, (list, tuple)):
        return [type(tree).__name__.replace("Size", "tuple"), *(skeleton(item) for item in tree)]
    if isinstance(tree, dict):
        return {key: skeleton(value) for key, value in tree.items()}
    return tree


def for_task(protocol: Protocol, task: Task) -> Protocol:
    return dataclasses.replace(protocol, tf32_products=tf32.stated(task.source))


def shape_cases(
    task: Task,
    name: str,
    sizes: Mapping[str, int],
    protocol: Protocol,
    secret: int,
    position: int,
    device: str = "cpu",
) -> ShapeCases:
    """Every case of the shape set `name`, the `position`-th of its task. Raises UserError when the task fails."""
    protocol = for_task(protocol, task)
    reference = Reference(task, dict(sizes), device)
    module = reference.build(protocol.affine)
    state = {key: value.detach().clone() for key, value in module.state_dict().items()}
    module.to(device)
    cases = []
    for number, (scale, seed) in enumerate(draws(protocol, secret, position)):
        inputs = scaled(reference.inputs(seed), scale)
        case = make_case(_case_name(name, scale), module, inputs, protocol, scale)
        if case is None and number == 0:
            raise UserError(f"task {task.id}: the reference's own output is not finite")
        if case is not None:
            cases.append(case)
    return ShapeCases(
        name,
        reference.init_inputs(),
        state,
        cases,
        lambda: twin(reference, module, cases[0], protocol, secret),
    )


class GpuCases:
    """The cases of one shape set on a GPU, each made once.

    Expected outputs are kept until `release`, and made again by `make`; large inputs are drawn again from their seed,
    which a GPU does in the time that it takes to write them.
    """

    def __init__(
        self,
        task: Task,
        name: str,
        sizes: dict[str, int],
        protocol: Protocol,
        plan: list[tuple[float, int]],
        device: str,
        full: bool,
    ) -> None:
        """Builds the reference and the first case. Raises UserError when the task fails."""
        self.name, self.sizes, self.full = name, sizes, full
        self._protocol, self._plan = for_task(protocol, task), plan
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._kept: dict[int, Case | None] = {}
        self._large: bool | None = None
        """Whether inputs are too large to be kept."""
        self._reference = Reference(task, sizes, device)
        self.init = self._reference.init_inputs()
        self._module = self._reference.build(protocol.affine)
        self.state = {key: value.detach().clone() for key, value in self._module.state_dict().items()}
        self._weights = sum(map(_nbytes, self.state.values()))
        self._module.to(device)
        self.made = False
        """Whether everything is on the GPU that a hearing needs."""
        first = self.case(0)
        if first is None:
            raise UserError(f"task {task.id}: the reference's own output is not finite")
        self.description = describe(list(first.inputs))
        self.form: Any = channel.encode(list(first.inputs), [])
        """Of the inputs: the nest with tensors by number."""
        self.structure = first.structure
        self.aliases = first.aliases
        self.changes_inputs = bool(first.changed)
        self.expected = [
            dataclasses.replace(item, value=torch.empty(0), judged=None, infinite=None)
            for item in first.expected
        ]
        self.host_case = None if full else _in_host_memory(first)
        """The first case where the interpreter can have it; none at full size."""

    def __len__(self) -> int:
        return len(self._plan)

    @functools.cached_property
    def twin(self) -> Case | None:
        """See `ShapeCases.twin`."""
        first = self.case(0)
        assert first is not None
        return twin(self._reference, self._module, first, self._protocol, self._plan[0][1])

    @property
    def kept_bytes(self) -> int:
        """GPU memory held for the next candidate."""
        held = [*self._kept.values(), self.__dict__.get("twin"), self.__dict__.get("audit")]
        return (self._weights if self.made else 0) + sum(item.size for item in held if item is not None)

    def make(self) -> None:
        """Have every case, and at full size what is clocked, while there is memory for fp64. Raises UserError."""
        with self._making:
            if not self.made:
                self._module.to(self._reference.device)
                for number in range(len(self)):
                    self._keep(number)
                if self.full:
                    _ = self.audit
                self.made = True

    def release(self) -> None:
        """Let go of all GPU memory; nobody may have it in use."""
        self.made = False
        self._kept = {}
        for name in ("twin", "audit"):
            self.__dict__.pop(name, None)
        self._module.to("cpu")

    def case(self, number: int) -> Case | None:
        """None where the reference has no meaning under that distribution."""
        with self._lock:
            scale, seed = self._plan[number]
            kept = self._keep(number)
            if kept is None or kept.inputs is not None:
                return kept
            return dataclasses.replace(kept, inputs=self._drawn(seed, scale)())

    def _keep(self, number: int) -> Case | None:
        if number not in self._kept:
            scale, seed = self._plan[number]
            self._kept[number] = self._made(_case_name(self.name, scale), seed, scale)
        return self._kept[number]

    def _drawn(self, seed: int, scale: float) -> Callable[[], Any]:
        return lambda: scaled(self._reference.inputs(seed), scale)

    def _made(self, name: str, seed: int, scale: float) -> Case | None:
        """A case, without its inputs where they are large."""
        draw = self._drawn(seed, scale)
        if self._large is None:
            self._large = sum(map(_nbytes, flatten(draw()))) > _DRAWN_AGAIN
        return make_case(name, self._module, draw if self._large else draw(), self._protocol, scale)

    @functools.cached_property
    def audit(self) -> Audit:
        """Inputs under the first distribution that are never played but once, under the clock, and what they give."""
        scale, seed = self._plan[0]
        draw = self._drawn(seed + _AUDIT_SEED, scale)
        case = self._made(f"{self.name}, clocked", seed + _AUDIT_SEED, scale)
        if case is None:
            raise UserError(
                f"{self.name}: the reference's output is not finite for some inputs that it draws"
            )
        dice = random.Random(seed + _AUDIT_SEED)
        samples = [_Sample.of(item, dice) for item in case.expected]
        return Audit(case.name, lambda: flatten(draw()), samples)

    def unseen(self) -> list[torch.Tensor]:
        """Inputs under the first distribution that no correctness case has: for the clock's fresh calls."""
        scale, seed = self._plan[0]
        return flatten(scaled(self._reference.inputs(seed + _UNSEEN_SEED), scale))


@dataclasses.dataclass
class _Sample:
    """Every so-many-th element of an output, from a secret one on: no tile of any size falls between them all."""

    start: int
    step: int
    expected: Expected

    @staticmethod
    def of(whole: Expected, dice: random.Random) -> _Sample:
        step = max(1, math.ceil(math.prod(whole.shape) / _AUDITED))
        start = dice.randrange(step)

        def part(tensor: torch.Tensor | None) -> torch.Tensor | None:
            return None if tensor is None else tensor.reshape(-1)[start::step].contiguous()

        value = whole.value.reshape(-1)[start::step].contiguous()
        sample = dataclasses.replace(
            whole,
            value=value,
            judged=part(whole.judged),
            infinite=part(whole.infinite),
            shape=tuple(value.shape),
        )
        return _Sample(start, step, sample)


@dataclasses.dataclass
class Audit:
    """One clocked call's inputs, and a secret sample of what it must give."""

    name: str
    inputs: Callable[[], list[torch.Tensor]]
    """Draws them, in the order of `flatten`."""
    samples: list[_Sample]

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(sample.expected.size for sample in self.samples)

    def compare(self, outputs: list[torch.Tensor], protocol: Protocol) -> Comparison | None:
        """The first output that is wrong, or None."""
        for index, (got, sample) in enumerate(zip(outputs, self.samples, strict=True)):
            part = got.reshape(-1)[sample.start :: sample.step].contiguous()
            comparison = compare(index, part, sample.expected, protocol)
            if comparison.kind:
                return comparison
        return None


def _in_host_memory(case: Case) -> Case:
    def moved(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else tensor.cpu()

    expected = [
        dataclasses.replace(
            item, value=item.value.cpu(), judged=moved(item.judged), infinite=moved(item.infinite)
        )
        for item in case.expected
    ]
    return dataclasses.replace(case, inputs=convert(case.inputs, torch.Tensor.cpu), expected=expected)


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def draws(protocol: Protocol, secret: int, position: int) -> list[tuple[float, int]]:
    """(scale, seed) of each case: all of them on the first shape set, two on the second, one on others."""
    scales = list(dict.fromkeys(protocol.distributions))
    if position > 0:
        scales = [scales[0], scales[-1]][: 3 - min(position, 2)] if len(scales) > 1 else scales
    return [
        (scale, secret + 7919 * number + 104_729 * draw + 15_485_863 * position)
        for number, scale in enumerate(scales)
        for draw in range(protocol.seeds if position == 0 else 1)
    ]


def _case_name(shape: str, scale: float) -> str:
    return f"{shape} below zero" if scale == BELOW_ZERO else f"{shape} x{scale:g}"


def scaled(inputs: Any, scale: float) -> Any:
    """The inputs with every floating-point tensor multiplied by `scale`, or put below zero."""
    if scale == BELOW_ZERO:
        return _below(inputs)
    return inputs if scale == 1.0 else convert(inputs, lambda t: t * scale if t.is_floating_point() else t)


def _below(inputs: Any) -> Any:
    """The inputs with every value below zero, and the largest ones along the edges, where masks go wrong.

    A single floating-point input is put so far below that the exponential of each value is 0 in single precision. Of
    several, the first is below zero and the others are as far above it: products of them are as far below.
    Zeros stay, for a reference may rely on them (a triangle, a mask).
    """
    floating = [tensor for tensor in flatten(inputs) if tensor.is_floating_point()]
    width, offset = _FAR_BELOW if len(floating) == 1 else _BELOW

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        made = tensor.clone().abs_()
        inner = torch.where(_edges(tensor), 0.0, 1.0)
        made.mul_(width * (0.2 + 0.8 * inner)).add_(offset * (0.9 + 0.1 * inner))
        if tensor is floating[0]:
            made.neg_()
        return made.masked_fill_(tensor == 0, 0.0)

    return convert(inputs, change)


def _edges(tensor: torch.Tensor) -> torch.Tensor:
    """Where an index is the first or the last along any dimension that has inner ones."""
    found = torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    for axis, extent in enumerate(tensor.shape):
        if extent > 2:
            found.select(axis, 0).fill_(True)
            found.select(axis, extent - 1).fill_(True)
    return found


def twin(
    reference: Reference, module: torch.nn.Module, case: Case, protocol: Protocol, secret: int
) -> Case | None:
    """`case` with one input element in sixteen drawn anew; None where the reference does not take that."""
    with _where_possible():
        fresh = iter(flatten(reference.inputs(secret + _TWIN_SEED)))

        def mix(old: torch.Tensor) -> torch.Tensor:
            changed = torch.rand(old.shape, device=old.device) < _TWIN_SHARE
            changed.view(-1)[-1:] = True
            return torch.where(changed, next(fresh), old)

        with private_rng(secret + _TWIN_SEED):
            inputs = convert(case.inputs, mix)
        return make_case(f"{case.name}, a few elements changed", module, inputs, protocol)
    return None


@contextlib.contextmanager
def _where_possible() -> Iterator[None]:
    """What cannot be done is left out; what there was no memory for is not, lest a verdict depend on that."""
    try:
        yield
    except Exception as error:
        if ran_out(error):
            raise


def make_case(
    name: str,
    module: torch.nn.Module,
    inputs: Any,
    protocol: Protocol,
    scale: float = 1.0,
) -> Case | None:
    """`inputs` have been multiplied by `scale`. None when the reference has no meaning there (most of its output is
    not finite).

    In place of inputs, a function that draws the same ones whenever it is called: then they are never held beside what
    is computed from them, and the case comes without. `footprint.Footprint.making` is what this takes at its peak.
    """
    drawn = callable(inputs)
    draw: Callable[[], Any] = inputs if drawn else lambda: inputs
    native = copy.deepcopy(module)
    given = draw() if drawn else convert(inputs, torch.clone)
    products = tf32.Rounded() if protocol.tf32_products and protocol.calibrated else contextlib.nullcontext()
    with _running(given, protocol), products:
        output = native(*given)
    flat, originals = flatten(given), flatten(draw())
    owners = {tensor.untyped_storage()._cdata: index for index, tensor in enumerate(flat)}
    honest = [tensor.detach() for tensor in flatten(output)]
    aliases = [owners.get(tensor.untyped_storage()._cdata, -1) for tensor in honest]
    changed = [i for i, (a, b) in enumerate(zip(flat, originals, strict=True)) if not _same(a, b)]
    before = module.state_dict()
    state_changed = frozenset(
        name
        for name, value in native.state_dict().items()
        if name in before and not _same(value, before[name])
    )
    structure = skeleton(output)
    del native, given, flat, originals, output, before
    exact = honest
    if protocol.calibrated:
        with _where_possible(), torch.no_grad():
            double = copy.deepcopy(module).double()
            wide = flatten(
                double(*convert(draw(), lambda t: t.double() if t.is_floating_point() else t.clone()))
            )
            if [tuple(t.shape) for t in wide] == [tuple(t.shape) for t in honest]:
                exact = [tensor.detach() for tensor in wide]
            del double, wide
    slack = _FAR_SLACK if abs(scale) > _FAR else 1.0
    expected = [
        dataclasses.replace(
            _expected(e, h), slack=slack, tf32=protocol.tf32_products and h.dtype == torch.float32
        )
        for e, h in zip(exact, honest, strict=True)
    ]
    shares = [float(e.judged.sum()) / e.judged.numel() for e in expected if e.judged is not None]
    if shares and min(shares) < 0.5:
        return None
    if protocol.calibrated:
        expected = _unlucky(module, draw, protocol, expected, exact)
    return Case(
        name, None if drawn else inputs, structure, expected, aliases, changed, state_changed, scale, module
    )


def _unlucky(
    module: torch.nn.Module,
    draw: Callable[[], Any],
    protocol: Protocol,
    expected: list[Expected],
    exact: list[torch.Tensor],
) -> list[Expected]:
    """Of few elements that many are reduced to, the error of one honest run may be small by luck, above all where a sum
    cancels. The largest of a few runs counts, each with every input a rounding away from what it is.
    """
    if not any(map(_few, expected)):
        return expected
    given = sum(tensor.numel() for tensor in flatten(draw()) if tensor.is_floating_point())
    reduced = [_few(item) and _REDUCED * math.prod(item.shape) <= given for item in expected]
    if not any(reduced):
        return expected
    worst = [item.honest_error for item in expected]
    for run in range(_RUNS):
        nudged = convert(draw(), lambda tensor, run=run: _nudged(tensor, run))
        with _running(nudged, protocol):
            outputs = flatten(copy.deepcopy(module)(*nudged))
        for index, (output, right) in enumerate(zip(outputs, exact, strict=True)):
            if reduced[index]:
                strayed = (output.detach().double() - right.double()).abs()
                worst[index] = max(
                    worst[index], float(torch.where(torch.isfinite(strayed), strayed, 0.0).max())
                )
    return [
        dataclasses.replace(item, honest_error=error) for item, error in zip(expected, worst, strict=True)
    ]


def _few(expected: Expected) -> bool:
    return expected.dtype.is_floating_point and 0 < math.prod(expected.shape) < _MANY


def _nudged(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Every element a rounding up, a rounding down or as it is."""
    if not tensor.is_floating_point():
        return tensor.clone()
    generator = torch.Generator(tensor.device).manual_seed(seed)
    steps = torch.randint(-1, 2, tensor.shape, generator=generator, device=tensor.device, dtype=tensor.dtype)
    return steps.mul_(torch.finfo(tensor.dtype).eps).add_(1.0).mul_(tensor)


@contextlib.contextmanager
def precision(protocol: Protocol) -> Iterator[None]:
    """The flags under which a reference runs here, as in the process that clocks it; put back afterwards."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32, cudnn.allow_tf32 = False, protocol.tf32_convolutions
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


@contextlib.contextmanager
def _running(inputs: Any, protocol: Protocol) -> Iterator[None]:
    """How a reference is run here. What it draws on a GPU it draws while nobody captures a graph there."""
    on_gpu = any(tensor.is_cuda for tensor in flatten(inputs))
    with torch.no_grad(), precision(protocol), DRAWING if on_gpu else contextlib.nullcontext():
        yield


def native(case: Case, protocol: Protocol) -> list[Expected]:
    """What a protocol without calibration expects: the reference's own output under that protocol's flags."""
    given = convert(case.inputs, torch.clone)
    with _running(given, protocol):
        output = flatten(copy.deepcopy(case.module)(*given))
    return [_expected(tensor, tensor) for tensor in output]


def _expected(exact: torch.Tensor, honest: torch.Tensor) -> Expected:
    shape, dtype = tuple(honest.shape), honest.dtype
    if not honest.is_floating_point() or honest.numel() == 0:
        return Expected(honest.clone(), shape, dtype, 0.0, 0.0, None, None)
    error, squares, total, square_total, finite = _spread(exact, honest)
    judged = infinite = None
    if not finite:
        judged = torch.isfinite(exact) & torch.isfinite(honest)
        infinite = torch.isinf(exact) & (exact == honest)
    narrow = honest.numel() >= _LARGE and dtype != torch.float64
    value = exact.to(torch.float32 if narrow else torch.float64, copy=True).contiguous()
    count = honest.numel()
    return Expected(
        value,
        shape,
        dtype,
        error,
        total / count,
        judged,
        infinite,
        spread=math.sqrt(squares / count),
        root_mean_square=math.sqrt(square_total / count),
    )


def _spread(exact: torch.Tensor, honest: torch.Tensor) -> tuple[float, float, float, float, bool]:
    """See `fused.Spread`."""
    if honest.is_cuda:
        from kernelwright.verify import fused

        return fused.spread(exact.contiguous(), honest.contiguous())
    error = squares = total = square_total = 0.0
    finite = True
    for e, h in zip(*(_chunks(t) for t in (exact, honest)), strict=True):
        e, h = e.double(), h.double()
        both = torch.isfinite(e) & torch.isfinite(h)
        finite = finite and bool(both.all())
        strayed = torch.where(both, (e - h).abs(), 0.0)
        error = max(error, float(strayed.max()))
        squares += float(torch.linalg.vector_norm(strayed)) ** 2
        size = torch.where(torch.isfinite(e), e.abs(), 0.0)
        total += float(size.sum())
        square_total += float(torch.linalg.vector_norm(size)) ** 2
    return error, squares, total, square_total, finite


def _chunks(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The elements in row-major order, in pieces that leave room for fp64 copies of each."""
    return tensor.reshape(-1).split(_CHUNK)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.nan_to_num(), b.nan_to_num()))


def rules(expected: Expected, protocol: Protocol) -> tuple[float, ...]:
    """(rtol, atol, typical, of_value, floor, slack): around a value v of magnitude m the error allowed is

    min(max(m, typical) * rtol + atol, m * of_value + floor) * slack
    """
    dtype = str(expected.dtype).removeprefix("torch.")
    rtol, atol = protocol.preset("float16" if expected.tf32 and protocol.calibrated else dtype)
    if not protocol.calibrated:
        return rtol, atol, 0.0, 0.0, math.inf, 1.0
    # Where sums cancel, what is left is small and its error is not: relative to what was summed.
    if not expected.dtype.is_floating_point:
        return rtol, atol, expected.typical, 0.0, math.inf, expected.slack
    eps = expected.epsilon
    of_error, of_value = _HALF_PRECISION if expected.half else _FULL_PRECISION
    floor = of_error * expected.honest_error + eps * 32.0 * expected.typical + 1e-30
    return rtol, atol, expected.typical, eps * of_value, floor, expected.slack


def allowed_error(expected: Expected, value: torch.Tensor, protocol: Protocol) -> torch.Tensor:
    """Absolute error allowed (fp64) around each element of `value`, a piece of `expected.value`."""
    rtol, atol, typical, of_value, floor, slack = rules(expected, protocol)
    magnitude = value.double().abs()
    if expected.judged is not None and protocol.calibrated:
        magnitude = torch.where(torch.isfinite(magnitude), magnitude, 0.0)
    allowed = magnitude.clamp_min(typical) * rtol + atol
    return torch.minimum(allowed, magnitude * of_value + floor) * slack


def allowed_spread(expected: Expected, protocol: Protocol) -> float | None:
    """Root mean squared error allowed over a whole output; None where each element is judged by itself only."""
    if not (expected.half and protocol.calibrated and math.prod(expected.shape) >= _MANY):
        return None
    of_error, of_value = _HALF_SPREAD
    eps = expected.epsilon
    return (of_error * expected.spread + of_value * eps * expected.root_mean_square + 1e-30) * expected.slack


@dataclasses.dataclass
class Comparison:
    """How one output differs from what was expected."""

    worst: float
    """Largest error as a share of the error allowed; inf for non-finite values."""
    kind: str = ""
    """`` when within tolerance, else `unwritten`, `non_finite`, `low_precision` or `wrong_value`."""
    mismatch: Mismatch | None = None


def compare(position: int, got: torch.Tensor, expected: Expected, protocol: Protocol) -> Comparison:
    """Compare one output tensor of the right shape and dtype with the oracle."""
    if got.numel() == 0:
        return Comparison(0.0)
    if got.is_cuda and expected.dtype.is_floating_point and expected.judged is None:
        from kernelwright.verify import fused

        seen = fused.strayed(got.contiguous(), expected.value, rules(expected, protocol))
        spread = allowed_spread(expected, protocol)
        strayed = 0.0 if spread is None else math.sqrt(seen.squares / got.numel()) / spread
        if not seen.wrong and strayed <= 1.0:
            return Comparison(max(seen.worst, strayed))
    return _explained(position, got, expected, protocol)


def _explained(position: int, got: torch.Tensor, expected: Expected, protocol: Protocol) -> Comparison:
    """The comparison in full: where an output first goes wrong, and how."""
    pieces = [
        _chunks(t) if t is not None else None for t in (expected.value, expected.judged, expected.infinite)
    ]
    values = pieces[0] or ()
    worst, found, errors = 0.0, _Wrong(), 0.0
    for number, piece in enumerate(_chunks(got)):
        value = values[number]
        judged, infinite = (part[number] if part is not None else None for part in pieces[1:])
        if not expected.dtype.is_floating_point:
            found.add(number, piece != value, piece, value, torch.zeros_like(value, dtype=torch.float64))
            continue
        reference, allowed = value.double(), allowed_error(expected, value, protocol)
        error = (piece.double() - reference).abs()
        wrong = ~(error <= allowed)
        if judged is not None and infinite is not None:
            # Where the honest result is an infinity the candidate must not invent another value.
            known = judged & ~_overflowed(piece, reference)
            wrong = (wrong & known) | (infinite & (piece.double() != reference))
            error = torch.where(known, error, 0.0)
        if found.add(number, wrong, piece, reference, allowed):
            found.worst = max(
                found.worst, float((error / allowed.clamp_min(1e-300))[wrong].nan_to_num(math.inf).max())
            )
            found.error = max(found.error, float(error[wrong].nan_to_num(math.inf).max()))
            finite = torch.isfinite(piece)
            found.non_finite |= bool((wrong & ~finite & (judged if judged is not None else True)).any())
            found.poison |= bool((poison_mask(piece) & wrong).any())
        elif not found.count:
            share = torch.where(allowed > 0, error / allowed.clamp_min(1e-300), 0.0)
            worst = max(worst, float(share.max()))
            errors += float(torch.linalg.vector_norm(error)) ** 2
    spread = allowed_spread(expected, protocol)
    if not found.count and spread is not None:
        strayed = math.sqrt(errors / got.numel())
        worst = max(worst, strayed / spread)
        if strayed > spread:
            # No element is wrong by itself: the first with more than its share of the error stands for all.
            for number, piece in enumerate(_chunks(got)):
                reference = values[number].double()
                error = (piece.double() - reference).abs()
                if pieces[1] is not None:
                    error = torch.where(pieces[1][number], error, 0.0)
                found.add(number, error > spread, piece, reference, torch.full_like(reference, spread))
            return Comparison(worst, "low_precision", found.mismatch(position, expected.shape))
    if not found.count:
        return Comparison(worst)
    mismatch = found.mismatch(position, expected.shape)
    if not expected.dtype.is_floating_point:
        return Comparison(math.inf, "wrong_value", mismatch)
    if found.poison:
        return Comparison(math.inf, "unwritten", mismatch)
    if found.non_finite:
        return Comparison(math.inf, "non_finite", mismatch)
    rounded = found.count >= _ROUNDED_SHARE * found.total
    close = rounded and found.error <= 1e-2 * (expected.typical + 1e-30)
    return Comparison(
        found.worst, "low_precision" if close and protocol.calibrated else "wrong_value", mismatch
    )


def _overflowed(got: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Where an infinity stands for a number whose square is one. In an output that has infinities (a cumulative product),
    products taken in another order, such as a tree's, pass the largest number on the way; torch's own do on a GPU."""
    if got.dtype is torch.float16:  # its intermediate results are float32
        return torch.zeros_like(got, dtype=torch.bool)
    huge = reference.abs() > math.sqrt(torch.finfo(got.dtype).max)
    return huge & torch.isinf(got) & (got.sign() == reference.sign())


class _Wrong:
    """What was found wrong in an output, chunk by chunk."""

    def __init__(self) -> None:
        self.count = self.total = 0
        self.worst = self.error = 0.0
        self.poison = self.non_finite = False
        self._first: tuple[int, float, float, float] | None = None

    def add(
        self,
        chunk: int,
        wrong: torch.Tensor,
        got: torch.Tensor,
        expected: torch.Tensor,
        allowed: torch.Tensor,
    ) -> bool:
        """Count a chunk's wrong elements and keep the first. Whether there were any."""
        self.total += wrong.numel()
        count = int(wrong.sum())
        if count and self._first is None:
            at = int(wrong.to(torch.uint8).argmax())
            self._first = chunk * _CHUNK + at, float(got[at]), float(expected[at]), float(allowed[at])
        self.count += count
        return count > 0

    def mismatch(self, position: int, shape: tuple[int, ...]) -> Mismatch:
        assert self._first is not None
        flat, got, expected, allowed = self._first
        index = []
        for extent in reversed(shape):
            index.append(flat % extent)
            flat //= extent
        return Mismatch(
            output=position,
            index=tuple(reversed(index)),
            got=got,
            expected=expected,
            allowed=allowed,
            wrong_share=self.count / max(self.total, 1),
        )
