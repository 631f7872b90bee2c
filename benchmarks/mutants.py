"""Measures how many planted bugs the judge finds: gold kernels with one fault each go to a `VerifierPool`.

    python benchmarks/mutants.py [--suite wright/relu,silu] [--kinds race,wrong_axis] [--per-kind 2] [--json FILE]

A mutant ends as one of `STATES`. The kill rate is killed / (killed + survived). Excluded and counted separately:
*stillborn* mutants, which Triton's compiler or Python refuses (any judge would find them); *unjudged* ones, which the
backend cannot run; and *equivalent* ones, which survived but change nothing. A mutant is equivalent if its operator says so
(`faults`), if it compiles to the same binaries, launched the same way, as the original (trivial compiler equivalence: Papadakis
et al., ICSE 2015), or if a fault of masks and addresses touches the same elements at every size and gives the same bits
(`lanes.py`). The raw rate counts these as survivors.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import lanes

from kernelwright import faults
from kernelwright.cli import show
from kernelwright.errors import UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.gold import gold
from kernelwright.precision import in_precision
from kernelwright.records import Candidate, Task, Timing, Verdict
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool
from kernelwright.verify.interpret.verification import InterpretedVerification
from kernelwright.verify.judge import Judge
from kernelwright.verify.traced import Trace
from kernelwright.verify.verification import Verification

_Tapes = tuple[Sequence[Trace], Sequence[Trace]]
State = Literal["killed", "survived", "stillborn", "equivalent", "unjudged"]
STATES: tuple[State, ...] = ("killed", "survived", "stillborn", "equivalent", "unjudged")

_PLACES = {
    "mask_off_by_one", "mask_missing", "wrong_padding", "wrong_axis", "wrong_stride", "wrong_offset", "loop_bound",
    "grid_too_small", "swapped_sizes",
}  # fmt: skip
"""Faults in where a kernel reads and writes. The effect of faults in values depends on the data tried."""

_REFUSED = {
    Outcome.SYNTAX_ERROR, Outcome.NO_ENTRY, Outcome.NOT_TRITON, Outcome.INVALID_IMPORT, Outcome.LOAD_ERROR,
    Outcome.CONSTRUCTOR_ERROR, Outcome.COMPILE_ERROR, Outcome.OUT_OF_RESOURCES, Outcome.FORBIDDEN_CODE,
    Outcome.FORBIDDEN_IMPORT,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One gold with one fault, and its result."""

    task_id: str
    fault: faults.Fault
    state: State
    outcome: str = ""
    """The judge's outcome; empty if it was not judged."""
    detail: str = ""
    """The judge's reason, or why the mutant is equivalent."""

    @property
    def precision(self) -> bool:
        """Whether the fault only reduces precision."""
        return self.fault.kind in faults.PRECISION

    def to_json(self) -> dict[str, Any]:
        row = {
            "task": self.task_id,
            "kind": self.fault.kind,
            "line": self.fault.line,
            "what": self.fault.what,
        }
        row |= {"state": self.state, "outcome": self.outcome, "detail": self.detail}
        return row if self.state != "survived" else {**row, "code": self.fault.code}


@dataclasses.dataclass
class Tally:
    """Counts of states."""

    counts: collections.Counter[State] = dataclasses.field(default_factory=collections.Counter)

    @property
    def rate(self) -> float | None:
        """Share of real bugs that were found; None if none was planted."""
        real = self.counts["killed"] + self.counts["survived"]
        return self.counts["killed"] / real if real else None

    @property
    def raw(self) -> float | None:
        """The rate with equivalent mutants counted as survivors."""
        compiled = self.counts["killed"] + self.counts["survived"] + self.counts["equivalent"]
        return self.counts["killed"] / compiled if compiled else None

    def to_json(self) -> dict[str, Any]:
        return {"rate": self.rate, "raw": self.raw, **{state: self.counts[state] for state in STATES}}


def tally(mutants: Iterable[Mutant], by: Callable[[Mutant], str]) -> dict[str, Tally]:
    """Counts by group, in the order of first appearance."""
    found: dict[str, Tally] = {}
    for mutant in mutants:
        found.setdefault(by(mutant), Tally()).counts[mutant.state] += 1
    return found


