"""A verdict as a few lines that a model can learn from: what went wrong, or where the time goes.

Says only what the verifier found on the candidate; seeds and expected tensors stay with the judge (one got /
expected pair is shown for a wrong value). Bounded: at most `LIMIT` characters.
"""

from kernelwright.outcomes import Outcome
from kernelwright.records import Verdict

LIMIT = 800
_DETAIL = 400

_MEND = {
    Outcome.EMPTY_COMPLETION: "answer with a plan and one code block",
    Outcome.TRUNCATED: "write shorter code",
    Outcome.NO_CODE: "put the whole file into one ```python block",
    Outcome.SYNTAX_ERROR: "mend the Python syntax",
    Outcome.NO_ENTRY: "define the function or class that is asked for",
    Outcome.NOT_TRITON: "define a @triton.jit kernel and launch it in forward",
    Outcome.FORBIDDEN_IMPORT: "import only torch, triton, triton.language, math, typing",
    Outcome.FORBIDDEN_CODE: "leave that construct out",
    Outcome.LOAD_ERROR: "mend the top level of the file",
    Outcome.INVALID_IMPORT: "that name does not exist here; use torch and triton.language only",
    Outcome.CONSTRUCTOR_ERROR: "take the same constructor arguments as Model",
    Outcome.COMPILE_ERROR: "use only what Triton compiles, with tl.constexpr for block sizes",
    Outcome.OUT_OF_RESOURCES: "use smaller blocks or fewer stages",
    Outcome.RUNTIME_ERROR: "take the same arguments as forward of Model; check strides and launch arguments",
    Outcome.OUT_OF_BOUNDS: "mask the load or store, or mend the pointer arithmetic",
    Outcome.TIMEOUT: "do less work per program, or end the loop",
    Outcome.OUT_OF_MEMORY: "allocate less",
    Outcome.EARLY_EXIT: "return from forward; never end the process",
    Outcome.MALFORMED_RESULT: "return plain tensors",
    Outcome.TAMPERING: "leave torch, triton and the clock as they are",
    Outcome.WRONG_STRUCTURE: "return what the reference returns",
    Outcome.WRONG_SHAPE: "allocate the output in the reference's shape",
    Outcome.WRONG_DTYPE: "allocate the output in the reference's dtype",
    Outcome.INPUT_MUTATED: "write into a new tensor, never into an input",
    Outcome.OUTPUT_ALIASED: "return a new tensor",
    Outcome.UNWRITTEN: "store every element of the output; check the grid and the masks",
    Outcome.NON_FINITE: "subtract the maximum before exp, and give masked loads a neutral value",
    Outcome.WRONG_VALUE: "check formula, indices, strides and masks against the reference",
    Outcome.WRONG_ON_DISTRIBUTION: "handle negative, large and small values as the reference does",
    Outcome.WRONG_ON_SHAPE: "handle sizes that are no multiple of the block; check masks and strides",
    Outcome.LOW_PRECISION: 'accumulate in float32; tl.dot needs input_precision="tf32x3" or "ieee"',
    Outcome.KERNEL_NOT_LAUNCHED: "launch your kernel in forward",
    Outcome.TORCH_COMPUTE: "move that computing into a @triton.jit kernel",
    Outcome.DECOY_KERNEL: "let your kernel compute the output",
    Outcome.STATEFUL: "compute afresh from the inputs in every call",
    Outcome.NONDETERMINISTIC: "remove the race between programs, or reduce in a fixed order",
    Outcome.MIGRATED: "import nothing of torch._inductor or torch._C: triton.cdiv for grids, torch.empty for buffers",
    Outcome.UNPROVEN: "launch the same kernels with the same constants at every size, with places that follow from the "
    "program's number",
    Outcome.TIMING_FORGED: "do all the work in forward, in every call",
}
"""One hint an outcome; every failure that gets a fair verdict has one."""


def feedback(verdict: Verdict) -> str:
    """What the verifier found, for a repair prompt. Empty for a correct candidate or an unfair verdict."""
    if verdict.correct or not verdict.outcome.judged:
        return ""
    lines = [f"{verdict.outcome.value}: {_clip(verdict.detail)}".rstrip(": ")]
    wrong = verdict.evidence.mismatch
    if wrong is not None and "expected" not in verdict.detail:
        index = ", ".join(map(str, wrong.index))
        lines.append(
            f"output {wrong.output} at [{index}]: got {wrong.got:.6g}, expected {wrong.expected:.6g}; "
            f"{100 * wrong.wrong_share:.2g} % of its elements are wrong"
        )
    where = verdict.evidence.where
    if where and where not in verdict.detail:
        lines.append(f"case: {where}")
    hint = f"\nmend: {_MEND[verdict.outcome]}"
    return "\n".join(lines)[: LIMIT - len(hint)] + hint


def profile(verdict: Verdict) -> str:
    """Where a correct kernel's time goes, for an improvement prompt. Empty where there is nothing to tell.

    Times in ms; whether they are modelled or measured is said.
    """
    if not verdict.correct:
        return ""
    lines = []
    timing, evidence = verdict.timing, verdict.evidence
    if timing is not None:
        speedups = ", ".join(f"{timing.speedup(name):.2f}x {name}" for name in sorted(timing.baseline_ms))
        line = f"time: {timing.candidate_ms:.4g} ms {timing.kind} on {timing.target}; {speedups}"
        if timing.roofline_fraction is not None:
            line += f"; {timing.roofline_fraction:.0%} of the roofline"
        if timing.gb_s is not None:
            line += f"; {timing.gb_s:.4g} GB/s"
        if timing.gflop_s is not None:
            line += f", {timing.gflop_s:.4g} GFLOP/s"
        lines.append(line)
    if evidence.cost is not None:
        launches = evidence.cost.launches
        line = f"moved: {size(evidence.cost.bytes)} in {launches} launch{'es' * (launches != 1)}"
        if evidence.reference_cost is not None:
            line += (
                f" (reference: {size(evidence.reference_cost.bytes)} in {evidence.reference_cost.launches})"
            )
        lines.append(line)
    for binary in evidence.binaries[:4]:
        lines.append(
            f"{binary.kernel}: {binary.num_warps} warps, {binary.registers} registers, {binary.spills} B spilled, "
            f"{size(binary.shared_bytes)} shared, occupancy {binary.occupancy:.2f}"
        )
    return "\n".join(lines)[:LIMIT]


def _clip(detail: str) -> str:
    text = "\n".join(line.rstrip() for line in detail.splitlines() if line.strip()).strip()
    return text if len(text) <= _DETAIL else text[: _DETAIL - 4].rstrip() + " ..."


def size(count: float) -> str:
    """Bytes with a decimal prefix."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
