"""The nouns of the system, as frozen records that travel as JSONL.

    task -> prompt -> completion -> candidate -> verdict -> reward -> rollout

Illegal states cannot be built: a failing `Verdict` with a timing raises, and a `Candidate` without code must give a
reason. Nothing here imports torch, so a log can be read and scored again anywhere.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, TextIO, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kernelwright.errors import UserError
from kernelwright.outcomes import Gate, Outcome

Agent = Literal["frontend", "midend", "backend"]
Backend = Literal["interpret", "cuda"]
ProtocolName = Literal["strict", "kernelbench", "toronto", "printed"]
PrecisionName = Literal["default", "ieee", "tf32", "bf16", "fp16"]
"""How a reference runs: with PyTorch's default flags, TF32 off or on, or weights and inputs in half precision."""
Span = tuple[int, int]
PositiveMs = Annotated[float, Field(gt=0, allow_inf_nan=False)]

SCHEMA_VERSION: Literal[1] = 1

R = TypeVar("R", bound="Record")


class Record(BaseModel):
    """Base of all nouns: frozen, no unknown fields, one schema version."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
    schema_version: Literal[1] = SCHEMA_VERSION


class Task(Record):
    """A reference module in the KernelBench form.

    Example: `Task(id="wright/relu", suite="wright", source="import torch...", shapes={"small": {"N": 64}})`
    """

    id: str = Field(min_length=1)
    """Unique in its suite, `suite/name`."""
    suite: str = "file"
    source: str
    """Python text with `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`."""
    dtype: str = "float32"
    shapes: Mapping[str, Mapping[str, int]] = {}
    """Shape sets: name -> {module-level constant of `source`: new value}. `{}` is the source unchanged.
    The interpreter runs `small` and names starting with it; `full` defaults to `{}`."""
    ranges: Mapping[str, tuple[int, int | None]] = {}
    """The range of sizes that kernels must support: constants of `source`, each with its least and most value (None: no limit).
    Empty: only its own sizes count, and a few others are tested against overfitting to them."""
    family: str = ""
    """Operator family, for curricula and per-category tables."""
    difficulty: int = 1
    """Number of operators in the graph."""
    policy: Literal["full", "partial"] = "full"
    """`full`: outside the candidate's kernels, only allocation, views and metadata. `partial`: see `min_share`."""
    min_share: float = Field(default=1.0, ge=0.0, le=1.0)
    """Least share of GPU time in the candidate's own kernels under `partial`."""
    graph: str = ""
    """JSON of the `Graph` that `source` was printed from, in function form; empty for other tasks. Not part of the digest, since
    `source` is."""
    precision: PrecisionName = "default"
    """The precision of the task (`kernelwright.precision`)."""
    gradients: bool = False
    """Whether the backward pass is part of the task: gradients of floating-point inputs and of parameters."""
    lowered: Literal[""] = Field(default="", exclude=True, repr=False)
    """Always empty; kept to read older files, and no longer written."""

    @property
    def small_sets(self) -> dict[str, dict[str, int]]:
        """The shape sets that the interpreter runs: `small`, `small_odd` and other names that start so."""
        return {name: dict(over) for name, over in self.shapes.items() if name.startswith("small")}

    @property
    def digest(self) -> str:
        """Identity by content: 16 hex digits over source, dtype, shapes, policy, precision, gradients and ranges."""
        body = self.model_dump_json(include={"source", "dtype", "shapes", "policy", "min_share"})
        body += ("" if self.precision == "default" else self.precision) + "gradients" * self.gradients
        body += str(sorted(self.ranges.items())) if self.ranges else ""
        return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Message(Record):
    role: Literal["system", "user", "assistant"]
    content: str


class Prompt(Record):
    """What the policy is asked."""

    task_id: str
    agent: Agent
    messages: tuple[Message, ...] = Field(min_length=1)
    max_tokens: int = Field(gt=0)
    answer: Literal["plan+code", "plan+kernels", "plan"] = "plan+code"
    """What the policy writes itself. The library prints the rest: all code, or the host function."""
    task: Task | None = Field(default=None, exclude=True, repr=False)
    """For policies that read no text; not logged."""


class Completion(Record):
    """The policy's output."""

    text: str
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """Natural log-probability of each token under the sampling policy."""
    finish_reason: Literal["stop", "length", "error"] = "stop"
    policy: str = ""

    @model_validator(mode="after")
    def _align(self) -> Self:
        if self.logprobs is not None and (
            self.token_ids is None or len(self.logprobs) != len(self.token_ids)
        ):
            raise ValueError("logprobs need token_ids of the same length")
        return self


