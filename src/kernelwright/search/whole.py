"""A whole module's graph: kernels in one piece or group by group, stitched, and judged again end to end.

    found = search_whole(graph, values, judge, rungs, cache, settings)
    found.answer        the stitched file with the verdict on the whole, or None and `found.reason`
    found.rows          one per distinct group: operators, share of time, rung, times

1. If these rungs were asked before, the cached result of the whole is the answer, good or bad.
2. Unless it is long, the rungs are asked for the graph in one piece, as one group. A user's kernel is judged first. For a
   network of many nodes, contractions among them, whose groups repeat, kernels are written for each distinct group before that,
   stitched and judged once, as a whole: so there is an answer before groups are searched one by one. If they are modelled to be
   slower than ATen or torch.compile, the graph in one piece is asked first.
3. If that gives nothing or is not worth it, or if a GPU can measure which is faster, the graph is cut into groups. Each
   distinct one goes up the ladder, the most expensive first. A group's kernel is used if it is
   not slower than the faster of eager and torch.compile; ATen does the rest.
4. Files stitched from groups go to a judge with new secrets; the fastest that it accepts is the answer.

Time: kernels for a network's first whole until 40 % of the budget, rungs until 70 %, a verdict on one piece until 90 %, the last
judge until the end, where it is cut off. Does not guarantee an answer.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from kernelwright.errors import InfrastructureError, UserError, one_line
from kernelwright.graph import Graph, TensorType, draws, sizes
from kernelwright.graph.neighbours import rows
from kernelwright.graph.operators import packet
from kernelwright.graph.partition import Group, Left, Partition, alone, part_of, partition
from kernelwright.graph.shrink import Ties, freed, running, runs, shrink
from kernelwright.graph.stitch import stitch
from kernelwright.graph.types import Symbol
from kernelwright.hardware import cores
from kernelwright.hardware import target as target_sheet
from kernelwright.outcomes import Outcome
from kernelwright.records import FASTER, Candidate, Verdict
from kernelwright.rollouts import Verifier
from kernelwright.search.cache import Answer, Entry, KernelCache, Key, Row, Rung, against_inductor
from kernelwright.search.ladder import Form, Ladder, Sizes, Tried, Watch, function_form, usual_sizes
from kernelwright.search.rung import AnyRung, CannotWrite, Writer, entry_of, key_of
from kernelwright.search.rungs import Contractions, UserRung, rungs_of
from kernelwright.verify.cost.eager import eager_ms
from kernelwright.verify.pool import VerifierPool

LONG = 250
"""Nodes beyond which a graph that is compiled in one piece has no time for anything else."""
TOO_LONG = 800
"""Nodes beyond which a graph is not compiled in one piece."""
MANY = 50
"""Nodes beyond which compiling a graph with contractions in one piece costs more than compiling its distinct groups, if they repeat."""
REPEATED = 2 / 3
"""Most nodes of the distinct groups, as a share of the graph's, for groups that repeat. Where they do not, as in one attention block,
groups are as much to compile as the whole, and make more and slower kernels; where they differ in the step of a sequence that they
read, too."""
EACH = 12
"""Nodes of a long graph that take as long to compile as it takes to begin with another group."""
ROWS = (1024, 8192)
"""Lengths of rows beyond which a compiler reduces them in steps, and by several programs each. A kernel that is written for long rows
takes several launches and many idle programs for the short ones of a network's later layers."""
LAYERS = 1 / 3
"""Least share of contractions among groups that repeat as layers do. Steps of a loop, which have few, are one kernel in one piece."""
NO_TIME = "time ran out"
"""Why a group has no kernel that nobody wrote in time."""
ENOUGH = 0.98
"""Least speed, relative to the faster baseline, that counts as no slower: the rest is measurement noise."""
_ONE_VALUE = re.compile(r"specialised: Eq\((\w+), (\d+)\)")
_WHOLE_UNTIL, _RUNGS_UNTIL = 0.5, 0.7
"""Shares of the budget after which no rung is asked any more, for the graph in one piece and for its groups."""
_FIRST_UNTIL = 0.4
"""Share of the budget after which no kernel is written for a network's first whole: its verdict takes longer than its kernels."""
_VERDICT_UNTIL = 0.9
"""Share of the budget until which a verdict on the graph in one piece is awaited; it needs no further judge."""
_SPENT = 0.97
"""Share of the budget after which there is no time left to speak of."""


@dataclass(frozen=True)
class Settings:
    """Budget and goal of a search."""

    seconds: float = 45.0
    target: str = "h200"
    contractions: Contractions = "auto"
    precision: str = "default"
    protocol: str = "strict"
    gpu: str = ""
    """The GPU that times are measured on; empty: times are modelled."""
    workers: int = 2
    """Groups searched at once."""
    rungs: tuple[str, ...] = ("compiler", "library")
    """Cache keys of the rungs: `rung.key_of`."""

    @property
    def verdict_s(self) -> float:
        """Seconds allowed for one verdict: those of the whole search."""
        return max(30.0, self.seconds)


