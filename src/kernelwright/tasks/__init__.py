"""Suites of tasks: where each `Task` comes from.

One entry point, `load_suite(spec)`; one module per kind of source (`builtin`, `kernelbench`, `tritonbench`, `files`). Loading
reads and parses text and executes nothing, so a reference that raises is only found when it is run. Tasks without small
shapes get them from `small_shapes`.
"""

from pathlib import Path

from kernelwright.errors import UserError, did_you_mean
from kernelwright.records import Task
from kernelwright.tasks import builtin, files, kernelbench, tritonbench
from kernelwright.tasks.shapes import small_shapes

__all__ = ["load_suite", "load_task", "skipped_calls", "small_shapes"]

SPECS = (
    "wright, wright/FAMILY-OR-NAME[,...], kernelbench:PATH[/level1[/3,5-9]], tritonbench:PATH[/NAME[,...][/K]], "
    "FILE.py, FILE.parquet, FILE.jsonl, a folder of task folders"
)


def load_suite(spec: str) -> list[Task]:
    """The tasks that `spec` names, in a stable order, at least one.

    - `wright`, `wright/norm`, `wright/relu,softmax_rows`: built in; filtered by name, name prefix or family.
    - `kernelbench:PATH`, `kernelbench:PATH/level1`, `kernelbench:PATH/level1/3,5-9`: a KernelBench checkout.
    - `tritonbench:PATH`, `tritonbench:PATH/softmax,relu`, `tritonbench:PATH/softmax/2`: calls in the tests of TritonBench-T, in a
      checkout.
    - `x.py`: one reference; `x.parquet`, `x.jsonl`: rows with `code, level, name, problem_id`, or our own
      `Task` records (JSONL only); a folder: one task folder (`task.py`, `task.toml`) per task.

    Raises UserError for an unknown spec, a file that is missing, not UTF-8 or not a task, and an empty match.
    """
    head, _, tail = spec.partition("/")
    if head == builtin.SUITE:
        return builtin.load(tail)
    if spec.startswith(kernelbench.PREFIX):
        return kernelbench.load(spec.removeprefix(kernelbench.PREFIX))
    if spec.startswith(tritonbench.PREFIX):
        return tritonbench.load(spec.removeprefix(tritonbench.PREFIX))
    path = Path(spec).expanduser()
    if path.is_dir():
        return builtin.load_folder(path, path.resolve().name)
    suffix = path.suffix.lower()
    if suffix == ".py":
        return [files.load_python(path)]
    if suffix == ".parquet":
        return files.load_parquet(path)
    if suffix in (".jsonl", ".ndjson"):
        return files.load_jsonl(path)
    hint = did_you_mean(head.split(":")[0], [builtin.SUITE, "kernelbench", "tritonbench"])
    raise UserError(f"unknown suite {spec!r}{hint}; valid: {SPECS}")


def load_task(spec: str) -> Task:
    """The one task that `spec` names. Raises UserError if it names several, and like `load_suite`."""
    found = load_suite(spec)
    if len(found) != 1:
        raise UserError(f"{spec} names {len(found)} tasks; name one, such as {found[0].id}")
    return found[0]


def skipped_calls(spec: str) -> list[tritonbench.Skipped]:
    """Calls in TritonBench-T's tests that `spec` names but that give no task, each with the reason."""
    if not spec.startswith(tritonbench.PREFIX):
        return []
    return tritonbench.read(spec.removeprefix(tritonbench.PREFIX))[1]
