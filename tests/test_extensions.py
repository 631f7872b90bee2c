"""A user's own reward, advantage and data: a file of a few lines, and a one-line error for each mistake in it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import answer, task, verdict

from kernelwright import candidates, extensions, rewards
from kernelwright.config import RlConfig, parse_recipe
from kernelwright.errors import UserError
from kernelwright.records import Completion, Example, Task, read_jsonl
from kernelwright.train.prompts import write_source
from kernelwright.train.segment_advantages import segment_advantages

REWARD = '''"""Right is 1, and 0.1 less for every hundred tokens; twice as fast is one more."""


def reward(verdict, completion):
    if not verdict.correct:
        return 0.0
    length = len(completion.text) / 400
    return verdict.speedup() - 1.0, 1.0 - 0.1 * length


def nothing(verdict):
    return None


def total(verdict):
    return 3


def bad(verdict):
    return "much"


def broken(verdict):
    return verdict.no_such_thing
'''


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(REWARD)
    return str(path)


def paid(spec: str, said: str = "correct 0.5") -> Any:
    completion = Completion(text=answer(said))
    candidate = candidates.parse(completion.text)
    judged = verdict(task("a"), candidate)
    made = rewards.reward(spec, judged, candidate=candidate, completion=completion)
    return made.plan, made.code


def test_a_users_reward_pays_plan_and_code(mine: str) -> None:
    plan, code = paid(f"{mine}:reward")
    assert (plan, code) == (1.0, pytest.approx(1.0 - 0.1 * len(answer("correct 0.5")) / 400))
    assert paid(f"{mine}:reward", "wrong_value") == (0.0, 0.0)
    assert paid(f"{mine}:total") == (1.5, 1.5), "one number is half of it to each segment"
    assert paid(f"{mine}:nothing") == (None, None)
    assert paid(f"{mine}:reward", "infrastructure_error") == (None, None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bad", "returned str; return a number"),
        ("broken", r"raised AttributeError: .*no_such_thing.* \(line \d+\); fix it"),
        ("missing", "has no function missing; it has bad, broken, nothing, reward, total"),
    ],
)
def test_what_is_wrong_with_it_is_one_line(mine: str, name: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        paid(f"{mine}:{name}")
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_loaded_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "torn.py").write_text("def reward(verdict:\n")
    with pytest.raises(UserError, match=r"torn.py raised SyntaxError: .*line 1.* when it was loaded"):
        rewards.check_preset(f"{tmp_path}/torn.py:reward")
    with pytest.raises(UserError, match=r"there is no file .*gone.py in .*; write its path"):
        rewards.check_preset(f"{tmp_path}/gone.py:reward")
    with pytest.raises(UserError, match=r"names no function in a file; write my_file.py:function"):
        rewards.check_preset("reward.py")
    with pytest.raises(UserError, match=r"unknown reward preset 'wrong'.*or a function of yours"):
        rewards.check_preset("wrong")


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def one(): return 1\n")
    assert extensions.load(f"{path}:one", "reward")() == 1
    path.write_text("def one(): return 22\n")
    assert extensions.load(f"{path}:one", "reward")() == 22


ADVANTAGE = """def ranks(returns):
    return returns.nan_to_num().argsort(1).argsort(1).float() - 0.5


def one(returns):
    return 1.0
"""


def test_a_users_advantage_gets_returns_by_prompt_sample_turn_and_segment(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ADVANTAGE)
    returned = torch.tensor([[[3.0, 0.0]], [[1.0, 5.0]], [[float("nan")] * 2], [[2.0, 2.0]]])
    rl = RlConfig(samples=2, advantage=f"{tmp_path}/mine.py:ranks")
    plan, code = segment_advantages(returned, rl)
    assert plan.flatten().tolist() == [0.5, -0.5, 0.0, 0.5]
    assert code.flatten().tolist() == [-0.5, 0.5, 0.0, 0.5]
    with pytest.raises(UserError, match=r"returned float; return a tensor .*\(2, 2, 1, 2\)"):
        segment_advantages(returned, rl.model_copy(update={"advantage": f"{tmp_path}/mine.py:one"}))


def test_a_users_data_are_the_runs_data(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from kernelwright.records import Example, Task\n"
        "def records():\n"
        "    one = Task(id='mine/a', suite='mine', source='# a')\n"
        "    yield one\n"
        "    yield Example(task=one, plan='p', code='c')\n"
        "def numbers():\n"
        "    return [1]\n"
    )
    spec = f"{tmp_path}/mine.py"
    write_source(parse_recipe({"data": {"source": f"{spec}:records"}}), tmp_path)
    assert [t.id for t in read_jsonl(tmp_path / "data" / "tasks.jsonl", Task)] == ["mine/a"]
    assert [e.plan for e in read_jsonl(tmp_path / "data" / "examples.jsonl", Example)] == ["p"]
    with pytest.raises(UserError, match=r"returned a int; return kernelwright.records Task, Example or Pair"):
        write_source(parse_recipe({"data": {"source": f"{spec}:numbers"}}), tmp_path)