@dataclass
class Found:
    """Result of a search."""

    answer: Answer | None = None
    rows: tuple[Row, ...] = ()
    reason: str = ""
    """Why there is no answer, in one line."""
    cached: bool = False
    seconds: float = 0.0

    @property
    def slower(self) -> str:
        """Why a verified whole is not worth using, in one line; "" if it is."""
        timing = self.answer.verdict.timing if self.answer else None
        if timing is None or timing.speedup(FASTER) >= ENOUGH:
            return ""
        short = any(row.detail == NO_TIME for row in self.rows)
        more = "; some of its groups got no kernel in time: give more seconds" if short else ""
        return (
            f"its kernels are right, and {timing.speedup(FASTER):.2f} times as fast as the faster of eager and "
            f"torch.compile ({timing.kind} on {timing.target}){more}"
        )


class _TimeUp(Exception):
    """The budget is spent; pending verdicts are cut off. The message is what was under way."""


class _CannotJudge(Exception):
    """The judge finds no inputs for the whole, or no results of its own to compare with; the message says why."""


@contextlib.contextmanager
def _after_capture() -> Iterator[None]:
    """Around what follows capture and check: a UserError is no longer about the caller's arguments, but says why nothing can be
    judged, and any other exception is a mistake of ours."""
    try:
        yield
    except UserError as error:
        raise _CannotJudge(str(error)) from error
    except (InfrastructureError, _TimeUp):
        raise
    except Exception as error:
        raise InfrastructureError(f"the search raised {type(error).__name__}: {one_line(error)}") from error


def _busy() -> str:
    """A remark for a machine with more work than cores; "" otherwise."""
    load = os.getloadavg()[0]
    return f" at a load of {load:.0f} on {cores()} cores" if load > 1.5 * cores() else ""


@dataclass(frozen=True)
class _Option:
    """One way to run the whole."""

    whole: Partition
    kernels: Mapping[str, str]
    """Digest of a group's graph -> source of its kernel."""
    rungs: Mapping[str, Rung]
    """Digest -> rung that wrote it."""
    rows: tuple[Row, ...]
    verdict: Verdict | None = None
    """The verdict on its text, if that has been judged."""
    worth_it: bool = False
    """Whether it is known to be no slower than the faster of eager and torch.compile."""
    beside_aten: bool = False
    """Whether its kernels leave products to ATen."""

    @property
    def rung(self) -> Rung:
        """The rung that wrote it; the compiler if several did."""
        rungs = set(self.rungs.values())
        return rungs.pop() if len(rungs) == 1 else "compiler"

    def text(self) -> str:
        only = next(iter(self.kernels.values())) if len(self.kernels) == 1 else ""
        if only and entry_of(only) == "module":
            return only
        return stitch(self.whole, self.kernels, notes=self.rungs)

    @property
    def own(self) -> bool:
        """Whether kernels do all the work."""
        return not self.beside_aten and all(
            step.graph.digest in self.kernels
            if isinstance(step, Group)
            else all(part_of(node) == "free" for node in step.nodes)
            for step in self.whole.steps
        )


def search_whole(
    graph: Graph,
    values: Mapping[str, Any] | None,
    judge: Callable[[], AbstractContextManager[Verifier]],
    rungs: Callable[[], Sequence[AnyRung]],
    cache: KernelCache,
    settings: Settings,
    *,
    shapes: Sizes | None = None,
    form: Form | None = None,
    user: str = "",
    began: float | None = None,
    watch: Watch = lambda tried: None,
    check: Callable[[], object] = lambda: None,
) -> Found:
    """Kernels for a graph within the budget, which starts at `began` on the monotonic clock.

    `check` raises UserError if the graph is not to be used; without a GPU the search goes on beside it. `judge` opens a judge with new secrets each time; `rungs` is called only if the cache has no answer. `values` are example
    values by argument, `shapes` small values of the graph's symbols, `form` is how to present the whole to the judge (by default
    in function form), and `user` the source of a kernel to begin with. Raises what `judge`, `rungs` and `check` raise, and
    InfrastructureError if the judge or the search itself fails.
    """
    if values is not None:  # a check may change the module's own tensors for a while
        values = {key: one.detach() if isinstance(one, torch.Tensor) else one for key, one in values.items()}
    search = _Search(
        graph, values, judge, rungs, cache, settings, began or time.monotonic(), watch, form, user, check
    )
    search.shapes = shapes or {}
    return search.run()


