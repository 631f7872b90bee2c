"""`kernelwright optimize`: kernels for a task, module or function, by the same search as `kernelwright.optimize`.

    OUT                 the kernels with a ModelNew, exactly as judged    OUT.verdict.json   the verdict on the whole
    OUT.run/            report.html, found.json (the table), rollouts.jsonl (all that was judged), config, environment

A second call finds the answer in the user's cache. Kernels are executed only by the judge.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from kernelwright.errors import UserError
from kernelwright.hardware import target
from kernelwright.records import Completion, Message, Prompt, Rollout, Verdict
from kernelwright.runs import RunFolder, write_text

if TYPE_CHECKING:
    from kernelwright.search.cases import Case
    from kernelwright.search.ladder import Tried
    from kernelwright.search.rung import AnyRung
    from kernelwright.search.whole import Found, Settings


@dataclass(frozen=True)
class Request:
    """The case to search kernels for, and the settings."""

    case: Case
    settings: Settings
    rungs: Sequence[AnyRung]
    backend: str = "auto"
    user: str = ""
    """Source of a kernel to start with."""
    cache: bool | str = True
    began: float = 0.0


def read_question(
    spec: str, *, kernel: Path | None = None, cache: bool | str = True, **choices: Any
) -> Request:
    """Parse a command line's request; `choices` is for `api.settings_of`. Raises UserError, in one line."""
    from kernelwright.cli import read
    from kernelwright.search.cache import KernelCache, check_rungs
    from kernelwright.tasks.form import read_text

    began = time.monotonic()
    read.check_named(spec)
    user = "" if kernel is None else read_text(kernel)
    check_rungs(choices.get("rungs", ""))
    if choices.get("target"):
        target(choices["target"])
    from kernelwright import api  # only now: importing torch takes seconds

    settings, _, made = api.settings_of(**({"contractions": "own"} | choices))
    if kernel is not None:
        _check_kernel(user, kernel)
    if KernelCache.of(cache).empty:
        api.warm_up(settings, made)  # while the task is captured
    return Request(
        read.case(spec, settings), settings, made, choices.get("backend", "auto"), user, cache, began
    )


def run(wanted: Request, folder: RunFolder, *, quiet: bool = False) -> tuple[Found, list[Rollout]]:
    """Search, and write the result with a report into the folder. Returns it, and all that was judged."""
    from kernelwright.cli import show
    from kernelwright.report import build_report
    from kernelwright.search.cache import KernelCache
    from kernelwright.verify import opened

    settings, lock = wanted.settings, Lock()
    rows: list[Rollout] = []

    def watch(tried: Tried) -> None:
        with lock:
            if not quiet:
                show.show_rung(tried)
            if tried.verdict is not None:
                rows.append(rollout_of(tried))

    _empty(folder)
    config = {"task": wanted.case.name, **vars(settings), "rungs": list(settings.rungs)}
    folder.start(config, resume=False)
    found = wanted.case.search(
        lambda: opened.judge(
            None, wanted.backend, settings.protocol, settings.target, settings.workers, settings.verdict_s
        ),
        lambda: wanted.rungs,
        KernelCache.of(wanted.cache),
        settings,
        user=wanted.user,
        began=wanted.began or None,
        watch=watch,
    )
    folder.append("rollouts.jsonl", rows)
    folder.write_json("found.json", as_json(wanted.case, found))
    build_report([folder.path], folder.file("report.html"))
    return found, rows


def as_json(case: Case, found: Found) -> dict[str, Any]:
    """The result of a search as JSON, with the file's text."""
    answer = found.answer
    return {
        "task": case.name,
        "reason": found.reason,
        "rung": answer.rung if answer else None,
        "seconds": round(found.seconds, 2),
        "cached": found.cached,
        "rows": [row.model_dump(mode="json", exclude={"schema_version"}) for row in found.rows],
        "verdict": answer.verdict.model_dump(mode="json") if answer else None,
        "code": case.text(answer) if answer else "",
    }


def command(wanted: Request, out: Path, json_file: Path | None) -> int:
    """Run the command. Returns the exit code."""
    from kernelwright.cli import read, show

    folder = RunFolder(out.with_suffix(".run"))
    found, rows = run(wanted, folder)
    console = show.console(stderr=str(json_file) == "-")
    if found.rows:
        console.print(show.groups(found.rows, found.answer.verdict if found.answer else None))
    read.write_json(json_file, json.dumps(as_json(wanted.case, found), indent=2))
    report = f"report {folder.path}/report.html"
    if found.answer is None:
        show.show_unsolved(console, f"{wanted.case.name}: {found.reason}", rows)
        console.print(
            f"\nevery attempt is in {folder.path}/rollouts.jsonl; the module stays as it is\n{report}"
        )
        return 1
    verdict = write_result(wanted.case.text(found.answer), found.answer.verdict, out)
    console.print()
    console.print(show.verdict(found.answer.verdict))
    if found.slower:
        console.print(f"\nnot worth using: {found.slower}")
    console.print(f"\nkernel {out}\nverdict {verdict}\n{report}")
    return 0


def write_result(code: str, verdict: Verdict, out: Path) -> Path:
    """Write the kernel to `out`, byte for byte as verified, and its verdict next to it. Returns the verdict's path."""
    write_text(out, code)
    return write_text(out.with_suffix(".verdict.json"), verdict.model_dump_json(indent=2) + "\n")


def rollout_of(tried: Tried) -> Rollout:
    """A judged attempt as a row of the log, with its rung as the stage."""
    assert tried.task is not None
    assert tried.candidate is not None
    assert tried.verdict is not None
    message = Message(role="user", content=f"a kernel for {tried.graph}, by {tried.rung}")
    return Rollout(
        task_id=tried.task.id,
        stage=tried.rung,
        prompt=Prompt(task_id=tried.task.id, agent="frontend", messages=(message,), max_tokens=1),
        completion=Completion(text="", policy=tried.rung),
        candidate=tried.candidate,
        verdict=tried.verdict,
    )


def _check_kernel(text: str, path: Path) -> None:
    """Raises UserError for a file that is not a kernel."""
    from kernelwright.search.rung import CannotWrite, entry_of

    try:
        entry_of(text)
    except CannotWrite as why:
        raise UserError(f"{path}: {why}; a kernel is `def kernel(x, w, ...)`, or a ModelNew") from None


def _empty(folder: RunFolder) -> None:
    """Remove everything that an earlier search left in the folder."""
    for name in ("config.json", "environment.json", "rollouts.jsonl", "found.json", "report.html"):
        folder.file(name).unlink(missing_ok=True)
