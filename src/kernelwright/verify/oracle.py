"""The reference side of the trust boundary: inputs from secret seeds, expected outputs in fp64, tolerances.

Nothing here ever enters a worker but inputs and weights. The allowed error is a small multiple of what an
honest PyTorch run in the task's own precision gets wrong against fp64, and never looser than the protocol.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import threading
from collections.abc import Iterator
from typing import Any

import torch

from kernelwright.errors import UserError
from kernelwright.records import Mismatch, Task
from kernelwright.shapes import apply_shape
from kernelwright.verify.device import poison_mask
from kernelwright.verify.protocol import Protocol

_RNG_LOCK = threading.RLock()
"""References draw from torch's global generator, so one at a time, and the caller's state is put back."""

INIT_SEED = 20_231
"""Weights are drawn under a public seed: it is the inputs that are secret."""

# Multiples of (honest error, eps * |expected|) that are allowed, by precision class.
_FULL_PRECISION = (16.0, 64.0)
_HALF_PRECISION = (4.0, 4.0)


@contextlib.contextmanager
def private_rng(seed: int) -> Iterator[None]:
    """Seed torch's CPU generator for a block, and put the caller's state back."""
    with _RNG_LOCK:
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(state)


@dataclasses.dataclass
class Case:
    """One correctness case."""

    name: str
    inputs: Any
    """Arguments of `forward`, as `get_inputs` made them (scaled)."""
    structure: Any
    """The reference's output with tensors replaced by their index."""
    expected: list[torch.Tensor]
    """fp64 for floating-point outputs."""
    honest: list[torch.Tensor]
    """The reference's outputs in its own precision."""
    aliases: list[int]
    """Per output: the index of the input whose memory it shares, or -1."""
    changed: list[int]
    """Indices of inputs that the reference itself changes."""


@dataclasses.dataclass
class ShapeCases:
    """All cases of one shape set, with what a worker needs to build the module."""

    name: str
    init: list[Any]
    state: dict[str, torch.Tensor]
    cases: list[Case]


class Reference:
    """The task's own module, executed by the judge (the task is trusted; the candidate is not)."""

    def __init__(self, task: Task, overrides: dict[str, int] | None = None) -> None:
        self.task = task
        source = apply_shape(task.source, overrides) if overrides else task.source
        self.namespace: dict[str, Any] = {"__name__": "reference"}
        try:
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

    def build(self) -> torch.nn.Module:
        """The module with weights drawn under the public seed."""
        with private_rng(INIT_SEED), self._explained("Model(*get_init_inputs())"):
            init = self.init_inputs()
            torch.manual_seed(INIT_SEED)
            return self.namespace["Model"](*init)

    def inputs(self, seed: int) -> list[Any]:
        with private_rng(seed), self._explained("get_inputs()"):
            return list(self.namespace["get_inputs"]())

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
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


def skeleton(tree: Any) -> Any:
    """The nest's form: tensors as `*`, scalars as themselves."""
    if isinstance(tree, torch.Tensor):
        return "*"
    if isinstance(tree, (list, tuple)):
        return [type(tree).__name__.replace("Size", "tuple"), *(skeleton(item) for item in tree)]
    if isinstance(tree, dict):
        return {key: skeleton(value) for key, value in tree.items()}
    return tree


def shape_cases(task: Task, shape: str, protocol: Protocol, secret: int, first: bool) -> ShapeCases:
    """Build every case of a shape set. Raises UserError when the task itself fails."""
    reference = Reference(task, dict(task.shapes.get(shape, {})))
    module = reference.build()
    state = {name: value.detach().clone() for name, value in module.state_dict().items()}
    distributions = (
        protocol.distributions if first else protocol.distributions[:1] + protocol.distributions[-1:]
    )
    cases = []
    for position, scale in enumerate(dict.fromkeys(distributions)):
        for draw in range(protocol.seeds if first else 1):
            drawn = reference.inputs(secret + 7919 * position + 104_729 * draw)
            inputs = convert(drawn, lambda t, s=scale: t * s if t.is_floating_point() and s != 1.0 else t)
            case = _case(f"{shape} x{scale:g}", module, inputs, protocol)
            if case is None and position == 0:
                raise UserError(f"task {task.id}: the reference's own output is not finite")
            if case is not None:
                cases.append(case)
    return ShapeCases(shape, reference.init_inputs(), state, cases)