@dataclass
class _Search:
    graph: Graph
    values: Mapping[str, Any] | None
    open_judge: Callable[[], AbstractContextManager[Verifier]]
    rungs: Callable[[], Sequence[AnyRung]]
    cache: KernelCache
    settings: Settings
    began: float
    watch: Watch
    form: Form | None
    user: str
    check: Callable[[], object] = lambda: None
    failed: dict[str, str] = field(default_factory=dict)
    """Rung -> why it has no kernel for the whole."""
    unasked: set[str] = field(default_factory=set)
    """Keys of rungs that were not asked to the end, or whose kernels were not judged in time."""

    def run(self) -> Found:
        known = self.cache.get(self._key)
        if known is not None and known.tried.keys() >= set(self._asked):
            rows = known.best.rows if known.best else ()
            why = "" if known.best else next(iter(known.tried.values()))
            return Found(known.best, rows, why, True, self._elapsed)
        try:
            options = self._options()
            found = self._judged(options) if options else Found(reason=self._why_not(), rows=self.rows)
        except _TimeUp as late:
            return Found(reason=self._too_late(str(late)), rows=self.rows, seconds=self._elapsed)
        except _CannotJudge as why:
            self.unasked.clear()  # no rung could help
            found = Found(reason=f"the whole cannot be judged ({one_line(why)})", rows=self.rows)
        found.seconds = self._elapsed
        what = "verified" if found.answer else found.reason
        worth_it = found.answer is not None and not found.slower
        tried = {rung: what for rung in self._asked if worth_it or rung not in self.unasked}
        known = self.cache.put(self._key, Entry(best=found.answer, tried=tried))
        if known.best is not None and known.best != found.answer:  # other rungs found a faster one before
            return Found(known.best, known.best.rows, "", True, self._elapsed)
        return found

    def _too_late(self, late: str) -> str:
        """Why there is no answer, in one line; `late` is what was under way when time ran out."""
        whys = [f"{rung}: {why}" for rung, why in self.failed.items() if why != f"{NO_TIME} {late}"]
        failures = f" ({'; '.join(whys[:2])})" if whys else ""
        limit, spent = self.settings.seconds, self._elapsed
        more = "give more seconds"
        if spent < _SPENT * limit:
            more = f"nothing is begun after {_RUNGS_UNTIL:.0%} of the budget"
        spent = min(spent, limit)
        return (
            f"no kernel was verified in {spent:.0f} of {limit:g} s{_busy()}, ended {late}{failures}; {more}"
        )

    @property
    def _asked(self) -> tuple[str, ...]:
        """The rungs that must be in the whole's cache entry for it to be complete."""
        return (*((UserRung(self.user).key,) if self.user else ()), *self.settings.rungs)

    rows: tuple[Row, ...] = ()
    """The groups searched so far."""

    shapes: Sizes = field(default_factory=dict)
    """Small values of the graph's symbols."""
    compiler_said: str = ""
    """What the compiler said of the graph in one piece if it has no kernel for it: perhaps that a size has one value."""
    cut_off: bool = False
    """Whether a rung had no time to answer for the graph in one piece."""
    inductor_ms: float | None = None
    """Modelled time of Inductor's own kernels for the whole."""
    _asked_beside_aten: bool = False
    _over: bool = False
    """Whether nothing more is to be begun."""
    captured: Graph | None = None
    """The original graph, once `graph` has its free sizes as symbols."""

    _cut_of: Partition | None = None
    _put_off: _Option | None = None
    """Stitched groups that are modelled to be slower than ATen or torch.compile, to be judged if nothing else is faster."""

    def _shrink(self) -> None:
        if self.form or self.shapes:
            return
        small, self.shapes = shrunk(self.graph, self.values)
        if small is not self.graph:
            self.captured, self.graph = self.graph, small

    def _small(self, group: Group) -> Sizes:
        return sizes_of(self.graph, self.shapes, group)

    @property
    def _key(self) -> Key:
        s = self.settings
        return Key.of(
            self.captured or self.graph,
            form="whole",
            target=s.target,
            contractions=s.contractions,
            precision=s.precision,
            protocol=s.protocol,
            gpu=s.gpu,
            task=self.form.task.digest if self.form and self.form.modules else "",
        )

    def _form(self, own: bool) -> Form:
        """How to present the whole to the judge. Raises UserError if no inputs can be drawn for its arguments."""
        policy: Literal["full", "partial"] = "full" if own else "partial"
        return self.form or function_form(
            self.graph, self.values, self.shapes, policy, self.settings.precision,
            free=[one.name for one in (self.captured or self.graph).symbols],
        )  # fmt: skip

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self.began

    def _until(self, share: float) -> float:
        return 0.0 if self._over else self.began + share * self.settings.seconds

    # -- ways to run the whole ------------------------------------------------------------------------------

    def _options(self) -> list[_Option]:
        """Ways to run the whole, the likely fastest first. Raises _TimeUp if time ends before there is one."""
        with self.open_judge() as verifier:
            rungs = self.rungs()  # both warm up in the background
            if self.settings.gpu:  # the check would disturb what is timed there
                self.check()
            with ThreadPoolExecutor(1) as beside:
                searching = beside.submit(self._asked_for, verifier, rungs)
                try:
                    if not self.settings.gpu:
                        self.check()
                    return searching.result()
                except BaseException:
                    self._over = True
                    if isinstance(verifier, VerifierPool):
                        verifier.close(abort=True)
                    raise

    @_after_capture()
    def _asked_for(self, verifier: Verifier, rungs: Sequence[AnyRung]) -> list[_Option]:
        """The same, with a judge and rungs."""
        s, found = self.settings, list[_Option]()

        def settled() -> bool:
            """Modelled times cannot decide between two kernels that are both worth it."""
            return not s.gpu and any(one.worth_it for one in found)

        self._shrink()
        ladder = self._ladder(verifier, rungs, s.contractions)
        large = self._nodes > MANY and self._contracts
        many = self._nodes > TOO_LONG or (large and _repeats(self._cut, s.contractions == "auto"))
        if many and not self.user:
            found += self._written(ladder, _FIRST_UNTIL if s.contractions == "auto" else _RUNGS_UNTIL)
        if found and not settled() and not s.gpu:
            found += self._beside_aten(ladder)
        if not settled() and (self.user or self._nodes <= TOO_LONG):
            ladder.rungs = [*([UserRung(self.user)] if self.user else []), *rungs]
            # Kernels of groups may have taken a part of the time for nothing.
            share = _RUNGS_UNTIL if many and not found else _WHOLE_UNTIL
            found += self._in_one_piece(ladder, share=share)
            while not settled() and self._has_pinned_size():
                if time.monotonic() >= self._until(share):
                    break
                found += self._in_one_piece(ladder, share=share)
            ladder.rungs = list(rungs)
            if not (settled() or self.user):
                found += self._beside_aten(ladder)
        if not settled() and self._put_off is not None:
            found += self._accepted(self._put_off, ladder)
        if not (found or many or self.user) and (self.cut_off or large):
            found += self._written(ladder, _RUNGS_UNTIL)  # fewer verdicts than a search for each group
        if not settled() and time.monotonic() < self._until(_RUNGS_UNTIL):
            found += self._in_groups(ladder)
        elif not settled():
            self.unasked.update(self._asked)
        if not found and time.monotonic() >= self._until(_RUNGS_UNTIL):
            raise _TimeUp(ladder.under_way)
        if isinstance(verifier, VerifierPool) and not all(one.done() for one in ladder.abandoned):
            verifier.close(abort=True)  # or leaving it would wait for them
        return found

    def _ladder(self, verifier: Verifier, rungs: Sequence[AnyRung], contractions: Contractions) -> Ladder:
        s = self.settings
        return Ladder(verifier, rungs, self.cache, target=s.target, contractions=contractions, precision=s.precision,
                      protocol=s.protocol, gpu=s.gpu, watch=self.watch)  # fmt: skip

    def _has_pinned_size(self) -> bool:
        """Whether the compiler found that a size can have only one value; if so, it is fixed in the graph from now on."""
        match = _ONE_VALUE.search(self.compiler_said)
        known = {one.name: one for one in self.graph.symbols}
        if match is None or match[1] not in known or self.form or known[match[1]].hint != int(match[2]):
            return False
        self.graph, self.shapes = pin_symbols(self.graph, self.values, self.shapes, {match[1]: int(match[2])})
        return True

    @property
    def _nodes(self) -> int:
        return len(self.graph.nodes)

    @property
    def _contracts(self) -> bool:
        return any(part_of(node) == "contraction" for node in self.graph.nodes)

    @property
    def _may_stay_with_aten(self) -> bool:
        """Whether products may be left to ATen if our own are slower: that takes the compiler rung."""
        s = self.settings
        own = s.contractions == "own" and not (s.gpu or self.form) and "compiler" in s.rungs
        return own and self._contracts

    def _beside_aten(self, ladder: Ladder) -> list[_Option]:
        """The compiler's kernels in one piece with ATen's products, for when our own are slow or not verified in time."""
        s = self.settings
        if not self._may_stay_with_aten or self._asked_beside_aten or self._nodes > LONG:
            return []
        self._asked_beside_aten = True
        compiler = rungs_of(("compiler",), s.target, "auto", precision=s.precision)
        beside = self._ladder(ladder.verifier, compiler, "auto")
        made = self._in_one_piece(beside, "auto", _RUNGS_UNTIL)
        ladder.under_way = beside.under_way
        return [dataclasses.replace(one, beside_aten=True) for one in made]

    def _in_one_piece(
        self, ladder: Ladder, contractions: Contractions = "own", share: float = _WHOLE_UNTIL
    ) -> list[_Option]:
        """Kernels for the graph in one piece, judged as the stitched file so that one verdict suffices. Rungs are asked until a
        share of the budget."""
        waits = _VERDICT_UNTIL
        if self._nodes > LONG:
            share, waits = _RUNGS_UNTIL, 1.0
        whole, digest = alone(self.graph), self.graph.digest

        def written(code: str, rung: Rung) -> str:
            return outer.text(stitch(whole, {digest: code}, notes={digest: rung}), rung)

        try:
            outer = self._form(self.settings.contractions == contractions == "own")
        except UserError as error:
            self.failed["the graph"] = str(error)
            return []

        def text(code: str, rung: Rung) -> str:
            return code if entry_of(code) == "module" else written(code, rung)

        form = Form(outer.task, text, outer.modules)
        entry = ladder.search(
            self.graph,
            until=self._until(share),
            wait=self._until(share if self._may_stay_with_aten and contractions == "own" else waits),
            values=self.values,
            shapes=self.shapes,
            form=form,
        )
        self.inductor_ms = entry.inductor_ms
        late = {key_of(rung) for rung in ladder.rungs} - entry.tried.keys()
        self.cut_off = bool(late)
        self.unasked |= late
        said = {key.partition(":")[0]: what for key, what in entry.tried.items()}
        self.compiler_said = said.get("compiler", "")
        if entry.best is None:
            if late:
                self.failed["in one piece"] = f"{NO_TIME} {ladder.under_way}"
            self.failed.update(said)
            return []
        row = row_of(1, list(whole.groups), entry, 1.0)
        row = row.model_copy(update={"rung": entry.best.rung, "detail": ""})  # it is used, even if slower
        judged = entry.best.verdict
        same = judged.candidate_digest == Candidate(code=text(entry.best.code, entry.best.rung)).digest
        return [_option(whole, {digest: entry.best}, (row,), judged if same else None, _worth_it(judged))]

    def _written(self, ladder: Ladder, share: float) -> list[_Option]:
        """Kernels written for each distinct group until a share of the budget, judged only as a whole: a layer that occurs twelve
        times is compiled once, and nothing is judged twice."""
        whole = self._cut
        distinct, cost, total = self._costs(whole)
        if isinstance(ladder.verifier, VerifierPool) and self.settings.contractions == "auto":
            with contextlib.suppress(UserError):
                ladder.verifier.prepare(self._form(False).task)  # on another core, while the compiler writes
        kernels: dict[str, str] = {}
        rungs: dict[str, Rung] = {}
        rows = []
        written: dict[str, tuple[str, Rung | None, str]] = {}
        of = {digest: _kind(groups[0].graph) for digest, groups in distinct.items()}
        dear: dict[str, float] = {}  # time by kind: if there is no time for all, the dearest have kernels
        alike: dict[str, list[Group]] = {}
        for digest, kind in of.items():
            dear[kind] = dear.get(kind, 0.0) + cost[digest]
            alike.setdefault(kind, []).append(distinct[digest][0])
        for number, digest in enumerate(sorted(distinct, key=lambda one: (-dear[of[one]], -cost[one])), 1):
            group, kind, why = distinct[digest][0], of[digest], NO_TIME
            if kind in written or time.monotonic() < self._until(share):
                if kind not in written:
                    written[kind] = self._write(ladder, alike[kind], self._until(share))
                text, rung, why = written[kind]
                if rung is not None:
                    kernels[digest], rungs[digest] = text, rung
            else:
                self.unasked.update(map(key_of, ladder.rungs))
            rows.append(
                Row(
                    number=number,
                    operators=group.operators,
                    count=len(distinct[digest]),
                    share=cost[digest] / total,
                    rung=rungs.get(digest, "aten"),
                    detail=why,
                )
            )
        option = _Option(whole, kernels, rungs, tuple(rows))
        if not kernels or (self.form and self.form.task.policy == "full" and not option.own):
            return []
        if self._nodes <= LONG and self.settings.contractions == "auto":  # in one piece it may be faster
            form = self._form(False)
            text = form.text(option.text(), option.rung)
            if ladder.slower(form.task, text, ENOUGH, self._until(_RUNGS_UNTIL)):
                self._put_off = option
                return []
        return self._accepted(option, ladder)

    def _accepted(self, option: _Option, ladder: Ladder) -> list[_Option]:
        """The option with its verdict, if it is accepted before the end."""
        verdict = self._verdict_of(option, ladder, self._until(1.0))
        if verdict is None or not verdict.correct:
            return []
        return [dataclasses.replace(option, verdict=verdict, worth_it=_worth_it(verdict))]

    def _write(self, ladder: Ladder, groups: Sequence[Group], until: float) -> tuple[str, Rung | None, str]:
        """(kernel, its rung, "") for groups that differ only in sizes, else ("", None, why there is none). Under `auto` a product,
        a map or a move by itself stays with ATen, which makes one launch of it, too."""
        group, graph, own = groups[0], _for_all(groups), self.settings.contractions == "own"
        small = [one for other in groups for one in self._small(other).values()]
        small += [{one.name: one.hint for one in other.graph.symbols} for other in groups[1:]]
        if not own and _is_one_launch(group):
            return "", None, "it stays with ATen, as one launch"
        why = NO_TIME
        for rung in ladder.rungs:
            left = until - time.monotonic()
            if not isinstance(rung, Writer):
                continue
            if left <= 0:
                self.unasked.add(key_of(rung))
                continue
            ladder.under_way = f"while {rung.name} wrote a kernel for {group.operators}"
            try:
                return rung.write(graph, small, left), rung.name, ""
            except TimeoutError:
                why = NO_TIME
                self.unasked.add(key_of(rung))
            except (CannotWrite, UserError) as error:
                why = f"{rung.name}: {one_line(error)}"
        return "", None, why

    def _costs(self, whole: Partition) -> tuple[dict[str, list[Group]], dict[str, float], float]:
        """Distinct groups, each one's modelled eager time over all occurrences, and the whole's."""
        sheet, distinct = target_sheet(self.settings.target), whole.distinct()
        cost = {digest: eager_ms(groups[0].graph, sheet) * len(groups) for digest, groups in distinct.items()}
        left = sum(eager_ms(self.graph, sheet, step.nodes) for step in whole.steps if isinstance(step, Left))
        return distinct, cost, sum(cost.values()) + left or 1.0

    @property
    def _cut(self) -> Partition:
        """The groups: where products stay with ATen, what lies between two of them is not divided."""
        if self._cut_of is None or self._cut_of.graph is not self.graph:
            auto = self.settings.contractions == "auto"
            whole = rows(self.graph) if auto else partition(self.graph)
            self._cut_of = _alike(whole) if self.form else whole
        return self._cut_of

    def _in_groups(self, ladder: Ladder) -> list[_Option]:
        whole = self._cut
        if self._nodes <= TOO_LONG and [one.nodes for one in whole.groups] == [self.graph.nodes]:
            return []  # it is one piece, which was already searched
        distinct, cost, total = self._costs(whole)
        order = sorted(distinct, key=lambda digest: -cost[digest])
        examples = examples_of(whole, self.values)

        def search(digest: str) -> Entry:
            group = distinct[digest][0]
            until = self._until(_RUNGS_UNTIL)
            entry = Entry()
            if time.monotonic() < until:
                entry = ladder.search(
                    group.graph,
                    until=until,
                    values=examples.get(digest),
                    shapes=self._small(group),
                    least=ENOUGH,
                )
            if entry.best is None or not _worth_it(entry.best.verdict):
                self.unasked.update({key_of(rung) for rung in ladder.rungs} - entry.tried.keys())
            return entry

        with ThreadPoolExecutor(self.settings.workers) as threads:
            entries = dict(zip(order, threads.map(search, order), strict=True))
        kept = {
            digest: entry.best
            for digest, entry in entries.items()
            if entry.best and _worth_it(entry.best.verdict)
        }
        self.rows = tuple(
            row_of(number, distinct[digest], entries[digest], cost[digest] / total)
            for number, digest in enumerate(order, 1)
        )
        return [_option(whole, kept, self.rows)] if kept else []

    # -- the whole before a judge ----------------------------------------------------------------------------

    def _judged(self, options: list[_Option]) -> Found:
        """The fastest option that another judge accepts. Raises _TimeUp."""
        refused = ""
        best: Found | None = None
        with _after_capture(), contextlib.ExitStack() as opened:
            verifier: Verifier | None = None
            for option in options:
                text = option.text()
                judged = option.verdict
                if judged is None:
                    verifier = verifier or opened.enter_context(self.open_judge())
                    judged = self._verdict_of(option, Ladder(verifier, [], self.cache), self._until(1.0))
                if judged is None:
                    if best is None:
                        raise _TimeUp("while the judge tried the whole")
                    break
                judged = against_inductor(judged, self.inductor_ms)
                if judged.outcome is Outcome.INFRASTRUCTURE_ERROR:
                    raise InfrastructureError(
                        f"the judge failed on the whole: {one_line(judged.detail)}; see kernelwright doctor"
                    )
                if not judged.correct:
                    refused = (
                        refused
                        or f"the whole was refused ({judged.outcome.value.replace('_', ' ')}: {one_line(judged.detail)})"
                    )
                    continue
                digest, rows = (self.captured or self.graph).digest, option.rows
                answer = Answer(graph=digest, rung=option.rung, code=text, verdict=judged, rows=rows)
                if best is None or best.answer is None or _faster(answer, best.answer):
                    best = Found(answer, option.rows)
        return best or Found(reason=refused, rows=options[0].rows)

    def _verdict_of(self, option: _Option, ladder: Ladder, until: float) -> Verdict | None:
        """Wait for a verdict on an option's text; None if time runs out first."""
        form = self._form(option.own and self.settings.contractions == "own")
        text = form.text(option.text(), option.rung)
        ladder.under_way = "while the judge tried the whole"
        verdict = ladder.judge(form.task, text, until)
        if verdict is None:
            self.unasked.update(self._asked)
        else:
            what = verdict.outcome.value.replace("_", " ")
            ladder.under_way = f"after a whole of groups ended as {what}"
            self.watch(Tried(self.graph.name, "whole", what, form.task, Candidate(code=text), verdict))
        return verdict

    def _why_not(self) -> str:
        """The main reason: why the whole failed if it was asked for, else why the most expensive group did."""
        reasons = [f"{rung}: {why}" for rung, why in self.failed.items()]
        for row in self.rows:
            if row.detail and not reasons:
                reasons.append(f"{row.operators}: {row.detail}")
        slower = any(row.rung != "aten" for row in self.rows)
        if slower and not reasons:
            return "every verified kernel is slower than the faster of eager and torch.compile"
        return f"no kernel was verified ({'; '.join(reasons[:2]) or 'it has nothing to compute'})"


