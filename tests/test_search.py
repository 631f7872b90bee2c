"""Search: agents in order, turn by turn, within a budget; the best verified kernel, heard twice."""

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.cli import main
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.prompts import completion_text
from kernelwright.records import Candidate, Completion, Prompt, Rollout, Task, Timing, Verdict
from kernelwright.rollouts import faster
from kernelwright.runs import RunFolder
from kernelwright.search import Found, Settings, agents_of, furthest, optimize, style_of, write_result
from kernelwright.search.asks import rejected, verified

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
        groups = []
        for row in range(len(prompts)):
            said = [f"kernel = {self.said.pop(0)}" for _ in range(n)]
            groups.append([Completion(text=completion_text("p", text)) for text in said])
            for sample, answer in enumerate(groups[-1]):
                on_completion(row, sample, answer)
        return groups

    def pieces(self, completion: Completion) -> None:
        return None


class Verifier:
    """Accepts `kernel = MS` with that time, rejects everything else; `broken` fails itself."""

    def __init__(self, broken: bool = False, refuse: Callable[[str], bool] = lambda code: False) -> None:
        self.broken, self.refuse, self.heard = broken, refuse, []  # type: ignore[var-annotated]

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        self.heard.append(candidate.code.strip())
        future: Future[Verdict] = Future()
        try:
            ms = float(candidate.code.strip().removeprefix("kernel = "))
            found: dict[str, Any] = {"outcome": Outcome.CORRECT, "timing": timing(ms)}
        except ValueError:
            found = {"outcome": Outcome.WRONG_VALUE, "detail": f"no such {candidate.code.strip()}"}
        if self.refuse(candidate.code.strip()):
            found = {"outcome": Outcome.STATEFUL}
        if self.broken:
            found = {"outcome": Outcome.INFRASTRUCTURE_ERROR, "detail": "no zygote"}
        future.set_result(Verdict(task_id=task.id, gate=Gate.TIMING, **found))
        return future


def run(
    tmp_path: Path,
    policies: dict[str, Policy],
    judges: Sequence[Any] = (),
    resume: bool = False,
    **settings: Any,
) -> Found:
    waiting = list(judges)
    return optimize(
        TASK,
        {agent: agent for agent in policies},  # type: ignore[misc]
        RunFolder(tmp_path / "run"),
        lambda: contextlib.nullcontext(waiting.pop(0) if waiting else Verifier()),
        Settings(**{"samples": 2, "turns": 1, **settings}),
        load=lambda spec: policies[spec],  # type: ignore[return-value]
        resume=resume,
    )


def codes(found: Found) -> list[tuple[str, str]]:
    return [(turn.stage, turn.best.candidate.code.strip() if turn.best else "") for turn in found.turns]


def test_each_agent_starts_from_the_best_before_it(tmp_path: Path) -> None:
    agents = {"frontend": Policy(0.5, 0.4), "midend": Policy(0.6, 0.3), "backend": Policy(0.2, "bad")}
    found = run(tmp_path, agents)
    assert codes(found) == [
        ("frontend", "kernel = 0.4"),
        ("midend", "kernel = 0.3"),
        ("backend", "kernel = 0.2"),
        ("again", "kernel = 0.2"),
    ]
    assert "kernel = 0.4" in agents["midend"].seen[0].messages[-1].content
    assert "kernel = 0.3" in agents["backend"].seen[0].messages[-1].content
    assert "h200" in agents["backend"].seen[0].messages[-1].content


def test_a_turn_that_makes_nothing_better_hands_on_what_it_was_given(tmp_path: Path) -> None:
    found = run(tmp_path, {"frontend": Policy(0.4, 0.5), "midend": Policy(0.4, "bad")})
    assert [turn.improved for turn in found.turns[:2]] == [True, False]
    assert codes(found)[1] == ("midend", "kernel = 0.4")


def test_what_was_rejected_is_shown_again_with_the_verdict(tmp_path: Path) -> None:
    policy = Policy("bad", "worse", 0.5, "bad")
    found = run(tmp_path, {"frontend": policy}, turns=2)
    assert [turn.kind for turn in found.turns] == ["translate", "repair", "again"]
    shown = policy.seen[1].messages[-1].content
    assert "kernel = bad" in shown
    assert "no such kernel = bad" in shown
    assert found.gain() == 2.0


def test_half_of_a_turn_of_repairs_asks_anew(tmp_path: Path) -> None:
    policy = Policy(*("bad", "worse", "poor", "ill"), *("a", "b", "c", "d"))
    run(tmp_path, {"frontend": policy}, turns=2, samples=4)
    shown = [prompt.messages[-1].content for prompt in policy.seen[1:]]
    assert ["kernel = " in text for text in shown] == [True, True, False, False]