def _case(name: str, module: torch.nn.Module, inputs: Any, protocol: Protocol) -> Case | None:
    """None when the reference has no meaning there (most of its output is not finite)."""
    native = copy.deepcopy(module)
    given = convert(inputs, torch.clone)
    with torch.no_grad():
        output = native(*given)
    honest = flatten(output)
    expected = honest
    if protocol.calibrated:
        with contextlib.suppress(Exception), torch.no_grad():
            double = copy.deepcopy(module).double()
            wide = flatten(
                double(*convert(inputs, lambda t: t.double() if t.is_floating_point() else t.clone()))
            )
            if [tuple(t.shape) for t in wide] == [tuple(t.shape) for t in honest]:
                expected = wide
    finite = [
        torch.isfinite(t).double().mean().item() for t in expected if t.is_floating_point() and t.numel()
    ]
    if finite and min(finite) < 0.5:
        return None
    flat, originals = flatten(given), flatten(inputs)
    owners = {tensor.untyped_storage()._cdata: index for index, tensor in enumerate(flat)}
    return Case(
        name=name,
        inputs=inputs,
        structure=skeleton(output),
        expected=[tensor.detach() for tensor in expected],
        honest=[tensor.detach().clone() for tensor in honest],
        aliases=[owners.get(tensor.untyped_storage()._cdata, -1) for tensor in honest],
        changed=[i for i, (a, b) in enumerate(zip(flat, originals, strict=True)) if not _same(a, b)],
    )


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.nan_to_num(), b.nan_to_num()))


def allowed_error(expected: torch.Tensor, honest: torch.Tensor, protocol: Protocol) -> torch.Tensor:
    """Absolute error allowed per element (fp64, shape of `expected`)."""
    reference = expected.double()
    magnitude = torch.where(torch.isfinite(reference), reference.abs(), torch.zeros_like(reference))
    rtol, atol = protocol.preset(str(honest.dtype).removeprefix("torch."))
    allowed = atol + rtol * magnitude
    if protocol.calibrated and honest.is_floating_point():
        eps = torch.finfo(honest.dtype).eps
        of_error, of_value = (
            _HALF_PRECISION if honest.dtype in (torch.float16, torch.bfloat16) else _FULL_PRECISION
        )
        error = (honest.double() - reference).abs()
        error = torch.where(torch.isfinite(error), error, torch.zeros_like(error))
        worst = error.max() if error.numel() else torch.zeros((), dtype=torch.float64)
        typical = magnitude.mean() if magnitude.numel() else worst  # cancellation leaves errors of this size
        calibrated = of_error * worst + eps * (of_value * magnitude + 32.0 * typical) + 1e-30
        allowed = torch.minimum(allowed, calibrated)
    return allowed


@dataclasses.dataclass
class Comparison:
    """How one output differs from what was expected."""

    worst: float
    """Largest error as a share of the error allowed; inf for non-finite values."""
    kind: str = ""
    """`` when within tolerance, else `unwritten`, `non_finite`, `low_precision` or `wrong_value`."""
    mismatch: Mismatch | None = None


def compare(
    position: int, got: torch.Tensor, expected: torch.Tensor, honest: torch.Tensor, protocol: Protocol
) -> Comparison:
    """Compare one output tensor of the right shape and dtype with the oracle."""
    if got.numel() == 0:
        return Comparison(0.0)
    if not honest.is_floating_point():
        wrong = got != honest
        if not bool(wrong.any()):
            return Comparison(0.0)
        allowed = torch.zeros(got.shape, dtype=torch.float64)
        return Comparison(math.inf, "wrong_value", _first(position, wrong, got, honest.double(), allowed))
    reference = expected.double()
    allowed = allowed_error(expected, honest, protocol)
    judged = torch.isfinite(reference) & torch.isfinite(honest)
    value = got.double()
    error = (value - reference).abs()
    bad_number = judged & ~torch.isfinite(value)
    # Where the honest result is an infinity of known sign the candidate must not invent a finite value.
    infinite = torch.isinf(honest) & torch.isinf(reference) & (value != reference)
    wrong = (judged & ~(error <= allowed)) | infinite
    if not bool(wrong.any()):
        share = torch.where(
            judged & (allowed > 0), error / allowed.clamp_min(1e-300), torch.zeros_like(error)
        )
        return Comparison(float(share.max()))
    mismatch = _first(position, wrong, got, reference, allowed)
    if bool((poison_mask(got) & wrong).any()):
        return Comparison(math.inf, "unwritten", mismatch)
    if bool(bad_number.any()):
        return Comparison(math.inf, "non_finite", mismatch)
    worst = float((error / allowed.clamp_min(1e-300))[wrong].max())
    scale = float(reference[judged].abs().mean()) if bool(judged.any()) else 0.0
    close = float(error[wrong].max()) <= 1e-2 * (scale + 1e-30)
    return Comparison(worst, "low_precision" if close and protocol.calibrated else "wrong_value", mismatch)


def _first(
    position: int, wrong: torch.Tensor, got: torch.Tensor, expected: torch.Tensor, allowed: torch.Tensor
) -> Mismatch:
    flat = int(wrong.reshape(-1).to(torch.uint8).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), wrong.shape)) if wrong.dim() else ()
    return Mismatch(
        output=position,
        index=index,
        got=float(got.reshape(-1)[flat]),
        expected=float(expected.reshape(-1)[flat]),
        allowed=float(allowed.reshape(-1)[flat]),
        wrong_share=float(wrong.double().mean()),
    )