class Candidate(Record):
    """Plan and code parsed from a completion."""

    plan: str = ""
    code: str = ""
    plan_span: Span | None = None
    """Token span [start, end) of the plan, if token pieces were given; else None."""
    code_span: Span | None = None
    thought_spans: tuple[Span, ...] = ()
    """Token spans of the text in think tags, including the tags."""
    migrated: tuple[str, ...] = ()
    """Names removed from PyTorch that the completion used and `code` no longer does (`--migrate`)."""
    problem: Outcome | None = None
    """Why there is no usable code; None if there is."""
    detail: str = ""

    @model_validator(mode="after")
    def _code_or_problem(self) -> Self:
        if not self.code and self.problem is None:
            raise ValueError("a candidate without code must name its problem")
        return self

    @property
    def digest(self) -> str:
        """Identity by content: 16 hex digits over the code."""
        return hashlib.sha256(self.code.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Launch(Record):
    """One traced launch of a candidate's kernel, under one shape set."""

    kernel: str
    grid: tuple[int, int, int]
    num_warps: int = 4
    num_stages: int = 3
    constexprs: Mapping[str, str] = {}
    signature: Mapping[str, str] = {}


class Binary(Record):
    """Properties of one launched kernel after cross-compilation."""

    kernel: str
    target: str
    registers: int
    """Registers per thread."""
    spills: int
    """Bytes of local memory per thread used for spilling."""
    shared_bytes: int
    """Static plus dynamic shared memory per block."""
    num_warps: int
    occupancy: float
    """Resident warps over the most that an SM can hold, in [0, 1]."""


class Mismatch(Record):
    """The first difference between candidate and oracle."""

    output: int
    index: tuple[int, ...]
    got: float
    expected: float
    allowed: float
    """Absolute error allowed there."""
    wrong_share: float
    """Share of the output's elements outside the tolerance."""


class Cost(Record):
    """Modelled work of one forward pass on a target; never a measurement."""

    target: str
    bytes: float
    """DRAM traffic, unique 32-byte sectors."""
    l2_bytes: float
    flops: float
    launches: int
    ms: PositiveMs
    roofline_ms: float
    """Least time for the useful bytes and operations, by the target's data sheet."""

    @property
    def roofline_fraction(self) -> float:
        return min(1.0, self.roofline_ms / self.ms)


FASTER = "faster"
"""Stands for a verdict's faster baseline."""


class Timing(Record):
    """The time of a correct candidate and of the baselines.

    `kind` says whether the milliseconds come from the cost model or from a clock.
    """

    kind: Literal["modelled", "measured"]
    target: str
    candidate_ms: PositiveMs
    candidate_ci: tuple[float, float]
    baseline_ms: Mapping[str, PositiveMs]
    """`eager` always; `compile` is torch.compile: if measured, only when it was timed; if modelled, by the cost of its own kernels
    when those are known, else by a fused model."""
    speedup_ci: Mapping[str, tuple[float, float]]
    """95 % confidence interval of baseline / candidate, per baseline."""
    roofline_fraction: float | None = None
    gflop_s: float | None = None
    """Operations of the reference's products and convolutions, in GFLOP, per second of the candidate's time; None without any."""
    gb_s: float | None = None
    """Bytes that must be read and written once, in GB, per second of the candidate's time."""
    samples: int = 1
    known_ms: PositiveMs | None = None
    """Time of the best kernel known before for this task, on the same kind of clock. Not a baseline: no table shows it."""

    @model_validator(mode="after")
    def _has_eager(self) -> Self:
        if "eager" not in self.baseline_ms or set(self.speedup_ci) != set(self.baseline_ms):
            raise ValueError("a timing needs the eager baseline and an interval for each baseline")
        return self

    @property
    def faster_baseline(self) -> str:
        """The name of the faster baseline."""
        return min(self.baseline_ms, key=lambda name: self.baseline_ms[name])

    def speedup(self, baseline: str = "eager") -> float:
        """Baseline time over candidate time (dimensionless); `faster` is the faster baseline."""
        return self.baseline_ms[self.faster_baseline if baseline == FASTER else baseline] / self.candidate_ms

    def over_known(self) -> float | None:
        """Best known time over the candidate's; for a measured time, the lower end of its interval. None if no kernel is known."""
        if self.known_ms is None:
            return None
        return self.known_ms / (self.candidate_ms if self.kind == "modelled" else self.candidate_ci[1])


class Proof(Record):
    """Comparison in exact arithmetic (`verify/exact`): `proven` equal to the reference for every input, or only `tested`."""

    status: Literal["proven", "tested"]
    reason: str = ""
    """For `tested`: what could not be followed, or what differs."""
    shapes: tuple[str, ...] = ()
    """The shape sets that were compared."""
    differs: float = 0.0
    """Largest share of an output's elements that differ, if the two sides could be compared."""
    functions: tuple[str, ...] = ()
    """If they differ: opaque functions in the results, because of which equal values may have different forms."""


class Evidence(Record):
    """What the verifier observed, up to the gate it reached."""

    cases: int = 0
    """Correctness cases passed (shapes x seeds x distributions)."""
    worst_error: float | None = None
    """Largest error as a share of the allowed error (1.0 is the limit)."""
    mismatch: Mismatch | None = None
    where: str = ""
    """The case (shape set, distribution) that failed."""
    launches: tuple[Launch, ...] = ()
    binaries: tuple[Binary, ...] = ()
    cost: Cost | None = None
    reference_cost: Cost | None = None
    aten_ops: Mapping[str, int] = {}
    """Aten operators outside the candidate's kernels that are not allocation, views or metadata."""
    own_share: float | None = None
    """Share of a call's time in the candidate's kernels; None if neither measured nor modelled."""
    deterministic: bool | None = None
    """Whether a second call on the same inputs, under other conditions, gave the same bits; None if there was none. Only atomic
    updates may differ."""
    proof: Proof | None = None
    """None if it was not requested."""
    seconds: Mapping[str, float] = {}
    """Wall-clock seconds per gate."""


class Verdict(Record):
    """The judge's verdict on one candidate for one task.

    >>> Verdict(task_id="t", outcome="wrong_value", gate="small_shapes", timing=some_timing)
    ValueError: ... a failing verdict has no timing
    """

    task_id: str
    outcome: Outcome
    gate: Gate
    """The gate that decided."""
    detail: str = ""
    """One short, model-readable message: the compiler's line, the first wrong index, the forbidden call."""
    protocol: ProtocolName = "strict"
    precision: PrecisionName = "default"
    """The task's precision."""
    gradients: bool = False
    """Whether gradients were judged, too."""
    sizes: Mapping[str, tuple[int, int]] = {}
    """For an accepted kernel of a task with ranges: the range of each free size for which the verdict holds. It was judged at both
    ends and at random sizes between."""
    backend: Backend = "interpret"
    evidence: Evidence = Evidence()
    timing: Timing | None = None
    candidate_digest: str = ""
    beside: tuple[Verdict, ...] = ()
    """Verdicts of other requested protocols on the same candidate."""

    @model_validator(mode="after")
    def _only_correct_is_timed(self) -> Self:
        if self.timing is not None and not self.outcome.accepted:
            raise ValueError("a failing verdict has no timing")
        return self

    def holds_for(self, name: str, size: int, hint: int) -> bool:
        """Whether a free size, the constant or symbol `name`, is in the range that was judged; without ranges, only `hint` is."""
        least, most = self.sizes.get(name.upper(), (hint, hint))
        return least <= size <= most

    @property
    def correct(self) -> bool:
        return self.outcome.accepted

    def speedup(self, baseline: str = "eager") -> float | None:
        """Baseline over candidate time; None without a timing, never 1.0 or 0."""
        return None if self.timing is None else self.timing.speedup(baseline)


class Reward(Record):
    """A number per segment, computed only from a verdict. None: the sample must not be trained on."""

    preset: str
    plan: float | None
    code: float | None

    @property
    def total(self) -> float | None:
        return None if self.plan is None or self.code is None else self.plan + self.code


class Rollout(Record):
    """One line of a run's log: everything needed to score a sample again without a GPU."""

    task_id: str
    title: str = ""
    """The task's title for people: `linear+gelu 1024x8192x8192 bf16`; empty in older logs."""
    dtype: str = ""
    """The task's main dtype, as torch names it."""
    stage: str
    step: int = 0
    group: str = ""
    """Shared by the samples of one prompt."""
    turn: int = 0
    prompt: Prompt
    completion: Completion
    candidate: Candidate
    verdict: Verdict
    reward: Reward | None = None
    seconds: Mapping[str, float] = {}


class Example(Record):
    """One supervised example: what `data` writes and `train` reads."""

    kind: Literal["translate", "repair", "improve"] = "translate"
    task: Task
    kernel: str = ""
    """The kernel in the prompt: broken for `repair`, slower for `improve`, none for `translate`."""
    feedback: str = ""
    """The verifier's message on `kernel` for `repair`, its profile for `improve`."""
    plan: str
    code: str
    teacher: str = ""
    """Origin of `code`: a gold, a library template, inductor, a language model."""
    split: Literal["train", "validation", "heldout"] = "train"
    graph: str = ""
    """Digest of the operator graph, by which splits are made."""


class Shown(Record):
    """A kernel shown in a prompt: correct and slower for `improve`, broken for `repair`."""

    plan: str = ""
    code: str
    feedback: str
    """The verifier's message on a broken kernel, the profile of a slow one."""
    us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Microseconds of one call; None if it is broken."""


class Pair(Record):
    """One supervised example in function form: a graph, a plan, and the kernel printed from it, which was judged unless `judged` is
    false.

    write: graph -> plan and code. improve: a verified kernel with its profile -> a faster plan and code. repair: a broken
    kernel with the verifier's message -> the kernel it was made from. `task` is what was judged; `task.graph` is the JSON of its
    `Graph`, `task.shapes` its small sizes.

    >>> Pair(kind="improve", task=task, ..., us=12.0, shown=None)
    ValueError: ... improve shows a kernel
    """

    kind: Literal["write", "improve", "repair"] = "write"
    task: Task
    digest: str = Field(min_length=16)
    """Digest of the graph: the key of caches and archives."""
    structure: str = Field(min_length=16)
    """Digest of the normalised graph without sizes: used for splits and decontamination."""
    label: str
    """Operators in order, `linear+gelu`."""
    source: Literal["catalogue", "random", "harvest", "files", "archive"]
    """Origin of the graph."""
    writer: str = "library"
    """Origin of the code: `library` prints schedules, `inductor` is torch's compiler, else a model's name."""
    precision: PrecisionName
    target: str
    """GPU that the times are for."""
    plan: str
    """Lines of the plan, in the grammar of `synth/plan.py`; empty if `writer` has no schedule."""
    code: str
    """`def kernel(...)` over the graph's arguments with its `@triton.jit` functions."""
    schedule: str = ""
    """JSON of the schedule in `plan`."""
    clock: Literal["modelled", "measured"] = "modelled"
    us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Microseconds of one call at full size; None if it has no price."""
    best_us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Microseconds of the fastest known kernel for this graph on this target."""
    outcome: Outcome = Outcome.CORRECT
    cases: int = 0
    """Number of correctness cases passed."""
    judged: bool = True
    """False: the code was not judged, as `data make judged=...` allows."""
    shown: Shown | None = None
    split: Literal["train", "validation", "heldout"] = "train"

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.task.graph:
            raise ValueError("a pair's task holds its graph")
        if not self.outcome.accepted:
            raise ValueError("a pair's answer was accepted by the judge")
        if (self.kind == "write") == (self.shown is not None):
            raise ValueError(f"{self.kind} shows {'no' if self.shown else 'a'} kernel")
        slower = None if self.shown is None else self.shown.us
        if self.kind == "improve" and self.us and slower and self.us >= slower:
            raise ValueError("an improvement takes less time than what it improves")
        return self


def write_jsonl(path: Path, records: Iterable[Record]) -> int:
    """Write one record per line, flushing each, so that a killed run loses at most one line; compressed if the name ends in .gz.
    Returns the count."""
    count = 0
    with contextlib.ExitStack() as closing:
        out: TextIO
        if path.suffix == ".gz":
            raw = closing.enter_context(path.open("wb"))
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
            out = closing.enter_context(io.TextIOWrapper(packed, encoding="utf-8"))
        else:
            out = closing.enter_context(path.open("w", encoding="utf-8"))
        for record in records:
            out.write(record.model_dump_json() + "\n")
            out.flush()
            count += 1
    return count


def read_jsonl(path: Path, kind: type[R]) -> Iterator[R]:
    """Read records back, also from a .gz. An incomplete last line (a killed writer) is skipped; any other invalid line raises
    UserError."""
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as lines
    ):
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield kind.model_validate_json(line)
            except ValidationError as error:
                if not line.endswith("\n"):
                    return
                raise UserError(
                    f"{path}:{number}: not a record of kind {kind.__name__} ({error.error_count()} errors); name another file"
                ) from None


Supervised = Example | Pair
"""The records that supervised training reads."""


def read_supervised(path: Path) -> Iterator[Supervised]:
    """The supervised examples of a file; its first line shows whether they are in function form. Raises like `read_jsonl`."""
    with path.open(encoding="utf-8") as lines:
        first = next((line for line in lines if line.strip()), "")
    if '"structure":' in first:
        yield from read_jsonl(path, Pair)
    else:
        yield from read_jsonl(path, Example)
