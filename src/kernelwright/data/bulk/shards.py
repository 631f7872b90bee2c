"""A corpus as files: compressed parquet through `datasets`, and the JSONL that training reads.

    DIR/shards/train-00000.parquet    a row an example              DIR/examples.jsonl    the same as `Example` records

Read back with `datasets.load_dataset("parquet", data_dir="DIR/shards")`, or here as records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelwright.errors import UserError
from kernelwright.records import Example
from kernelwright.runs import new_folder, writing

ROWS = 5000
"""Examples of a shard."""


def row(example: Example, tokens: tuple[int, int]) -> dict[str, Any]:
    """An example as a flat row; `tokens` are those of prompt and answer."""
    fields = example.model_dump(mode="json", exclude={"task"})
    task = example.task.model_dump(mode="json")
    task["shapes"] = json.dumps(task["shapes"])
    return {
        **fields,
        **{f"task_{name}": value for name, value in task.items()},
        "prompt_tokens": tokens[0],
        "answer_tokens": tokens[1],
    }


def example(found: dict[str, Any]) -> Example:
    """The example of a row."""
    task = {name.removeprefix("task_"): value for name, value in found.items() if name.startswith("task_")}
    task["shapes"] = json.loads(task["shapes"])
    rest = {name: value for name, value in found.items() if not name.startswith("task_")}
    for name in ("prompt_tokens", "answer_tokens"):
        rest.pop(name)
    return Example.model_validate({**rest, "task": task})


class Writer:
    """Writes shards by split, and all of them to the JSONL, whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._numbers: dict[str, int] = {}

    def __enter__(self) -> Writer:
        self._staging = new_folder(self.folder / "shards")
        self._shards = self._staging.__enter__()
        self._part = self.folder / "examples.jsonl.part"
        with writing(self._part):
            self._lines = self._part.open("w", encoding="utf-8")
        return self

    def write(self, found: Example, tokens: tuple[int, int]) -> None:
        with writing(self._part):
            self._lines.write(found.model_dump_json() + "\n")
        rows = self._rows.setdefault(found.split, [])
        rows.append(row(found, tokens))
        if len(rows) >= ROWS:
            self._flush(found.split)

    def _flush(self, split: str) -> None:
        from datasets import Dataset, disable_progress_bars

        rows = self._rows.pop(split)
        number = self._numbers.get(split, 0)
        self._numbers[split] = number + 1
        path = self._shards / f"{split}-{number:05d}.parquet"
        disable_progress_bars()
        Dataset.from_list(rows).to_parquet(str(path))

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is None:
            for split in list(self._rows):
                self._flush(split)
        self._lines.close()
        self._staging.__exit__(kind, *rest)
        if kind is None:
            self._part.replace(self.folder / "examples.jsonl")
        else:
            self._part.unlink(missing_ok=True)


def read(folder: Path) -> Iterator[Example]:
    """The examples of a folder of shards. Raises UserError where there are none."""
    from pyarrow import parquet

    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise UserError(f"{folder} holds no parquet shards; make them with: kernelwright data make")
    for path in paths:
        yield from map(example, parquet.read_table(path).to_pylist())