def summary(mutants: Sequence[Mutant]) -> dict[str, Any]:
    """All rates: overall, for logic and precision separately, by kind, by task."""
    return {
        "all": tally(mutants, lambda _: "all").get("all", Tally()).to_json(),
        "logic": tally([m for m in mutants if not m.precision], lambda _: "").get("", Tally()).to_json(),
        "precision": tally([m for m in mutants if m.precision], lambda _: "").get("", Tally()).to_json(),
        "kinds": {name: found.to_json() for name, found in tally(mutants, lambda m: m.fault.kind).items()},
        "tasks": {name: found.to_json() for name, found in tally(mutants, lambda m: m.task_id).items()},
        "killed_as": dict(
            collections.Counter(m.outcome for m in mutants if m.state == "killed").most_common()
        ),
    }


def plant(
    tasks: Sequence[Task], per_kind: int, seed: int = 0, kinds: Sequence[str] = ()
) -> list[tuple[Task, faults.Fault]]:
    """At most `per_kind` faults of each kind for every task's gold. Raises UserError for an unknown kind, or a task without gold."""
    known = [*faults.KINDS, *faults.PRECISION]
    for kind in kinds:
        if kind not in known:
            raise UserError(f"unknown kind of fault {kind!r}; valid: {', '.join(known)}")
    return [
        (task, fault)
        for task in tasks
        for fault in faults.sample(
            gold(task.id), task.dtype, per_kind, random.Random(f"{seed}{task.id}"), kinds
        )
    ]


def run(
    planted: Sequence[tuple[Task, faults.Fault]], pool: Pool, advance: Callable[[str], Any] = lambda _: None
) -> list[Mutant]:
    """Judge every mutant, in order; calls `advance(note)` for each result.

    Mutants known as equivalent are judged, too: one that is killed is not equivalent, whatever was noted. Raises
    UserError if a gold itself is rejected, since its mutants would show nothing.
    """
    originals = {task.id: (task, Candidate(code=gold(task.id))) for task, _ in planted}
    for (task, _), verdict in zip(originals.values(), pool.verify_many([*originals.values()]), strict=True):
        if not verdict.correct:
            raise UserError(f"the gold of {task.id} is judged {verdict.outcome.value}: {verdict.detail}")
    survivors = 0

    def note(index: int, verdict: Verdict) -> None:
        nonlocal survivors
        survivors += verdict.correct
        advance(f"{survivors} accepted")

    verdicts = pool.verify_many(
        [(task, Candidate(code=fault.code)) for task, fault in planted], on_result=note
    )
    found = []
    for (task, fault), verdict in zip(planted, verdicts, strict=True):
        state, detail = _state(verdict), verdict.detail
        if state == "survived":
            known = fault.equivalent
            if not known and pool.same_binaries(task, gold(task.id), fault.code):
                known = "compiles to the same binaries, launched alike"
            if not known and fault.kind in _PLACES and pool.same_lanes(task, gold(task.id), fault.code):
                known = "differs only in lanes that never reach a result"
            if known:
                state, detail = "equivalent", known
        found.append(Mutant(task.id, fault, state, verdict.outcome.value, detail))
    return found


def _state(verdict: Verdict) -> State:
    if verdict.correct:
        return "survived"
    if not verdict.outcome.judged:
        return "unjudged"
    # Any judge would notice an exception of the host code before a kernel has run.
    raised = verdict.outcome is Outcome.RUNTIME_ERROR and verdict.gate is Gate.TRACE
    return "stillborn" if raised or verdict.outcome in _REFUSED else "killed"