def test_what_does_not_fit_the_context_is_not_asked(tmp_path: Path) -> None:
    policy = Policy("bad", "worse", "a", "b")
    policy.context = 100  # type: ignore[attr-defined]
    policy.encode = lambda prompt: [0] * (99 if "kernel = " in prompt.messages[-1].content else 9)  # type: ignore[attr-defined]
    found = run(tmp_path, {"frontend": policy}, turns=2)
    assert [turn.kind for turn in found.turns] == ["translate", "translate"]


def test_improvements_go_on_as_long_as_answers_get_faster(tmp_path: Path) -> None:
    midend = Policy(0.4, "bad", 0.3, 0.35, "bad", 0.9, 0.1)
    found = run(tmp_path, {"frontend": Policy(0.5, "bad"), "midend": midend}, turns=5)
    assert [turn.improved for turn in found.turns if turn.stage == "midend"] == [True, True, False]
    assert midend.said == [0.1]


def test_without_a_verified_kernel_no_later_agent_is_asked(tmp_path: Path) -> None:
    found = run(tmp_path, {"frontend": Policy("bad", "worse"), "midend": Policy()})
    assert [turn.stage for turn in found.turns] == ["frontend"]
    assert found.best is None


def test_the_winner_is_heard_again_by_another_judge_and_its_word_counts(tmp_path: Path) -> None:
    first, second = Verifier(), Verifier(refuse=lambda code: code == "kernel = 0.3")
    found = run(tmp_path, {"frontend": Policy(0.4, 0.3)}, [first, second])
    assert second.heard == ["kernel = 0.3", "kernel = 0.4"]
    assert found.best is not None
    assert found.best.candidate.code.strip() == "kernel = 0.4"
    assert found.best.stage == "again"


def test_what_only_the_first_judge_accepts_is_not_handed_out(tmp_path: Path) -> None:
    found = run(tmp_path, {"frontend": Policy(0.4, 0.3)}, [Verifier(), Verifier(refuse=lambda code: True)])
    assert found.best is None
    assert found.gain() is None
    last = furthest(found)
    assert last is not None
    assert last.verdict.outcome is Outcome.STATEFUL


def test_a_second_judge_that_fails_is_no_rejection(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="again"):
        run(tmp_path, {"frontend": Policy(0.4, 0.3)}, [Verifier(), Verifier(broken=True)])
    assert run(tmp_path, {"frontend": Policy()}, resume=True).gain() == 1 / 0.3


def test_no_more_is_judged_than_the_budget_allows(tmp_path: Path) -> None:
    first = Verifier()
    run(tmp_path, {"frontend": Policy(*range(1, 20))}, [first], samples=8, verdicts=5)
    assert len(first.heard) == 3  # six tenths of it; the rest is for the turns after


def test_the_same_kernel_in_another_layout_is_judged_once(tmp_path: Path) -> None:
    first = Verifier()
    found = run(tmp_path, {"frontend": Policy("0.4", "0.4  # fast", "0.4")}, [first], samples=3)
    assert len(first.heard) == 1
    assert [r.verdict.correct for r in found.rollouts] == [True] * 3


def test_when_time_is_up_what_has_not_begun_is_called_off(tmp_path: Path) -> None:
    class Slow(Verifier):
        def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
            if not self.heard:
                return super().submit(task, candidate)
            self.heard.append(candidate.code)
            return Future()  # never begins

    began = time.monotonic()
    found = run(tmp_path, {"frontend": Policy(0.4, 0.3, 0.2)}, [Slow()], samples=3, seconds=0.5)
    assert time.monotonic() - began < 5
    assert codes(found)[0] == ("frontend", "kernel = 0.4")
    assert len(found.rollouts) == 1


TUNED = """import triton
BLOCK = 64
@triton.jit
def k(x, BLOCK: tl.constexpr): pass
def run(x): k[(1,)](x, BLOCK=BLOCK, num_warps=4)
"""


class Sized(Verifier):
    """The larger the block, the faster, up to 256."""

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        block = int(candidate.code.split("BLOCK = ")[1].split()[0])
        warps = int(candidate.code.split("num_warps=")[1].split(")")[0])
        ms = 64 / min(block, 256) + (warps != 4)
        return super().submit(task, Candidate(code=f"kernel = {ms}"))


def test_the_winner_is_tuned_and_the_tuned_one_heard_again(tmp_path: Path) -> None:
    class Says(Policy):
        def generate(self, prompts: Any, n: int = 1, *, on_completion: Any = None, **_: Any) -> Any:
            on_completion(0, 0, Completion(text=completion_text("p", TUNED)))

    found = run(tmp_path, {"frontend": Says()}, [Sized(), Sized()], samples=1)
    assert found.best is not None
    assert "BLOCK = 256" in found.best.candidate.code
    assert {turn.stage for turn in found.turns} == {"frontend", "tune", "again"}
    assert found.best.candidate.plan == "BLOCK = 256"
    again = run(tmp_path, {"frontend": Policy()}, [Verifier(broken=True)], samples=1, resume=True)
    assert again.best.model_dump_json() == found.best.model_dump_json()
    assert len(again.turns) == len(found.turns)


