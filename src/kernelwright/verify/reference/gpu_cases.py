"""The reference side on a GPU: cases that are made once and kept, inputs redrawn from seeds, samples for audits while timing."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
import threading
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference.cases import Case, make_case, twin
from kernelwright.verify.reference.comparison import Comparison, compare_or_round
from kernelwright.verify.reference.distributions import case_name, scale_inputs, uneven
from kernelwright.verify.reference.expected import Expected, nbytes
from kernelwright.verify.reference.task_module import INIT_SEED, Reference, for_task
from kernelwright.verify.sandbox import channel
from kernelwright.verify.structures import describe, flatten

_UNSEEN_SEED, _AUDIT_SEED = 27_644_437, 39_916_801
_AUDITED = 1 << 24
"""Elements of an output that an audit compares."""
_DRAWN_AGAIN = 64 << 20
"""Inputs of more bytes than this are redrawn instead of kept."""


@dataclasses.dataclass(frozen=True)
class _Draw:
    """How inputs are drawn: factor, seed, and whether a few places carry half of them (`distributions.uneven`)."""

    scale: float
    seed: int
    uneven: bool = False

    def name(self, shape: str) -> str:
        return case_name(shape, self.scale) + ", uneven" * self.uneven

    @property
    def factor(self) -> float:
        """The case's `Case.scale`: uneven inputs are not the task's own, so the reference need not have a meaning there."""
        return -1.0 if self.uneven else self.scale


class GpuCases:
    """The cases of one shape set on a GPU, each made once.

    Expected outputs are kept until `release` and made again by `make`. Large inputs are redrawn from their seed, which takes
    a GPU no longer than writing them.
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
        products: bool = False,
        seed: int = INIT_SEED,
    ) -> None:
        """Builds the reference, with weights drawn under `seed`, and the first case. `products`: the reference multiplies
        matrices. Raises UserError if the task fails."""
        self.name, self.sizes, self.full = name, sizes, full
        self._products = products
        self._protocol, self._plan = for_task(protocol, task), plan
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._kept: dict[int, Case | None] = {}
        self._draws: dict[int, _Draw] = {}
        """How each case's inputs were drawn."""
        self._large: bool | None = None
        """Whether inputs are too large to keep; None until known."""
        self._reference = Reference(task, sizes, device)
        self.init = self._reference.init_inputs()
        self.seed = seed
        self._module = self._reference.build(protocol.affine, seed)
        self.gradients = self._reference.gradients(self._module)
        self.state = {key: value.detach().clone() for key, value in self._module.state_dict().items()}
        self.weights = sum(map(nbytes, self.state.values()))
        """Bytes of the weights."""
        self._module.to(device)
        self.made = False
        """Whether everything that a verification needs is on the GPU."""
        first = self.case(0)
        if first is None:
            raise UserError(f"task {task.id}: the reference's own output is not finite")
        self.description = describe(list(first.inputs))
        self.form: Any = channel.encode(list(first.inputs), [])
        """Structure of the inputs: the nest with tensors by number."""
        self.structure = first.structure
        self.aliases, self.shared, self.written = first.aliases, first.shared, first.written
        self.changes_inputs = bool(first.changed)
        self.expected = [
            dataclasses.replace(item, value=torch.empty(0), judged=None, infinite=None)
            for item in first.expected
        ]

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
        """Bytes of GPU memory kept for the next candidate."""
        held = [*self._kept.values(), self.__dict__.get("twin"), self.__dict__.get("audit")]
        return (self.weights if self.made else 0) + sum(item.size for item in held if item is not None)

    def make(self) -> None:
        """Make every case, and the audit at full size, while there is memory for fp64. Raises UserError."""
        with self._making:
            if not self.made:
                self._module.to(self._reference.device)
                for number in range(len(self)):
                    self._keep(number)
                if self.full:
                    _ = self.audit
                self.made = True

    def release(self) -> None:
        """Free all GPU memory; nothing may be using it."""
        self.made = False
        self._kept = {}
        for name in ("twin", "audit"):
            self.__dict__.pop(name, None)
        self._module.to("cpu")

    def first(self) -> Case:
        """The first case; without a meaning there the task would be broken."""
        case = self.case(0)
        assert case is not None
        return case

    def case(self, number: int) -> Case | None:
        """The case of this number; None if the reference has no meaning under that distribution."""
        with self._lock:
            kept = self._keep(number)
            if kept is None or kept.inputs is not None:
                return kept
            return dataclasses.replace(kept, inputs=self._inputs(self._draws[number]))

    def _keep(self, number: int) -> Case | None:
        if number not in self._kept:
            for draw in self._choices(number):
                self._draws[number], self._kept[number] = draw, self._made(draw.name(self.name), draw)
                if self._kept[number] is not None:
                    break
        return self._kept[number]

    def _choices(self, number: int) -> list[_Draw]:
        """Draws to try; the first that the reference has a meaning for is used. At full size all cases but the first are
        uneven: otherwise a kernel may average a part of its inputs and still be near the true mean.

        Not if the reference takes products, unless the output is one number: where two heavy places meet, an element is
        hundreds of times its neighbours, and cancellation there leaves errors of that size. Products do not sum so many
        terms that a part of them approximates the whole."""
        scale, seed = self._plan[number]
        plain = _Draw(scale, seed)
        if not (self.full and number and self._protocol.honesty) or abs(scale) > 1.0:
            return [plain]
        if self._products and any(math.prod(item.shape) > 1 for item in self.expected):
            return [plain]
        return [_Draw(scale, seed, uneven=True), _Draw(abs(scale), seed, uneven=True), plain]

    def _inputs(self, draw: _Draw) -> object:
        if draw.uneven:
            change = functools.partial(uneven, seed=draw.seed, sign=draw.scale)
        else:
            change = functools.partial(scale_inputs, scale=draw.scale)
        return self._reference.changed_inputs(draw.seed, change)

    def _made(self, name: str, draw: _Draw) -> Case | None:
        """A case; large inputs are not kept in it."""
        inputs = functools.partial(self._inputs, draw)
        if self._large is None:
            self._large = sum(map(nbytes, flatten(inputs()))) > _DRAWN_AGAIN
        return make_case(name, self._module, inputs if self._large else inputs(), self._protocol, draw.factor)

    @functools.cached_property
    def audit(self) -> Audit:
        """Inputs of the first distribution that are used only once, while timing, and their expected outputs."""
        scale, seed = self._plan[0]
        draw = _Draw(scale, seed + _AUDIT_SEED)
        case = self._made(f"{self.name}, clocked", draw)
        if case is None:
            raise UserError(
                f"{self.name}: the reference's output is not finite for some inputs that it draws"
            )
        dice = random.Random(seed + _AUDIT_SEED)
        samples = [_Sample.of(item, dice) for item in case.expected]
        return Audit(case.name, lambda: flatten(self._inputs(draw)), samples, case if case.few else None)

    def unseen(self) -> list[torch.Tensor]:
        """Inputs of the first distribution that no correctness case has, for the clock's fresh calls."""
        scale, seed = self._plan[0]
        return flatten(self._inputs(_Draw(scale, seed + _UNSEEN_SEED)))


