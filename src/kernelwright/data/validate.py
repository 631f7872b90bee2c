"""Validation: every draft before the judge; only what it accepts stays, the rest is kept with its verdict.

    translate   the code is correct
    improve     the kernel shown and the code are correct, and the code is faster; the profile becomes feedback
    repair      the code is correct, the kernel shown is not; the judge's message becomes feedback

Hearings run ahead of the draft that is written, results are written in the order of the drafts, so a stopped run goes
on where its two files end. With `check = "structures"`, translate examples that differ only in sizes, names, tile and
warps share one hearing; what that leaves unproven is that no tile or warp count of theirs fails to compile.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import prompts
from kernelwright.data import normal
from kernelwright.data.config import CorpusConfig
from kernelwright.data.corpus import Progress
from kernelwright.data.streams import Stream
from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Outcome
from kernelwright.records import Candidate, Example, Record, Task, Verdict, read_jsonl

if TYPE_CHECKING:
    from kernelwright.rollouts import Verifier

AHEAD = 64
"""Drafts whose hearings may be under way before the first of them is decided."""
REMEMBERED = 4096
"""Verdicts kept for sharing; what is forgotten is heard again."""


class Rejected(Record):
    """A draft that did not pass, with the reason and the verdict that decided it."""

    example: Example
    reason: str
    """`answer: OUTCOME`, `shown: OUTCOME`, `no gain` or `not timed`."""
    verdict: Verdict


class Docket:
    """Hearings asked for, so that none is held twice. Kernels shown or claimed faster are heard word by word."""

    def __init__(self, verifier: Verifier, config: CorpusConfig, passed: Iterable[str]) -> None:
        """`passed` are structures that an earlier, stopped run accepted."""
        self.verifier, self.config, self.passed = verifier, config, set(passed)
        self.exact: dict[tuple[str, str], Future[Verdict]] = {}
        self.structures: dict[str, Future[Verdict]] = {}

    def submit(self, example: Example) -> tuple[Future[Verdict] | None, Future[Verdict] | None]:
        """What decides a draft: the verdicts on its code (None: its structure passed before) and on its kernel."""
        shown = self._hear(example.task, example.kernel) if example.kernel else None
        if self.config.check == "each":
            return self._hear(example.task, example.code), shown
        structure = structure_of(example)
        if example.kind == "improve":
            code = self._hear(example.task, example.code)
        elif structure in self.passed:
            return None, shown
        else:
            code = self.structures.get(structure) or self._hear(example.task, example.code)
        self._remember(structure, code)
        if shown is not None and example.kind == "improve":
            self._remember(structure_of(example, example.kernel), shown)
        return code, shown

    def _hear(self, task: Task, code: str) -> Future[Verdict]:
        """The verdict on this very code for this very task."""
        key = (task.digest, normal.digest(code))
        if key not in self.exact:
            self.exact[key] = self.verifier.submit(task, Candidate(code=code))
            _forget(self.exact)
        return self.exact[key]

    def _remember(self, structure: str, verdict: Future[Verdict]) -> None:
        self.structures.setdefault(structure, verdict)
        _forget(self.structures)

    def cancel(self) -> None:
        """Drop the hearings that have not begun."""
        for future in self.exact.values():
            future.cancel()


def validate(
    config: CorpusConfig, drafts: Path, accepted: Path, verifier: Verifier, progress: Progress | None = None
) -> Counter[str]:
    """Write the drafts that pass to `accepted`, the others as `Rejected` to `rejected.jsonl` beside it.

    Goes on where a stopped run of the same config left off. Returns how many ended how. Raises
    InfrastructureError when the judge itself fails; what is decided till then is kept.
    """
    good, bad = Stream(accepted, Example), Stream(accepted.with_name("rejected.jsonl"), Rejected)
    if not (good.whole and bad.whole):
        _hear_all(config, drafts, good, bad, verifier, progress)
    return Counter({"accepted": len(good), **Counter(rejected.reason for rejected in bad.records())})


def _hear_all(
    config: CorpusConfig,
    drafts: Path,
    good: Stream[Example],
    bad: Stream[Rejected],
    verifier: Verifier,
    progress: Progress | None,
) -> None:
    with drafts.open("rb") as lines:
        total = sum(1 for _ in lines)
    done = len(good) + len(bad)
    docket = Docket(verifier, config, (structure_of(example) for example in good.records()))
    waiting: deque[tuple[Example, Future[Verdict] | None, Future[Verdict] | None]] = deque()
    left = islice(read_jsonl(drafts, Example), done, None)
    with good, bad:
        try:
            while True:
                for example in islice(left, AHEAD - len(waiting)):
                    waiting.append((example, *docket.submit(example)))
                if not waiting:
                    break
                example, code, shown = waiting.popleft()
                said, of_shown = (None if future is None else fair(future) for future in (code, shown))
                decided = decide(example, said, of_shown, config.min_gain)
                if isinstance(decided, Rejected):
                    bad.write(decided)
                else:
                    good.write(decided)
                done += 1
                if progress is not None:
                    progress("validate", done, total)
        finally:
            docket.cancel()


def decide(
    example: Example, code: Verdict | None, shown: Verdict | None, min_gain: float
) -> Example | Rejected:
    """A draft with its feedback filled in, or why not. `code` is None where the answer is known to be correct."""
    if code is not None and not code.correct:
        return Rejected(example=example, reason=f"answer: {code.outcome.value}", verdict=code)
    if example.kind == "translate":
        return example
    assert shown is not None
    if example.kind == "repair":
        if shown.correct or not shown.outcome.judged:
            return Rejected(example=example, reason=f"shown: {shown.outcome.value}", verdict=shown)
        return example.model_copy(update={"feedback": prompts.feedback(shown)})
    if not shown.correct:
        return Rejected(example=example, reason=f"shown: {shown.outcome.value}", verdict=shown)
    if shown.timing is None or code is None or code.timing is None:
        return Rejected(example=example, reason="not timed", verdict=shown)
    if shown.timing.candidate_ms < min_gain * code.timing.candidate_ms:
        return Rejected(example=example, reason="no gain", verdict=code)
    return example.model_copy(update={"feedback": prompts.profile(shown)})


def structure_of(example: Example, code: str = "") -> str:
    """What translate examples that share a hearing have in common: the operator graph, and the kernel but for
    names, warps and, where our own library wrote it, tiles."""
    form = normal.normal_form(code or example.code, keep_sizes=example.teacher != "library", keep_warps=False)
    return normal.digest(example.graph or example.task.digest, form)


def fair(future: Future[Verdict]) -> Verdict:
    """A hearing's verdict, waited for. Raises InfrastructureError where it was no fair one."""
    verdict = future.result()
    if verdict.outcome is Outcome.INFRASTRUCTURE_ERROR:
        raise InfrastructureError(
            f"data: the judge failed on {verdict.task_id}: {verdict.detail}; run again to go on"
        )
    return verdict


def _forget(known: dict[Any, Any]) -> None:
    while len(known) > REMEMBERED:
        known.pop(next(iter(known)))
