"""The report as text: complete, self-contained, and harmless whatever the kernels contain."""

import json
import re
from pathlib import Path

import pytest
from made_up_run import HOSTILE, make_rollout

from kernelwright.errors import UserError
from kernelwright.outcomes import Outcome
from kernelwright.records import write_jsonl
from kernelwright.report import build_report, charts, highlight
from kernelwright.report.gather import Stage, read_run, task_rows


@pytest.fixture(scope="module")
def page(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_report([run_folder], tmp_path_factory.mktemp("out") / "report.html").read_text("utf-8")


def test_makes_no_external_reference(page: str) -> None:
    assert re.findall(r"""(?:src|href|url|action)\s*[=(]\s*["']?(?!data:)[a-z]+:""", page) == []


def test_hostile_kernel_is_escaped(page: str) -> None:
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert "{{ 7 * 7 }}" in page


def test_header_names_command_configuration_and_environment(page: str) -> None:
    assert "kernelwright train recipes/laptop.toml" in page
    assert "2.13.0" in page
    assert "&#34;batch&#34;: 16" in page


def test_one_stage_row_each(page: str) -> None:
    table = page[page.index('id="stages"') : page.index('id="outcomes"')]
    assert re.findall(r"</i>(\w+)</th>", table) == ["sft", "frontend", "midend"]


def test_a_later_agent_is_told_apart_from_what_it_hands_on(page: str) -> None:
    assert "asked about 65 verified kernels" in page
    assert "1.21× [1.10×, 1.32×] in time" in page


def test_failures_have_no_speedup() -> None:
    stage = Stage("s", "r", [make_rollout("t", "s", o) for o in (Outcome.CORRECT, Outcome.WRONG_VALUE)])
    assert stage.speedups == pytest.approx([1.5])
    assert stage.speedup == pytest.approx(1.5)


def test_rates_leave_out_what_was_not_judged() -> None:
    outcomes = (Outcome.CORRECT, Outcome.NO_CODE, Outcome.UNSUPPORTED)
    stage = Stage("s", "r", [make_rollout("t", "s", o) for o in outcomes])
    assert stage.summary["correct_rate"] == 0.5


def test_best_attempt_is_the_fastest_correct_one_else_the_furthest() -> None:
    slow, fast = (make_rollout("a", "s", Outcome.CORRECT, gain) for gain in (1.1, 2.0))
    wrong, bad = (make_rollout("b", "s", o) for o in (Outcome.WRONG_VALUE, Outcome.SYNTAX_ERROR))
    unjudged = make_rollout("b", "s", Outcome.UNSUPPORTED)
    rows = task_rows([Stage("s", "r", [slow, fast, bad, wrong, unjudged])])
    assert [row.last.best for row in rows] == [fast, wrong]


def test_a_folder_without_a_run_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing of a run is in"):
        build_report([tmp_path], tmp_path / "r.html")


def test_the_page_says_what_each_part_took(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "seconds.json").write_text('{"data": 41.5, "sft": 20.25}')
    page = build_report([tmp_path], tmp_path / "r.html").read_text("utf-8")
    assert "Seconds: data 41.5, sft 20.2, all 61.8." in page


def test_empty_run_says_that_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    page = build_report([tmp_path], tmp_path / "r.html").read_text("utf-8")
    assert "No evaluated samples yet" in page


def test_stopped_run_is_shown_as_far_as_it_came(tmp_path: Path) -> None:
    folder = tmp_path / "eval" / "sft"
    folder.mkdir(parents=True)
    write_jsonl(folder / "rollouts.jsonl", [make_rollout("t", "sft", Outcome.CORRECT)])
    with (folder / "rollouts.jsonl").open("a") as out:
        out.write('{"task_id": "torn')
    (tmp_path / "curves.jsonl").write_text('{"stage": "sft", "step": 1, "loss": 2.0}\n{"stage": "sf')
    (tmp_path / "config.json").write_text("{")
    run = read_run(tmp_path)
    assert [len(stage.rollouts) for stage in run.stages] == [1]
    assert len(run.notes) == 2
    build_report([tmp_path], tmp_path / "r.html")


def test_evaluation_alone_is_a_stage(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rollouts.jsonl", [make_rollout("t", "eval", Outcome.CORRECT)])
    assert [stage.label for stage in read_run(tmp_path).stages] == ["eval"]


def test_two_runs_side_by_side(run_folder: Path, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rollouts.jsonl", [make_rollout("t", "base", Outcome.CORRECT)])
    page = build_report([run_folder, tmp_path], tmp_path / "r.html").read_text("utf-8")
    assert f"{run_folder.name} · midend" in page
    assert f"{tmp_path.name} · base" in page


def test_missing_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder at"):
        build_report([tmp_path / "nowhere"], tmp_path / "r.html")


def test_unwritable_place_is_one_line_and_leaves_nothing(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        build_report([run_folder], tmp_path / "file" / "r.html")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_lone_surrogate_costs_nothing(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rollouts.jsonl", [make_rollout("t", "s", Outcome.CORRECT, code="x = 'é'")])
    (tmp_path / "config.json").write_text(json.dumps({"odd": "\ud800"}))
    build_report([tmp_path], tmp_path / "r.html")


@pytest.mark.parametrize(
    "source", ["", HOSTILE, "'''" * 999, '"' * 999, "\\", "\x00\ud800", "@" * 99, "0x" * 50]
)
def test_highlighting_never_raises_and_only_adds_its_own_tags(source: str) -> None:
    text = re.sub(r'<i class="[a-z]">|</i>', "", str(highlight.python(source)))
    assert "<" not in text


def test_long_source_is_cut_and_says_so() -> None:
    assert "more characters" in highlight.python("x" * (highlight.LIMIT + 5))


@pytest.mark.parametrize("points", [[], [(1, float("nan"))]])
def test_chart_without_points_is_no_chart(points: list[tuple[float, float]]) -> None:
    assert charts.curves("Loss", {"sft": points}, {}) == ""


@pytest.mark.parametrize("values", [[1.0], [1.0, 1.0], [1e-9, 1e9], [0.0, -3.0], [float("inf"), 2.0]])
def test_charts_take_any_values(values: list[float]) -> None:
    charts.curves("Reward", {"a": list(enumerate(values))}, {"a": 0}, line_at=1.0)
    charts.speedups("Speedup", {"a": (values, None)}, {"a": 0})


def test_same_stage_has_same_colour_in_every_chart(page: str) -> None:
    assert set(re.findall(r'class="(s\d) name"[^>]*>frontend', page)) == {"s1"}


@pytest.mark.parametrize(
    ("kinds", "charts_drawn"),
    [([], ["Held-out loss"]), (["translate"], ["Held-out loss"]),
     (["repair", "translate"], ["Held-out loss", "Held-out loss, repair", "Held-out loss, translate"])],
)  # fmt: skip
def test_held_out_losses_are_drawn_beside_the_supervised_loss(
    tmp_path: Path, kinds: list[str], charts_drawn: list[str]
) -> None:
    held = {"heldout_loss": 1.5} | {f"heldout_loss_{kind}": 1.5 for kind in kinds}
    lines = [{"stage": "sft", "step": 1, "loss": 2.0}, {"stage": "sft", "step": 2, "loss": 1.0, **held}]
    (tmp_path / "curves.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = build_report([tmp_path], tmp_path / "report.html").read_text("utf-8")
    assert re.findall(r'aria-label="(Held-out loss[^"]*) over training steps', page) == charts_drawn


def test_entropy_of_plans_and_reward_by_segment_are_drawn(tmp_path: Path) -> None:
    paid = {"reward_plan": 0.1, "reward_code": 0.9, "nats": {"plan": 4.0, "decision": 1.2, "code_token": 0.1}}
    lines = [{"stage": "midend", "step": step, **paid} for step in (1, 2)]
    (tmp_path / "curves.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = build_report([tmp_path], tmp_path / "report.html").read_text("utf-8")
    drawn = re.findall(r'aria-label="([^"]*) over training steps', page)
    assert drawn == ["Reward of plans", "Reward of code", "Nats a decision"]


def test_kernels_of_the_ladder_are_listed_by_rung(tmp_path: Path) -> None:
    row = {"operators": "relu+pow", "rung": "library", "ms": 0.5, "over_eager": 2.0, "over_compile": None}
    for place in (tmp_path / "examples" / "one", tmp_path / "optimize"):
        place.mkdir(parents=True)
        (place / "found.json").write_text(json.dumps({"task": "file/m", "rows": [row]}))
    page = build_report([tmp_path], tmp_path / "report.html").read_text("utf-8")
    assert "By rung: library 2." in page
    assert (
        page.count(
            '<td class="word">relu+pow</td><td class="word">library</td><td>0.5</td><td>2.00×</td><td>–</td>'
        )
        == 2
    )