@dataclasses.dataclass
class _Sample:
    """Every n-th element of an output, from a secret start, so that every tile has some of them."""

    start: int
    step: int
    expected: Expected

    @staticmethod
    def of(whole: Expected, dice: random.Random) -> _Sample:
        step = max(1, math.ceil(math.prod(whole.shape) / _AUDITED))
        sample = _Sample(dice.randrange(step), step, whole)
        return dataclasses.replace(sample, expected=whole.each(sample.of_tensor))

    def of_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.reshape(-1)[self.start :: self.step].contiguous()


@dataclasses.dataclass
class Audit:
    """Inputs of one timed call, and a secret sample of its expected outputs."""

    name: str
    inputs: Callable[[], list[torch.Tensor]]
    """Draws the inputs, in the order of `flatten`."""
    samples: list[_Sample]
    whole: Case | None
    """The whole case, if it is small."""

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(sample.expected.size for sample in self.samples) + (self.whole.size if self.whole else 0)

    def compare(self, outputs: list[torch.Tensor], protocol: Protocol) -> Comparison | None:
        """The first wrong output, or None."""
        for index, (got, sample) in enumerate(zip(outputs, self.samples, strict=True)):
            roundings = functools.partial(self._with_roundings, index)
            comparison = compare_or_round(index, sample.of_tensor(got), sample.expected, protocol, roundings)
            if comparison.kind:
                return comparison
        return None

    def _with_roundings(self, index: int) -> Expected:
        sample = self.samples[index]
        if self.whole is None:
            return sample.expected
        return self.whole.with_roundings()[index].each(sample.of_tensor)
