"""Pairs in KernelBook's form: which become tasks, which are refused and why; a stopped import resumes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from judges import FakeJudge

from kernelwright.data.importing import (
    AS_IT_WAS,
    REWRITTEN,
    Refused,
    bring,
    draft,
    module_of,
    reference_of,
    rows,
)
from kernelwright.errors import UserError
from kernelwright.outcomes import Outcome
from kernelwright.records import Candidate, Example, read_jsonl
from kernelwright.verify import VerifierPool

sys.path.insert(0, str(Path(__file__).parents[1]))

from test_migrate import OLD

MODULE = """import torch
import torch.nn as nn
from _paritybench_helpers import _mock_config


class Halves(nn.Module):
    def __init__(self, factor, shift=0.0, config=None):
        super(Halves, self).__init__()

    def forward(self, x):
        return torch.maximum(torch.abs(x), torch.tanh(x)).reshape(8, 32)


def get_inputs():
    return [torch.rand([4, 64])]


def get_init_inputs():
    return [[], {'factor': 4}]
"""
TRITON = OLD.replace("ModelNew", "HalvesNew").replace("    def forward", "    def __init__(self, factor):\n        super(HalvesNew, self).__init__()\n\n    def forward")  # fmt: skip


def row(**changed: Any) -> dict[str, Any]:
    return {"uuid": 7, "entry_point": "Halves", "python_code": MODULE, "triton_code": TRITON, **changed}


def write(path: Path, *given: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(one) + "\n" for one in given))
    return str(path)


def test_a_module_becomes_a_task_without_keywords() -> None:
    source = reference_of(MODULE, "Halves")
    assert "class Model(nn.Module)" in source
    assert "super(Model, self)" in source
    assert "return [4]" in source
    assert "_paritybench_helpers" not in source
    given = MODULE.replace("{'factor': 4}", "{'factor': 4, 'config': _mock_config(n=3)}")
    assert "return [4, 0.0, _mock_config(n=3)]" in reference_of(given, "Halves")


def test_the_triton_side_is_called_modelnew() -> None:
    code = module_of(TRITON, "Halves")
    assert "class ModelNew(nn.Module)" in code
    assert "super(ModelNew, self)" in code


def test_a_row_is_an_example_of_the_right_teacher() -> None:
    made = draft(row(), 0)
    assert isinstance(made, Example)
    assert (made.task.id, made.teacher) == ("import/7-Halves", REWRITTEN)
    today = "import torch\nimport triton\nimport triton.language as tl\n" + made.code.partition("tl\n")[2]
    again = draft(row(triton_code=today), 0)
    assert isinstance(again, Example)
    assert again.teacher == AS_IT_WAS


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"python_code": "def ("}, "unreadable: "),
        ({"python_code": "x = 1"}, "unreadable: no module with its get_inputs"),
        (
            {"python_code": MODULE.replace("'factor': 4", "'width': 4")},
            "unreadable: the constructor's factor is not given",
        ),
        ({"triton_code": "x = 1"}, "unreadable: no class of the Triton side ends in New"),
        (
            {"triton_code": TRITON.replace("libdevice.tanh", "libdevice.unknown")},
            "left: helper: libdevice.unknown",
        ),
    ],
)
def test_what_cannot_be_read_says_why(changed: dict[str, Any], reason: str) -> None:
    made = draft(row(**changed), 3)
    assert isinstance(made, Refused)
    assert (made.row, made.reason[: len(reason)]) == (3, reason)


def test_what_passes_is_kept_and_a_stopped_run_goes_on(tmp_path: Path) -> None:
    source = write(
        tmp_path / "pairs.jsonl", *(row(uuid=number) for number in range(4)), row(triton_code="x = 1")
    )
    out = tmp_path / "examples.jsonl"
    with pytest.raises(KeyboardInterrupt):
        bring(source, out, FakeJudge(stop_after=2))
    judge = FakeJudge(lambda code: Outcome.CORRECT)
    ended = bring(source, out, judge)
    assert (ended["rows"], ended["accepted"], ended["accepted, rewritten"]) == (5, 4, 4)
    assert [example.task.id for example in read_jsonl(out, Example)] == [
        f"import/{n}-Halves" for n in range(4)
    ]
    [refused] = read_jsonl(tmp_path / "examples.rejected.jsonl", Refused)
    assert refused.row == 4
    assert bring(source, out, FakeJudge(stop_after=1)) == ended


def test_what_the_judge_rejects_is_kept_with_its_verdict(tmp_path: Path) -> None:
    out = tmp_path / "examples.jsonl"
    ended = bring(write(tmp_path / "pairs.jsonl", row()), out, FakeJudge(lambda code: Outcome.WRONG_VALUE))
    assert ended["judge: wrong_value"] == 1
    [refused] = read_jsonl(tmp_path / "examples.rejected.jsonl", Refused)
    assert "grid" in refused.rewritten
    assert refused.verdict is not None


def test_parquet_is_read_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import Table, parquet

    path = tmp_path / "pairs.parquet"
    parquet.write_table(Table.from_pylist([row()]), path)
    assert rows(str(path)) == [row()]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "a.jsonl",
            '{"code": "x"}\n',
            r"no column python_code or pytorch_code and triton_code \(it has code\)",
        ),
        ("a.jsonl", "not json\n", "a.jsonl:1: not a JSON object"),
        ("a.jsonl", "", "holds no rows"),
        ("a.parquet", "no", "not a readable parquet file"),
        ("a.txt", "no", "pairs come from a .parquet or .jsonl file"),
    ],
)
def test_a_bad_source_is_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=said) as error:
        rows(str(tmp_path / name))
    assert "\n" not in str(error.value)


def test_a_pair_of_the_old_form_is_judged_right() -> None:
    made = draft(row(), 0)
    assert isinstance(made, Example)
    with VerifierPool(1, backend="interpret", priced=False, kept=True) as pool:
        verdict = pool.submit(made.task, Candidate(code=made.code)).result()
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