def _option(
    whole: Partition,
    kernels: Mapping[str, Answer],
    rows: tuple[Row, ...],
    verdict: Verdict | None = None,
    worth_it: bool = False,
) -> _Option:
    codes = {digest: one.code for digest, one in kernels.items()}
    return _Option(
        whole, codes, {digest: one.rung for digest, one in kernels.items()}, rows, verdict, worth_it
    )


def shrunk(
    graph: Graph, values: Mapping[str, Any] | None, ties: Ties = (), kept: Collection[tuple[str, int]] = ()
) -> tuple[Graph, Sizes]:
    """The graph with its free sizes as symbols, and small values for them, for a judge without a GPU; the graph unchanged if no
    small sizes run. For symbols of its own alone, values only where the usual ones do not run."""
    small = shrink(graph, values, ties, kept)
    if small.graph is graph:
        return graph, usual_or_running(graph, values) if graph.symbols else {}
    serves = small.graph.symbols and "small" in small.shapes
    return (small.graph, small.shapes) if serves else (graph, {})


def usual_or_running(graph: Graph, values: Mapping[str, Any] | None) -> Sizes:
    """Nothing if a graph runs at the usual small sizes of its symbols, else small sizes at which it does."""
    described = draws.describe(graph, values)
    usual = usual_sizes(graph).values()
    return {} if all(runs(graph, one, described, values or {}) for one in usual) else running(graph, values)


