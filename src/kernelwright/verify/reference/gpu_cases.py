"""The reference side on a GPU: cases that are made once and kept, inputs drawn again, samples for audits under the clock."""

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
"""Elements of an output that an audit looks at."""
_DRAWN_AGAIN = 64 << 20
"""Bytes of inputs from which they are drawn again rather than kept."""


@dataclasses.dataclass(frozen=True)
class _Draw:
    """Of inputs: their factor and seed, and whether a few places carry half of them (`distributions.uneven`)."""

    scale: float
    seed: int
    uneven: bool = False

    def name(self, shape: str) -> str:
        return case_name(shape, self.scale) + ", uneven" * self.uneven

    @property
    def factor(self) -> float:
        """As `Case.scale`: uneven inputs are not those that the task draws, and the reference need have no meaning for them."""
        return -1.0 if self.uneven else self.scale


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
        products: bool = False,
        seed: int = INIT_SEED,
    ) -> None:
        """Builds the reference, its weights drawn under `seed`, and the first case; `products`: it multiplies matrices. Raises
        UserError when the task fails."""
        self.name, self.sizes, self.full = name, sizes, full
        self._products = products
        self._protocol, self._plan = for_task(protocol, task), plan
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._kept: dict[int, Case | None] = {}
        self._draws: dict[int, _Draw] = {}
        """How the inputs of each case that was made are drawn."""
        self._large: bool | None = None
        """Whether inputs are too large to be kept."""
        self._reference = Reference(task, sizes, device)
        self.init = self._reference.init_inputs()
        self.seed = seed
        self._module = self._reference.build(protocol.affine, seed)
        self.gradients = self._reference.gradients(self._module)
        self.state = {key: value.detach().clone() for key, value in self._module.state_dict().items()}
        self.weights = sum(map(nbytes, self.state.values()))
        """Bytes of them."""
        self._module.to(device)
        self.made = False
        """Whether everything is on the GPU that a verification needs."""
        first = self.case(0)
        if first is None:
            raise UserError(f"task {task.id}: the reference's own output is not finite")
        self.description = describe(list(first.inputs))
        self.form: Any = channel.encode(list(first.inputs), [])
        """Of the inputs: the nest with tensors by number."""
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
        """GPU memory held for the next candidate."""
        held = [*self._kept.values(), self.__dict__.get("twin"), self.__dict__.get("audit")]
        return (self.weights if self.made else 0) + sum(item.size for item in held if item is not None)

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

    def first(self) -> Case:
        """The first case: without a meaning there it would be a broken task."""
        case = self.case(0)
        assert case is not None
        return case

    def case(self, number: int) -> Case | None:
        """None where the reference has no meaning under that distribution."""
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
        """The first one counts that the reference has a meaning for. At full size all cases but the first are uneven: there
        a kernel may average a part of its inputs, and be as near to the mean as rounding is at small sizes.

        Not of products, unless one number comes of them: where two heavy places meet an element is hundreds of times its
        neighbours, and what cancels there leaves an error of that size. No product adds so many terms that a part of
        them gives nearly what all do."""
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
        """A case, without its inputs where they are large."""
        inputs = functools.partial(self._inputs, draw)
        if self._large is None:
            self._large = sum(map(nbytes, flatten(inputs()))) > _DRAWN_AGAIN
        return make_case(name, self._module, inputs if self._large else inputs(), self._protocol, draw.factor)

    @functools.cached_property
    def audit(self) -> Audit:
        """Inputs under the first distribution that are never played but once, under the clock, and what they give."""
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
        """Inputs under the first distribution that no correctness case has: for the clock's fresh calls."""
        scale, seed = self._plan[0]
        return flatten(self._inputs(_Draw(scale, seed + _UNSEEN_SEED)))


@dataclasses.dataclass
class _Sample:
    """Every so-many-th element of an output, from a secret one on: no tile of any size falls between them all."""

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
    """One clocked call's inputs, and a secret sample of what it must give."""

    name: str
    inputs: Callable[[], list[torch.Tensor]]
    """Draws them, in the order of `flatten`."""
    samples: list[_Sample]
    whole: Case | None
    """All of it, where that is little."""

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(sample.expected.size for sample in self.samples) + (self.whole.size if self.whole else 0)

    def compare(self, outputs: list[torch.Tensor], protocol: Protocol) -> Comparison | None:
        """The first output that is wrong, or None."""
        for index, (got, sample) in enumerate(zip(outputs, self.samples, strict=True)):
            roundings = functools.partial(self._with_roundings, index, protocol)
            comparison = compare_or_round(index, sample.of_tensor(got), sample.expected, protocol, roundings)
            if comparison.kind:
                return comparison
        return None

    def _with_roundings(self, index: int, protocol: Protocol) -> Expected:
        sample = self.samples[index]
        if self.whole is None:
            return sample.expected
        return self.whole.with_roundings()[index].each(sample.of_tensor)
