"""Loading suites: the result of each kind of spec, and the one-line error for each mistake in it."""

import json
import re
from pathlib import Path

import pytest

from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.tasks import load_suite
from kernelwright.tasks.builtin import FOLDER, load_task
from kernelwright.tasks.kernelbench import parse_ids

REFERENCE = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

N = 8

def get_inputs():
    return [torch.rand(N)]

def get_init_inputs():
    return []
"""


def refused(spec: object) -> str:
    with pytest.raises(UserError) as caught:
        load_suite(str(spec))
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for level, names in {1: ["1_A_", "2_B", "10_C"], 2: ["1_Conv2d_ReLU_Bias"]}.items():
        folder = tmp_path / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}.py").write_text(REFERENCE)
    return tmp_path


# python files


def test_a_single_file_is_one_task(tmp_path):
    path = tmp_path / "double.py"
    path.write_text(REFERENCE)
    assert [(t.id, t.suite, t.source) for t in load_suite(str(path))] == [("file/double", "file", REFERENCE)]


def test_byte_order_mark_and_carriage_returns_are_taken_off(tmp_path):
    path = tmp_path / "double.py"
    path.write_bytes(b"\xef\xbb\xbf" + REFERENCE.replace("\n", "\r\n").encode())
    assert load_suite(str(path))[0].source == REFERENCE


def test_a_missing_file_is_named(tmp_path):
    assert "nope.py: no such file" in refused(tmp_path / "nope.py")


def test_a_file_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "latin.py"
    path.write_bytes(b"# caf\xe9\n")
    assert "not UTF-8 text (byte 5); save the file as UTF-8" in refused(path)


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("class Model", "no class Model"),
        ("def get_inputs", "no get_inputs()"),
        ("def get_init_inputs", "no get_init_inputs()"),
    ],
)
def test_a_reference_without_one_of_its_three_names_is_refused(tmp_path, gone, message):
    path = tmp_path / "task.py"
    path.write_text(REFERENCE.replace(gone, gone + "_"))
    assert message in refused(path)


def test_a_syntax_error_is_named_with_its_line(tmp_path):
    path = tmp_path / "task.py"
    path.write_text("x = 1\ny = (\n")
    assert re.search(r"task\.py:2: not Python", refused(path))


def test_loading_does_not_execute_the_reference(tmp_path):
    path = tmp_path / "task.py"
    path.write_text("raise SystemExit('executed')\n" + REFERENCE)
    assert len(load_suite(str(path))) == 1


# specs


def test_an_unknown_suite_names_the_near_one_and_the_valid_ones():
    message = refused("wrigth")
    assert "did you mean wright?" in message
    assert "kernelbench:PATH" in message


# kernelbench


def test_a_checkout_is_read_in_natural_order(checkout):
    assert [t.id for t in load_suite(f"kernelbench:{checkout}")] == [
        "kernelbench/level1/1_A_",
        "kernelbench/level1/2_B",
        "kernelbench/level1/10_C",
        "kernelbench/level2/1_Conv2d_ReLU_Bias",
    ]


def test_a_level_may_be_given_by_either_folder(checkout):
    by_checkout = load_suite(f"kernelbench:{checkout}/level1")
    assert by_checkout == load_suite(f"kernelbench:{checkout}/KernelBench/level1/")
    assert len(by_checkout) == 3


def test_ids_select_tasks(checkout):
    tasks = load_suite(f"kernelbench:{checkout}/level1/2,9-10".replace("9-10", "10"))
    assert [t.id for t in tasks] == ["kernelbench/level1/2_B", "kernelbench/level1/10_C"]


def test_families_follow_the_benchmarks_ids(checkout):
    tasks = load_suite(f"kernelbench:{checkout}")
    assert [(t.family, t.difficulty) for t in tasks] == [("matmul", 1)] * 3 + [("fusion", 3)]


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("/level7", "no folder level7; levels here: level1, level2"),
        ("/level1/4", "no task with id 4; ids 1 to 10"),
        ("/level1/3-1", "bad ids '3-1'; write ids as 3,5-9"),
        ("/nowhere", "no such folder"),
    ],
)
def test_a_wrong_place_in_a_checkout_is_refused(checkout, tail, message):
    assert message in refused(f"kernelbench:{checkout}{tail}")


def test_id_ranges_are_inclusive():
    assert parse_ids("9,3,5-7,6") == [3, 5, 6, 7, 9]


# tables


def test_jsonl_rows_of_the_benchmark_become_tasks(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [
        {"code": REFERENCE, "level": 1, "name": "19_ReLU", "problem_id": 19},
        {"code": REFERENCE, "level": "level_2", "name": "A_B", "problem_id": 3},
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert [(t.id, t.family) for t in load_suite(str(path))] == [
        ("kernelbench/level1/19_ReLU", "activation"),
        ("kernelbench/level2/3_A_B", "fusion"),
    ]


def test_jsonl_of_our_own_records_round_trips(tmp_path):
    task = Task(id="mine/a", suite="mine", source=REFERENCE, shapes={"small": {"N": 3}})
    path = tmp_path / "own.jsonl"
    path.write_text(task.model_dump_json() + "\n")
    assert load_suite(str(path)) == [task]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"name": "x", "level": 1}', "no column 'code'"),
        (json.dumps({"code": REFERENCE, "level": "two", "name": "x"}), "level is 'two'"),
        (json.dumps({"id": "", "source": REFERENCE}), "not a Task: id"),
        (
            json.dumps({"id": "a", "source": REFERENCE, "shapes": {"small": {"Q": 1}}}),
            "no module-level constant 'Q'",
        ),
        ("", "holds no tasks"),
    ],
)
def test_a_bad_row_is_named(tmp_path, line, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(line + "\n")
    assert message in refused(path)


def test_an_id_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text((Task(id="a/b", source=REFERENCE).model_dump_json() + "\n") * 2)
    assert "'a/b' appears twice" in refused(path)


def test_parquet_rows_become_tasks(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"code": [REFERENCE], "level": [1], "name": ["23_Softmax"], "problem_id": [23]})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path)
    assert [t.id for t in load_suite(str(path))] == ["kernelbench/level1/23_Softmax"]


def test_a_broken_parquet_file_is_named(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"not parquet")
    assert "not a readable parquet file" in refused(path)


# task folders


def task_folder(parent: Path, toml: str) -> Path:
    home = parent / "double"
    home.mkdir()
    (home / "task.py").write_text(REFERENCE)
    (home / "task.toml").write_text(toml)
    return home


def test_a_folder_of_task_folders_is_a_suite(tmp_path):
    task_folder(tmp_path, 'family = "activation"\n[shapes.small]\nN = 3\n')
    (task,) = load_suite(str(tmp_path))
    assert (task.id, task.family, task.shapes) == (
        f"{tmp_path.name}/double",
        "activation",
        {"small": {"N": 3}},
    )


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("familly = 'x'", "unknown key 'familly'; valid: family, difficulty"),
        ("family =", "not TOML"),
        ("policy = 'some'", "policy: Input should be 'full' or 'partial'"),
        ("[shapes.small]\nK = 3", r"[shapes.small]: shape set: the task has no module-level constant 'K'"),
    ],
)
def test_a_malformed_task_file_is_refused(tmp_path, toml, message):
    task_folder(tmp_path, toml)
    assert message in refused(tmp_path)


def test_an_empty_folder_is_refused(tmp_path):
    assert "holds no task folders" in refused(tmp_path)


# the built-in suite


@pytest.mark.parametrize("home", sorted(p.parent for p in FOLDER.glob("*/task.toml")), ids=lambda p: p.name)
def test_a_built_in_task_is_whole(home):
    task = load_task(home, "wright")
    assert task.family
    assert {"small", "small_odd", "odd"} <= set(task.shapes)


def test_the_built_in_suite_is_filtered_by_name_and_by_family():
    tasks = load_suite("wright")
    first = tasks[0]
    assert load_suite(first.id) == [first]
    assert load_suite(f"wright/{first.family}") == [t for t in tasks if t.family == first.family]


def test_a_filter_that_matches_nothing_names_the_families():
    assert "families: " in refused("wright/nothing_like_it")