def pin_symbols(
    graph: Graph, values: Mapping[str, Any] | None, shapes: Sizes, known: Mapping[str, int]
) -> tuple[Graph, Sizes]:
    """The graph and its small sizes with some symbols fixed; with all symbols fixed if the small sizes no longer run."""
    if not known:
        return graph, shapes
    graph = sizes.fix_symbols(graph, known)
    described = draws.describe(graph, values)
    kept = {
        name: {symbol: size for symbol, size in one.items() if symbol not in known}
        for name, one in shapes.items()
    }
    shapes = {name: one for name, one in kept.items() if runs(graph, one, described, values or {})}
    return (graph, shapes) if "small" in shapes else (sizes.static(graph, {}), {})


def _is_one_launch(group: Group) -> bool:
    """Whether it is a product, a map or a move by itself, of which ATen makes one launch, too."""
    work = [part for node in group.nodes if (part := part_of(node)) != "free"]
    return set(work) <= {"contraction"} or (len(work) == 1 and work[0] in ("map", "gather"))


def _repeats(whole: Partition, auto: bool = False) -> bool:
    """Whether a graph's distinct kinds of groups have few of its nodes, and are not the steps of a recurrent cell, which would be
    alike but for the step of a sequence that they read, nor of a loop without contractions. With `auto`, what stays with ATen as
    one launch is not written."""
    groups = whole.groups
    of = {one.graph.digest: _kind(one.graph) for one in groups}
    kinds = {of[one.graph.digest]: len(one.nodes) for one in groups if not (auto and _is_one_launch(one))}
    steps = len(set(of.values())) >= 2 * len({_kind(one.graph, step=False) for one in groups})
    many = Counter(of[one.graph.digest] for one in groups)
    again = [one for one in groups if many[of[one.graph.digest]] > 1]
    layers = sum(any(part_of(node) == "contraction" for node in one.nodes) for one in again)
    few = sum(kinds.values()) + EACH * len(kinds) <= REPEATED * len(whole.graph.nodes)
    return few and not steps and layers >= LAYERS * len(again)