def test_the_run_folder_holds_every_attempt_and_turn(tmp_path: Path) -> None:
    run(tmp_path, {"frontend": Policy(0.4, "bad"), "midend": Policy(0.3, 0.3)})
    folder = RunFolder(tmp_path / "run")
    stages = [r.stage for r in folder.rows("rollouts.jsonl", Rollout)]
    assert stages == ["frontend"] * 2 + ["midend"] * 2 + ["again"]
    summary = json.loads((tmp_path / "run/metrics.json").read_text())
    assert [turn["correct"] for turn in summary["turns"]] == [1, 2, 1]
    assert folder.lines("turns.jsonl") == summary["turns"]


def test_a_stopped_run_goes_on_with_the_turn_it_was_in(tmp_path: Path) -> None:
    class Stopped(Policy):
        def generate(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, {"frontend": Policy(0.4, 0.5), "midend": Stopped()})
    found = run(tmp_path, {"frontend": Policy(), "midend": Policy(0.3, "bad")}, resume=True)
    assert [code for _, code in codes(found)] == ["kernel = 0.4", "kernel = 0.3", "kernel = 0.3"]
    again = run(tmp_path, {"frontend": Policy(), "midend": Policy()}, resume=True)
    assert codes(again) == codes(found)
    assert again.best.model_dump_json() == found.best.model_dump_json()


def test_a_run_of_another_task_is_not_mixed_in(tmp_path: Path) -> None:
    run(tmp_path, {"frontend": Policy(0.4, 0.5)})
    with pytest.raises(UserError, match="--resume"):
        run(tmp_path, {"frontend": Policy(0.4, 0.5)})
    with pytest.raises(UserError, match="other settings"):
        run(tmp_path, {"frontend": Policy(0.4, 0.5)}, resume=True, temperature=0.1)


def test_a_judge_that_fails_on_everything_is_no_verdict_on_the_policy(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="no zygote"):
        run(tmp_path, {"frontend": Policy(0.4, 0.5)}, [Verifier(broken=True)])


def rollout(outcome: Outcome, time: Timing | None = None, code: str = "x") -> Rollout:
    prompt = Prompt(task_id="t", agent="frontend", messages=({"role": "user", "content": "?"},), max_tokens=1)
    verdict = Verdict(task_id="t", outcome=outcome, gate=Gate.TIMING, timing=time)
    return Rollout(
        task_id="t",
        stage="frontend",
        prompt=prompt,
        completion=Completion(text="x"),
        candidate=Candidate(code=code),
        verdict=verdict,
    )


def test_verified_kernels_come_by_time_and_rejected_ones_by_how_far_they_came() -> None:
    slow, fast = rollout(Outcome.CORRECT, timing(0.5), "a"), rollout(Outcome.CORRECT, timing(0.4), "b")
    untimed, wrong = rollout(Outcome.CORRECT, code="c"), rollout(Outcome.WRONG_VALUE, code="d")
    early, broken = rollout(Outcome.SYNTAX_ERROR, code="e"), rollout(Outcome.INFRASTRUCTURE_ERROR, code="f")
    every = [untimed, early, slow, broken, wrong, fast, fast]
    assert verified(every) == [fast, slow, untimed]
    assert rejected(every) == [wrong, early]


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
    assert (
        main(["optimize", "wright/softmax_rows", "-p", "gold", "-n", "1", "--no-tune", "-o", str(out)]) == 0
    )
    said = capsys.readouterr().out
    assert "class ModelNew" in out.read_text()
    assert json.loads((tmp_path / "fast.verdict.json").read_text())["outcome"] == "correct"
    assert "class ModelNew" in said
    assert "modelled gain" in said
    assert "other secrets" in said


@pytest.mark.parametrize(
    "body", ["x + 1", "torch.fft.rfft(x).abs()"], ids=["no answer", "no operator of Triton's"]
)
def test_the_command_exits_1_when_nothing_was_verified(
    body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "mine.py"
    module.write_text(
        f"import torch\nN = 8\nclass Model(torch.nn.Module):\n    def forward(self, x): return {body}\n"
        "def get_inputs(): return [torch.rand(N)]\ndef get_init_inputs(): return []\n"
    )
    # The golds policy knows no gold for a file, and answers with nothing.
    assert main(["optimize", str(module), "-p", "gold", "-n", "1", "-o", str(tmp_path / "k.py")]) == 1
    said = capsys.readouterr().out
    assert "no kernel for file/mine was verified; 3 candidates were tried" in said
    assert "empty completion" in said
    assert "the module stays as it is" in said
    assert not (tmp_path / "k.py").exists()
