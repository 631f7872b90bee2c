"""Optimize: agents in order, the best verified kernel, and nothing that made it worse."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.cli import main
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.optimize import Step, agents_of, choose, optimize, style_of, write_result
from kernelwright.outcomes import Gate, Outcome
from kernelwright.prompts import completion_text
from kernelwright.records import Candidate, Completion, Prompt, Rollout, Task, Timing, Verdict
from kernelwright.rollouts import faster
from kernelwright.runs import RunFolder

TASK = Task(id="file/t", source="class Model: ...", shapes={"small": {}})


def timing(ms: float, kind: Any = "modelled", noise: float = 0.0) -> Timing:
    return Timing(
        kind=kind,
        target="h200",
        candidate_ms=ms,
        candidate_ci=(ms * (1 - noise), ms * (1 + noise)),
        baseline_ms={"eager": 1.0},
        speedup_ci={"eager": (1 / ms, 1 / ms)},
    )


class Policy:
    """Says `kernel(MS)` for each number it is given, in order; keeps the prompts it saw."""

    def __init__(self, *said: object) -> None:
        self.name, self.said, self.seen = "scripted", list(said), []

    def generate(
        self, prompts: Sequence[Prompt], n: int = 1, *, on_completion: Any = None, **_: Any
    ) -> list[list[Completion]]:
        self.seen.extend(prompts)
        answers = [Completion(text=completion_text("p", f"kernel = {self.said.pop(0)}")) for _ in range(n)]
        for sample, answer in enumerate(answers):
            on_completion(0, sample, answer)
        return [answers]

    def pieces(self, completion: Completion) -> None:
        return None


class Verifier:
    """Accepts `kernel = MS` with that time, rejects everything else; `broken` fails itself."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        future: Future[Verdict] = Future()
        try:
            ms = float(candidate.code.removeprefix("kernel = "))
            found: dict[str, Any] = {"outcome": Outcome.CORRECT, "timing": timing(ms)}
        except ValueError:
            found = {"outcome": Outcome.WRONG_VALUE}
        if self.broken:
            found = {"outcome": Outcome.INFRASTRUCTURE_ERROR, "detail": "no zygote"}
        future.set_result(Verdict(task_id=task.id, gate=Gate.TIMING, **found))
        return future


def run(tmp_path: Path, policies: dict[str, Policy], verifier: Any = None, **options: Any) -> list[Step]:
    return optimize(
        TASK,
        {agent: agent for agent in policies},  # type: ignore[misc]
        RunFolder(tmp_path / "run"),
        verifier=verifier or Verifier(),
        samples=2,
        quiet=True,
        load=lambda spec: policies[spec],  # type: ignore[return-value]
        **options,
    )


def codes(steps: Sequence[Step]) -> list[str]:
    return [step.best.candidate.code if step.best else "" for step in steps]


def test_each_agent_starts_from_the_best_before_it(tmp_path: Path) -> None:
    agents = {"frontend": Policy(0.5, 0.4), "midend": Policy(0.6, 0.3), "backend": Policy(0.2, "bad")}
    steps = run(tmp_path, agents)
    assert codes(steps) == ["kernel = 0.4", "kernel = 0.3", "kernel = 0.2"]
    assert "kernel = 0.4" in agents["midend"].seen[0].messages[-1].content
    assert "kernel = 0.3" in agents["backend"].seen[0].messages[-1].content
    assert "h200" in agents["backend"].seen[0].messages[-1].content


def test_a_stage_that_makes_nothing_better_hands_on_what_it_was_given(tmp_path: Path) -> None:
    steps = run(tmp_path, {"frontend": Policy(0.4, 0.5), "midend": Policy(0.4, "bad")})
    assert [step.improved for step in steps] == [True, False]
    assert codes(steps) == ["kernel = 0.4"] * 2


def test_without_a_verified_kernel_no_later_agent_is_asked(tmp_path: Path) -> None:
    steps = run(tmp_path, {"frontend": Policy("bad", "worse"), "midend": Policy()})
    assert [step.agent for step in steps] == ["frontend"]
    assert steps[0].best is None


def test_the_run_folder_holds_every_attempt(tmp_path: Path) -> None:
    run(tmp_path, {"frontend": Policy(0.4, "bad"), "midend": Policy(0.3, 0.3)})
    folder = RunFolder(tmp_path / "run")
    assert [r.stage for r in folder.rows("rollouts.jsonl", Rollout)] == ["frontend"] * 2 + ["midend"] * 2
    assert [step["correct"] for step in json.loads((tmp_path / "run/metrics.json").read_text())["steps"]] == [
        1,
        2,
    ]


def test_a_stopped_run_goes_on_with_the_stage_it_was_in(tmp_path: Path) -> None:
    class Stopped(Policy):
        def generate(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, {"frontend": Policy(0.4, 0.5), "midend": Stopped()})
    steps = run(tmp_path, {"frontend": Policy(), "midend": Policy(0.3, "bad")}, resume=True)
    assert codes(steps) == ["kernel = 0.4", "kernel = 0.3"]