def _alike(whole: Partition) -> Partition:
    """The same groups; distinct ones that differ only in free sizes have symbols for these. A module's widths are numbers in the graph
    of a task, and its extents expressions, so layers of several sizes would be written one by one."""
    wide = {digest: freed(groups[0].graph) for digest, groups in whole.distinct().items()}
    made = {digest: _kind(graph) for digest, graph in wide.items() if graph}
    many = Counter(made.values())

    def as_written(step: Group | Left) -> Group | Left:
        graph = wide[step.graph.digest] if isinstance(step, Group) else None
        if not isinstance(step, Group) or graph is None or many[made[step.graph.digest]] == 1:
            return step
        names = {one.name for one in graph.arguments}
        given = zip(step.graph.arguments, step.inputs, strict=True)
        return dataclasses.replace(
            step, graph=graph, inputs=tuple(old for one, old in given if one.name in names)
        )

    return dataclasses.replace(whole, steps=tuple(map(as_written, whole.steps)))


def _kind(graph: Graph, step: bool = True) -> str:
    """A name shared by groups' graphs that differ only in the values of their sizes, reduce rows of similar lengths, and, without `step`,
    may differ in the index that they select."""
    symbols = tuple(Symbol(name=one.name, hint=0) for one in graph.symbols)
    nodes = tuple(
        one if step or packet(one.op) != "select" else one.model_copy(update={"args": (*one.args[:2], 0)})
        for one in graph.nodes
    )
    digest = graph.model_copy(update={"symbols": symbols, "nodes": nodes}).digest
    return f"{digest} {_rows_of(graph)}"


