"""Run folders: complete files or none, appended lines, and what a resumed run may change."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kernelwright.errors import UserError
from kernelwright.records import Message
from kernelwright.runs import RunFolder, environment, new_folder, write_text


def full(*args: Any, **kwargs: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_written_file_is_whole_and_alone(tmp_path: Path) -> None:
    RunFolder(tmp_path).write_json("metrics.json", {"correct": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.json"]
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"correct": 1}


def test_a_full_disk_keeps_the_old_file_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_text(tmp_path / "a.json", "old")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UserError, match=r"disk is full.*--resume"):
        write_text(path, "new")
    monkeypatch.undo()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a.json": "old"}


def test_an_interrupted_folder_is_absent(tmp_path: Path) -> None:
    def interrupted() -> None:
        with new_folder(tmp_path / "checkpoint") as staging:
            (staging / "weights").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_replaces_the_old_one(tmp_path: Path) -> None:
    for text in ("one", "two"):
        with new_folder(tmp_path / "checkpoint") as staging:
            (staging / "weights").write_text(text)
    assert [(p.name, (p / "weights").read_text()) for p in tmp_path.iterdir()] == [("checkpoint", "two")]


def test_a_failure_of_another_kind_on_a_full_disk_is_still_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.runs._free_bytes", lambda path: 0)
    with pytest.raises(UserError, match="disk is full"), new_folder(tmp_path / "checkpoint"):
        raise RuntimeError("PytorchStreamWriter failed writing file")


def test_a_torn_line_is_cut_before_the_next_is_appended(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.append("curves.jsonl", [{"step": 1}])
    with (tmp_path / "curves.jsonl").open("a") as out:
        out.write('{"step": 2, "lo')
    run.append("curves.jsonl", [{"step": 2}])
    assert run.lines("curves.jsonl") == [{"step": 1}, {"step": 2}]


def test_records_are_read_back(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    messages = [Message(role="user", content="\u00e9\n"), Message(role="assistant", content="")]
    run.append("messages.jsonl", messages)
    assert run.rows("messages.jsonl", Message) == messages
    assert run.rows("none.jsonl", Message) == []


def test_rows_can_be_forgotten(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.append("curves.jsonl", [{"step": step} for step in range(4)])
    run.keep_rows("curves.jsonl", lambda row: row["step"] < 2)
    assert run.lines("curves.jsonl") == [{"step": 0}, {"step": 1}]


def test_a_folder_with_a_run_asks_for_resume(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.start({"seed": 1}, resume=False)
    with pytest.raises(UserError, match="--resume"):
        run.start({"seed": 1}, resume=False)
    run.start({"seed": 1}, resume=True)


def test_a_resumed_run_must_ask_for_the_same(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.start({"seed": 1, "name": "a"}, resume=False)
    with pytest.raises(UserError, match=r"other settings \(seed\)"):
        run.start({"seed": 2, "name": "a"}, resume=True)


def test_finished_parts_are_remembered(tmp_path: Path) -> None:
    RunFolder(tmp_path).finish("sft")
    assert (RunFolder(tmp_path).done("sft"), RunFolder(tmp_path).done("midend")) == (True, False)


def test_a_path_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match="taken cannot be written"):
        RunFolder(tmp_path / "taken")


def test_the_environment_names_versions_and_machine() -> None:
    assert {"kernelwright", "versions", "python", "machine", "command", "time"} == set(environment())
