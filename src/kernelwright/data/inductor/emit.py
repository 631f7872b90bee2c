"""A program: what Inductor emits for tasks, kept as it stands, offline or on this machine's GPU.

    python -m kernelwright.data.inductor.emit h200 TASKS.jsonl OUT.json     # offline, for that sheet; see `offline.install`
    python -m kernelwright.data.inductor.emit gpu TASKS.jsonl OUT.json      # this GPU, template choices as offline
    python -m kernelwright.data.inductor.emit own TASKS.jsonl OUT.json      # this GPU, Inductor's own measured choices

One process for all tasks, without the limits of `worker`: for suites of our own, to be compared by `emitted.compare`.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelwright.data.inductor.emitted import Dump, Emission, digest
from kernelwright.errors import UserError
from kernelwright.progress import Bar
from kernelwright.records import Task, read_jsonl
from kernelwright.runs import write_text

WHERE = ("gpu", "own")
"""Instead of a sheet's name: the GPU that is there."""


def emit(suite: Sequence[Task], where: str) -> Dump:
    """Changes this process for good. Raises UserError for a GPU that is not there or a sheet that is not known."""
    import torch
    import triton

    from kernelwright.data.inductor import offline, worker
    from kernelwright.hardware import target

    torch.set_num_threads(1)
    if where in WHERE:
        if not torch.cuda.is_available():
            raise UserError("no GPU here to emit on; compare two dumps: --compare OFFLINE.json GPU.json")
        device = torch.cuda.get_device_name(0)
        offline.attach(own_choices=where == "own")
    else:
        sheet = target(where)
        device = f"none, as {sheet.name}"
        offline.install(sheet)
    found = []
    with Bar(f"emit {where}", len(suite)) as bar:
        for task in suite:
            lesson = worker.lesson(task)
            raw = lesson.raw.replace(os.environ.get("TORCHINDUCTOR_CACHE_DIR", "\0"), "CACHE")
            found.append(
                Emission(task=task, digest=digest(task), raw=raw, code=lesson.code, reason=lesson.reason)
            )
            bar.advance()
    machine = {
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "cuda": str(torch.version.cuda),
        "device": device,
    }
    return Dump(where=where, machine=machine, emissions=tuple(found))


if __name__ == "__main__":
    try:
        made = emit(list(read_jsonl(Path(sys.argv[2]), Task)), sys.argv[1])
    except UserError as error:
        sys.exit(str(error))
    write_text(Path(sys.argv[3]), made.model_dump_json() + "\n")