def _rows_of(graph: Graph) -> list[int]:
    """By reduction, how many of `ROWS` what it reduces to one element exceeds."""
    hints, types = {one.name: one.hint for one in graph.symbols}, graph.types()

    def elements(name: str) -> int:
        of = types[name]
        return math.prod(sizes.evaluate(n, hints) for n in of.shape) if isinstance(of, TensorType) else 1

    found = []
    for node in graph.nodes:
        given = next(node.refs(), None)
        if part_of(node) == "reduction" and given is not None and node.outputs[0] is not None:
            row = elements(given) // max(1, elements(node.outputs[0].name))
            found.append(bisect.bisect_left(ROWS, row))
    return found


def _for_all(groups: Sequence[Group]) -> Graph:
    """The first group's graph, with the bounds of symbols that all of these groups, which are of one kind, lie within."""
    graph, bounds = groups[0].graph, list(zip(*(one.graph.symbols for one in groups), strict=True))
    symbols = tuple(
        some[0].model_copy(
            update={
                "least": min(one.least for one in some),
                "most": None if any(one.most is None for one in some) else max(one.most or 0 for one in some),
            }
        )
        for some in bounds
    )
    return graph.model_copy(update={"symbols": symbols})


def sizes_of(graph: Graph, shapes: Sizes, group: Group) -> Sizes:
    """Small values of a group's symbols, which are named by position: the sizes of the same dimensions in the whole. If the
    group's inputs do not determine them, those of the capture."""
    types, found = graph.types(), dict[str, dict[str, int]]()
    for name, chosen in shapes.items():
        known = {**{one.name: one.hint for one in graph.symbols}, **chosen}
        seen = {
            argument.name: tuple(sizes.evaluate(size, known) for size in type_.shape)
            for argument, old in zip(group.graph.arguments, group.inputs, strict=True)
            if isinstance(type_ := types.get(old), TensorType)
        }
        numbers = {
            argument.name: known[old]
            for argument, old in zip(group.graph.arguments, group.inputs, strict=True)
            if old in known
        }
        try:
            found[name] = sizes.bind(group.graph, seen, numbers)
        except ValueError:
            return {"small": {one.name: one.hint for one in group.graph.symbols}}
    return found


