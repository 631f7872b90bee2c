"""Evaluation: every task and sample, a summary, later agents; a resumed evaluation gives identical files."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import ReadJudge, SaidPolicy, answer, kernel_of, task

from kernelwright.cli import pipeline
from kernelwright.config import parse_recipe
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.evaluate import evaluate, gain, rollouts_of
from kernelwright.outcomes import Outcome
from kernelwright.records import Prompt, Rollout, read_jsonl
from kernelwright.runs import RunFolder

TASKS = [task(name) for name in ("a", "b", "c", "d", "e")]
OPTIONS: dict[str, Any] = {"style": "compact", "quiet": True, "batch": 2}


def say(prompt: Prompt, sample: int, seed: int) -> str:
    """`a`: two speeds; `b`: wrong; the others depend on the seed."""
    name = prompt.task_id[-1]
    if prompt.agent == "midend":
        # Halves `a`'s slower kernel, spoils `c`'s, and slows the others down.
        shown = prompt.messages[0].content
        return answer(
            "correct 0.4" if "correct 0.8" in shown else "wrong_value" if name == "c" else "correct 2"
        )
    return answer(
        {"a": f"correct {(0.5, 0.8)[sample]}", "b": "wrong_value"}.get(name, f"correct {1 + seed % 1000}")
    )


def run_frontend(out: Path, judge: ReadJudge | None = None, **options: Any) -> dict[str, Any]:
    return evaluate(
        SaidPolicy(say), TASKS, out, verifier=judge or ReadJudge(), samples=2, **OPTIONS, **options
    )


def run_midend(tmp_path: Path, judge: ReadJudge | None = None, **options: Any) -> dict[str, Any]:
    kernels = rollouts_of(tmp_path / "frontend" / "rollouts.jsonl")
    return evaluate(
        SaidPolicy(say),
        TASKS,
        tmp_path / "midend",
        verifier=judge or ReadJudge(),
        samples=2,
        agent="midend",
        kernels=kernels,
        **OPTIONS,
        **options,
    )


def logged(folder: Path, name: str = "rollouts.jsonl") -> list[Rollout]:
    return list(read_jsonl(folder / name, Rollout))


def test_a_run_folder_holds_all_of_it(tmp_path: Path) -> None:
    summary = run_frontend(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {
        "config.json",
        "environment.json",
        "rollouts.jsonl",
        "metrics.json",
    }
    assert (summary["tasks"], summary["samples"], summary["correct_rate"]) == (5, 10, 0.8)
    assert summary["agent"] == "frontend"
    assert [r.task_id for r in logged(tmp_path)] == [t.id for t in TASKS for _ in range(2)]


def test_samples_of_one_task_share_a_group(tmp_path: Path) -> None:
    run_frontend(tmp_path)
    assert len({r.group for r in logged(tmp_path)}) == len(TASKS)


def test_the_midend_is_asked_once_about_each_verified_kernel(tmp_path: Path) -> None:
    run_frontend(tmp_path / "frontend")
    run_midend(tmp_path)
    attempts = logged(tmp_path / "midend", "attempts.jsonl")
    given = [r for r in logged(tmp_path / "frontend") if r.verdict.correct]
    assert [r.task_id for r in attempts] == [r.task_id for r in given]
    for old, new in zip(given, attempts, strict=True):
        assert old.candidate.code in new.prompt.messages[0].content


def test_the_pipeline_hands_on_the_better_kernel_sample_by_sample(tmp_path: Path) -> None:
    run_frontend(tmp_path / "frontend")
    summary = run_midend(tmp_path)
    before, after = (logged(tmp_path / name) for name in ("frontend", "midend"))
    assert [r.verdict.correct for r in after] == [r.verdict.correct for r in before]
    changed = [(kernel_of(o), kernel_of(n)) for o, n in zip(before, after, strict=True) if o != n]
    assert changed[0] == ("correct 0.8", "correct 0.4")
    assert all(float(n.split()[1]) < float(o.split()[1]) for o, n in changed)
    assert summary["correct_rate"] == 0.8
    assert summary["attempts"]["samples"] == 8
    assert summary["gain"]["samples"] == 8
    assert summary["gain"]["improved"] == len(changed) / 8


def test_a_midend_that_improves_nothing_gains_exactly_one(tmp_path: Path) -> None:
    run_frontend(tmp_path / "frontend")
    before = rollouts_of(tmp_path / "frontend" / "rollouts.jsonl")
    policy = SaidPolicy(lambda *_: answer("wrong_value"))
    summary = evaluate(
        policy,
        TASKS,
        tmp_path / "midend",
        verifier=ReadJudge(),
        samples=2,
        agent="midend",
        kernels=before,
        **OPTIONS,
    )
    assert summary["gain"] == {"geometric_mean": 1.0, "ci": (1.0, 1.0), "improved": 0.0, "samples": 8}
    assert logged(tmp_path / "midend") == logged(tmp_path / "frontend")


def test_gain_compares_times_sample_by_sample(tmp_path: Path) -> None:
    run_frontend(tmp_path / "frontend")
    before = rollouts_of(tmp_path / "frontend" / "rollouts.jsonl")
    fast, slow = before["synth/a"]
    assert gain({"a": [slow, slow]}, {"a": [fast, slow]})["geometric_mean"] == pytest.approx(1.6**0.5)
    assert gain({"b": before["synth/b"]}, {"b": before["synth/b"]})["geometric_mean"] is None


def stop_after(count: int) -> Callable[..., None]:
    left = [count]

    def before(*_: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    return before


@pytest.mark.parametrize("judged", [0, 1, 2, 4, 5])
def test_a_stopped_evaluation_goes_on_to_the_same_end(tmp_path: Path, judged: int) -> None:
    whole = run_frontend(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run_frontend(tmp_path / "frontend", ReadJudge(stop_after(judged)))
    resumed = run_frontend(tmp_path / "frontend", resume=True)
    assert kernels_of(tmp_path / "frontend") == kernels_of(tmp_path / "whole")
    assert without_seconds(resumed) == without_seconds(whole)


@pytest.mark.parametrize("judged", [0, 1, 3])
def test_a_stopped_pipeline_goes_on_to_the_same_end(tmp_path: Path, judged: int) -> None:
    run_frontend(tmp_path / "frontend")
    with pytest.raises(KeyboardInterrupt):
        run_midend(tmp_path, ReadJudge(stop_after(judged)))
    resumed = run_midend(tmp_path, resume=True)
    (tmp_path / "midend").rename(tmp_path / "stopped")
    whole = run_midend(tmp_path)
    for name in ("rollouts.jsonl", "attempts.jsonl"):
        assert kernels_of(tmp_path / "stopped", name) == kernels_of(tmp_path / "midend", name)
    assert without_seconds(resumed) == without_seconds(whole)


def test_a_finished_evaluation_is_only_read_again(tmp_path: Path) -> None:
    whole = run_frontend(tmp_path)
    judge = ReadJudge()
    assert run_frontend(tmp_path, judge, resume=True) == whole
    assert judge.judged == 0


def test_a_torn_group_is_made_again(tmp_path: Path) -> None:
    run_frontend(tmp_path)
    log = tmp_path / "rollouts.jsonl"
    expected = kernels_of(tmp_path)
    log.write_text(log.read_text()[:-100])
    run_frontend(tmp_path, resume=True)
    assert kernels_of(tmp_path) == expected


def test_another_evaluation_in_the_folder_is_one_line(tmp_path: Path) -> None:
    run_frontend(tmp_path)
    with pytest.raises(UserError, match="--resume"):
        run_frontend(tmp_path)
    with pytest.raises(UserError, match=r"other settings \(seed\)"):
        run_frontend(tmp_path, resume=True, seed=1)


def test_nothing_to_evaluate_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tasks"):
        evaluate(SaidPolicy(say), [], tmp_path, verifier=ReadJudge())
    with pytest.raises(UserError, match="no tasks with kernels to start from"):
        evaluate(SaidPolicy(say), TASKS, tmp_path, verifier=ReadJudge(), agent="midend", kernels={})


def test_a_failing_judge_is_counted_apart(tmp_path: Path) -> None:
    policy = SaidPolicy(lambda prompt, sample, seed: answer(("crash", "correct")[sample]))
    summary = evaluate(policy, TASKS[:1], tmp_path, verifier=ReadJudge(), samples=2, **OPTIONS)
    assert summary["unjudged"] == {Outcome.INFRASTRUCTURE_ERROR.value: 1}
    assert summary["correct_rate"] == 1.0


def fail(first: int, last: int) -> Callable[..., None]:
    """A verifier whose machine fails from verification `first` to `last`, counted from 0."""
    number = [-1]

    def before(*_: Any) -> None:
        number[0] += 1
        if first <= number[0] <= last:
            raise InfrastructureError("GPU 0 is lost")

    return before


@pytest.mark.parametrize("judged", [0, 1, 3])
def test_a_lost_machine_ends_the_evaluation_in_one_line_and_a_resumed_one_hears_everybody(
    tmp_path: Path, judged: int
) -> None:
    whole = run_frontend(tmp_path / "whole")
    with pytest.raises(InfrastructureError, match=r"GPU 0 is lost.*kernelwright doctor.*--resume") as error:
        run_frontend(tmp_path / "run", ReadJudge(fail(judged, 99)))
    assert "\n" not in str(error.value)
    resumed = run_frontend(tmp_path / "run", resume=True)
    assert kernels_of(tmp_path / "run") == kernels_of(tmp_path / "whole")
    assert without_seconds(resumed) == without_seconds(whole)


def test_whom_the_machine_failed_gets_a_verification_when_resumed(tmp_path: Path) -> None:
    whole = run_frontend(tmp_path / "whole")
    assert run_frontend(tmp_path / "run", ReadJudge(fail(1, 1)))["unjudged"] == {"infrastructure_error": 1}
    assert without_seconds(run_frontend(tmp_path / "run", resume=True)) == without_seconds(whole)


def kernels_of(folder: Path, name: str = "rollouts.jsonl") -> list[str]:
    return [kernel_of(r) for r in logged(folder, name)]


def without_seconds(summary: Any) -> Any:
    if isinstance(summary, dict):
        return {k: without_seconds(v) for k, v in summary.items() if k != "seconds"}
    return summary


@pytest.mark.parametrize(("stage", "asked"), [("sft", "plan+code"), ("midend", "plan")])
def test_a_stage_is_measured_in_the_form_that_it_was_trained_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, asked: str
) -> None:
    said: list[str] = []
    monkeypatch.setattr("kernelwright.evaluate.evaluate", lambda *_, answer, **__: said.append(answer))
    monkeypatch.setattr("kernelwright.policy.load_policy", lambda _: SimpleNamespace(name=""))
    monkeypatch.setattr(pipeline, "heldout", lambda *_: [])
    (tmp_path / "eval" / "frontend").mkdir(parents=True)
    (tmp_path / "eval" / "frontend" / "rollouts.jsonl").write_text("")
    recipe = parse_recipe({"midend": {"answer": "plan"}})
    pipeline.evaluate_stage(recipe, RunFolder(tmp_path), stage, tmp_path, ReadJudge())
    assert said == [asked]