def test_a_run_of_another_task_is_not_mixed_in(tmp_path: Path) -> None:
    run(tmp_path, {"frontend": Policy(0.4, 0.5)})
    with pytest.raises(UserError, match="--resume"):
        run(tmp_path, {"frontend": Policy(0.4, 0.5)})
    with pytest.raises(UserError, match="other settings"):
        run(tmp_path, {"frontend": Policy(0.4, 0.5)}, resume=True, temperature=0.1)


def test_a_judge_that_fails_on_everything_is_no_verdict_on_the_policy(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="no zygote"):
        run(tmp_path, {"frontend": Policy(0.4, 0.5)}, Verifier(broken=True))


def rollout(outcome: Outcome, time: Timing | None = None) -> Rollout:
    prompt = Prompt(task_id="t", agent="frontend", messages=({"role": "user", "content": "?"},), max_tokens=1)
    verdict = Verdict(task_id="t", outcome=outcome, gate=Gate.TIMING, timing=time)
    return Rollout(
        task_id="t",
        stage="frontend",
        prompt=prompt,
        completion=Completion(text="x"),
        candidate=Candidate(code="x"),
        verdict=verdict,
    )


def test_the_fastest_verified_kernel_is_chosen_and_an_untimed_one_last() -> None:
    slow, fast = rollout(Outcome.CORRECT, timing(0.5)), rollout(Outcome.CORRECT, timing(0.4))
    untimed, wrong = rollout(Outcome.CORRECT), rollout(Outcome.WRONG_VALUE)
    assert choose([untimed, slow, wrong, fast]) is fast
    assert choose([untimed, wrong]) is untimed
    assert choose([wrong]) is None


@pytest.mark.parametrize(
    ("new", "old", "better"),
    [
        (timing(0.99), timing(1.0), True),
        (timing(1.0), timing(1.0), False),
        (timing(0.97, "measured", 0.02), timing(1.0, "measured", 0.02), False),
        (timing(0.90, "measured", 0.02), timing(1.0, "measured", 0.02), True),
        (timing(1.0), None, True),
        (None, timing(1.0), False),
        (None, None, False),
    ],
    ids=["modelled", "equal", "within noise", "beyond noise", "timed at last", "untimed", "neither"],
)
def test_faster_means_beyond_the_noise(new: Timing | None, old: Timing | None, better: bool) -> None:
    assert faster(new, old) is better


def test_a_run_folder_answers_with_the_stages_it_trained(tmp_path: Path) -> None:
    for stage in ("sft", "midend"):
        (tmp_path / "stages" / stage / "checkpoint").mkdir(parents=True)
    assert agents_of(str(tmp_path)) == {
        "frontend": str(tmp_path / "stages/sft/checkpoint"),
        "midend": str(tmp_path / "stages/midend/checkpoint"),
    }


def test_a_run_that_trained_nothing_yet_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    with pytest.raises(UserError, match="no finished sft or frontend stage"):
        agents_of(str(tmp_path))


def test_one_model_plays_all_agents_and_the_back_end_for_a_named_target() -> None:
    assert list(agents_of("gold")) == ["frontend", "midend"]
    assert list(agents_of("gold", "a100")) == ["frontend", "midend", "backend"]


@pytest.mark.parametrize(
    ("policy", "style"),
    [
        (SimpleNamespace(), "chat"),
        (SimpleNamespace(tokenizer=SimpleNamespace(chat_template="{{ x }}")), "chat"),
        (SimpleNamespace(tokenizer=SimpleNamespace(chat_template=None)), "compact"),
        (SimpleNamespace(tokenizer=SimpleNamespace(init_kwargs={"prompt_style": "lowered"})), "lowered"),
    ],
    ids=["endpoint", "chat model", "ours", "ours, trained on lowered references"],
)
def test_a_model_without_a_chat_template_is_asked_as_it_was_trained(policy: Any, style: str) -> None:
    assert style_of(policy) == style


def test_kernel_and_verdict_are_written_as_they_were_judged(tmp_path: Path) -> None:
    best = rollout(Outcome.CORRECT, timing(0.5))
    beside = write_result(best, tmp_path / "k.py")
    assert (tmp_path / "k.py").read_text() == best.candidate.code
    assert Verdict.model_validate_json(beside.read_text()) == best.verdict


def test_the_command_writes_the_gold_as_best_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fast.py"
    assert main(["optimize", "wright/softmax_rows", "-p", "gold", "-n", "1", "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert "class ModelNew" in out.read_text()
    assert json.loads((tmp_path / "fast.verdict.json").read_text())["outcome"] == "correct"
    assert "handed on" in said
    assert "modelled" in said


def test_the_command_exits_1_when_nothing_was_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "mine.py"
    module.write_text(
        "import torch\nN = 8\nclass Model(torch.nn.Module):\n    def forward(self, x): return x + 1\n"
        "def get_inputs(): return [torch.rand(N)]\ndef get_init_inputs(): return []\n"
    )
    # The golds policy knows no gold for a file, and answers with nothing.
    assert main(["optimize", str(module), "-p", "gold", "-n", "1", "-o", str(tmp_path / "k.py")]) == 1
    assert "no kernel for file/mine was verified" in capsys.readouterr().out
    assert not (tmp_path / "k.py").exists()