class Pool(VerifierPool):
    """A pool that remembers what candidates compile to."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"judges": 1, **options})
        self._compiled: dict[tuple[str, str], Any] = {}
        self._tapes: dict[tuple[str, str], _Tapes] = {}

    def same_binaries(self, task: Task, one: str, two: str) -> bool:
        """Whether two candidates, both judged correct, have the same assembly and launches at full size."""
        first, second = (self._compiled.get((task.id, Candidate(code=code).digest)) for code in (one, two))
        return first is not None and first == second

    def same_lanes(self, task: Task, one: str, two: str) -> bool:
        """Whether two candidates, both judged correct, differ only in lanes that never reach a result."""
        first, second = (self._tapes.get((task.id, Candidate(code=code).digest)) for code in (one, two))
        if first is None or second is None:
            return False
        cases = self.judge.cases(task)
        return lanes.alike(self.judge.target, cases, lanes.Tapes(*first), lanes.Tapes(*second))

    def __enter__(self) -> Pool:
        return self

    def _verification(self, task: Task, candidate: Candidate, judge: Judge | None = None) -> Verification:
        verification = super()._verification(task, candidate, judge)
        if not isinstance(verification, InterpretedVerification):
            return verification
        return _Recorded(self._compiled, self._tapes, self.judge, verification.zygote, task, candidate)


class _Recorded(InterpretedVerification):
    """Records the assembly of the kernels, their launches, and the tapes."""

    def __init__(
        self, book: dict[tuple[str, str], Any], tapes: dict[tuple[str, str], _Tapes], *args: Any
    ) -> None:
        super().__init__(*args)
        self._book, self._tapes = book, tapes
        self._texts: list[tuple[str, int]] = []
        self._played: list[Trace] = []
        self._large: list[Trace] = []

    def _small(self, shape: Any, *how: Any) -> tuple[Any, Trace]:
        passed, trace = super()._small(shape, *how)
        self._played.append(trace)
        return passed, trace

    def _funnel(self) -> Timing | None:
        """Also trace accepted candidates at sizes that are not small; no traces if one fails."""
        timing = super()._funnel()
        with contextlib.suppress(Exception):  # reference or candidate may fail to trace there
            self._large = [self._at(sizes) for sizes in self._sizes()]
        return timing

    def _sizes(self) -> list[dict[str, int]]:
        sets = {"full": {}, **self.task.shapes}
        return [dict(sizes) for name, sizes in sets.items() if not name.startswith("small")]

    def _at(self, sizes: dict[str, int]) -> Trace:
        from kernelwright.verify.reference.baseline import baseline

        base = baseline(self.task, sizes, self.judge.target)
        return self._trace(base, base.input_spec, values=False)

    def _assemble(self, assemblies: list[dict[str, Any]]) -> None:
        super()._assemble(assemblies)
        self._texts = [(item["text"], item["num_warps"]) for item in assemblies]

    def verdict(self) -> Verdict:
        verdict = super().verdict()
        if verdict.correct and self._texts:
            alike = self._texts, verdict.evidence.launches
            self._book[self.task.id, self.candidate.digest] = alike
            self._tapes[self.task.id, self.candidate.digest] = self._played, self._large
        return verdict


def _rates(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Any:
    columns = [title, "found", "raw", *STATES]
    table = show.table(*columns, right=columns[1:])
    for name, row in rows.items():
        rates = ("–" if row[rate] is None else f"{row[rate]:.1%}" for rate in ("rate", "raw"))
        table.add_row(name, *rates, *(str(row[state]) for state in STATES))
    return table


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Plant bugs in gold kernels and count how many the judge finds."
    )
    parser.add_argument("--suite", default="wright", help="a suite with golds, such as wright/relu,silu")
    parser.add_argument("--kinds", default="", help="only these kinds of faults, separated by commas")
    parser.add_argument("--per-kind", type=int, default=2, help="faults of each kind in each gold, at most")
    parser.add_argument("--backend", choices=("auto", "interpret", "cuda"), default="auto")
    parser.add_argument("--protocol", default="strict")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of faults")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every mutant there")
    args = parser.parse_args(argv)
    try:
        # The default permits TF32 in convolutions, where a product with fewer digits is no fault.
        tasks = [in_precision(task, "ieee") for task in load_suite(args.suite)]
        planted = plant(tasks, args.per_kind, args.seed, list(filter(None, args.kinds.split(","))))
        # A generous deadline: on a busy machine a mutant that is only slow must not count as found.
        with Pool(args.workers, args.backend, args.protocol, deadline_s=120.0) as pool:
            judged = run(planted, pool)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    found = summary(judged)
    if args.json:
        rows = [mutant.to_json() for mutant in judged]
        args.json.write_text(json.dumps({"backend": pool.backend, **found, "mutants": rows}, indent=1))
    console = show.console()
    for title, rates in (("kind", found["kinds"]), ("task", found["tasks"]),
                         ("", {name: found[name] for name in ("logic", "precision", "all")})):  # fmt: skip
        console.print(_rates(title, rates))
    for mutant in judged:
        if mutant.state == "survived":
            fault = mutant.fault
            console.print(f"survived {mutant.task_id} line {fault.line}: {fault.kind}: {fault.what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