def examples_of(whole: Partition, values: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Values for the arguments of each distinct group, as far as they are arguments of the module."""
    known = values or {}
    found = {}
    for digest, groups in whole.distinct().items():
        names = [one.name for one in groups[0].graph.arguments]
        found[digest] = {
            name: known[old] for name, old in zip(names, groups[0].inputs, strict=True) if old in known
        }
    return found


def row_of(number: int, groups: list[Group], entry: Entry, share: float) -> Row:
    """The table's row for a distinct group."""
    best = entry.best
    timing = best.verdict.timing if best else None
    kept = best is not None and _worth_it(best.verdict)
    tried = "; ".join(f"{rung}: {what}" for rung, what in entry.tried.items() if what != "verified")
    slower = "verified, but slower than ATen" if best is not None and not kept else ""
    return Row(
        number=number,
        operators=groups[0].operators,
        count=len(groups),
        share=share,
        rung=best.rung if best is not None and kept else "aten",
        ms=timing.candidate_ms if timing else None,
        over_eager=timing.speedup() if timing else None,
        over_compile=timing.speedup("compile") if timing and "compile" in timing.baseline_ms else None,
        detail=slower or ("" if best else tried or NO_TIME),
    )


def _worth_it(verdict: Verdict) -> bool:
    gain = verdict.speedup(FASTER)
    return gain is None or gain >= ENOUGH


def _faster(one: Answer, other: Answer) -> bool:
    return one.ms is not None and other.ms is not None and one.ms < other.ms
