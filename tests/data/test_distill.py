"""The language-model teacher, against a server that misbehaves in every way it can."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from judges import FakeJudge

from kernelwright import tasks
from kernelwright.data.distill import Distilled, Teacher, distill
from kernelwright.errors import UserError
from kernelwright.outcomes import Outcome
from kernelwright.policy.gold import gold
from kernelwright.policy.openai import OpenAIPolicy
from kernelwright.records import Example, Task, read_jsonl

SUITE = tasks.load_suite("wright/relu,silu,elu,softmax_rows")
GOLD = gold(SUITE[0].id)


def answer(code: str, plan: str = "one kernel") -> str:
    return f"<think>let me see</think><plan>\n{plan}\n</plan>\n```python\n{code}\n```"


def said(text: str, reason: str = "stop") -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}, "finish_reason": reason}]}).encode()


class Server:
    """Answers the n-th request with `script[n]`, later ones with the last; a number is a status."""

    def __init__(self) -> None:
        self.script: list[int | bytes | None] = [said(answer(GOLD))]
        self.asked: list[dict[str, Any]] = []
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    step = outer.script[min(len(outer.asked), len(outer.script) - 1)]
                    outer.asked.append(body)
                if step is None:  # hangs up
                    self.connection.close()
                    return
                raw = b"busy" if isinstance(step, int) else step
                self.send_response(step if isinstance(step, int) else 200)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def teacher(server: Server, judge: FakeJudge | None = None, **options: Any) -> Teacher:
    policy = OpenAIPolicy(server.url, "m", retries=2, pause=0.001, timeout=2.0)
    return Teacher(policy, judge or FakeJudge(), **options)


def run(suite: list[Task], out: Path, asked: Teacher) -> dict[str, int]:
    return dict(distill(suite, out, asked, parallel=1))


def test_an_accepted_answer_is_an_example_with_a_true_plan_and_its_reasoning_is_kept(
    server: Server, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    assert run(SUITE[:1], out, teacher(server)) == {"accepted": 1}
    [example] = read_jsonl(out, Example)
    assert example.code.strip() == GOLD.strip()
    assert example.teacher.endswith("#m")
    [kept] = read_jsonl(tmp_path / "out.turns.jsonl", Distilled)
    assert "let me see" in kept.turns[0].answer


def test_what_the_judge_rejects_goes_back_with_its_message(server: Server, tmp_path: Path) -> None:
    server.script = [
        said(answer(GOLD.replace("tl.store", "tl.stor"))),
        said("no code at all"),
        said(answer(GOLD)),
    ]
    judge = FakeJudge(lambda code: Outcome.CORRECT if "tl.store" in code else Outcome.COMPILE_ERROR)
    assert run(SUITE[:1], tmp_path / "out.jsonl", teacher(server, judge)) == {"accepted": 1}
    asked = [body["messages"][-1]["content"] for body in server.asked]
    assert "tl.stor(" in asked[1]
    assert "compile" in asked[1].lower()
    [kept] = read_jsonl(tmp_path / "out.turns.jsonl", Distilled)
    assert [turn.outcome for turn in kept.turns] == ["compile_error", "no_code", "correct"]


def test_turns_end(server: Server, tmp_path: Path) -> None:
    judge = FakeJudge(lambda code: Outcome.WRONG_VALUE)
    assert run(SUITE[:1], tmp_path / "o.jsonl", teacher(server, judge, turns=2)) == {
        "rejected: wrong_value": 1
    }
    assert len(server.asked) == 2


@pytest.mark.parametrize("trouble", [429, 500, 503, None, b"<html>", b"{"])
def test_passing_trouble_is_retried(server: Server, tmp_path: Path, trouble: int | bytes | None) -> None:
    server.script = [trouble, said(answer(GOLD))]
    assert run(SUITE[:1], tmp_path / "out.jsonl", teacher(server)) == {"accepted": 1}


@pytest.mark.parametrize("rubbish", [b"[]", b'{"choices": []}', b'{"error": "no"}', b'{"choices": [{}]}'])
def test_rubbish_is_a_counted_reason(server: Server, tmp_path: Path, rubbish: bytes) -> None:
    server.script = [rubbish, said(answer(GOLD))]
    ended = run(SUITE[:2], tmp_path / "out.jsonl", teacher(server))
    assert ended.pop("accepted") == 1
    [(reason, count)] = ended.items()
    assert (reason.startswith("endpoint: the answer is not a chat completion"), count) == (True, 1)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [("", "empty_completion"), ("<think>" + "hm " * 99, "no_code"), (GOLD[:200], "truncated")],
)
def test_an_answer_without_a_kernel_is_a_turn(
    server: Server, tmp_path: Path, text: str, outcome: str
) -> None:
    server.script = [said(text, "length" if outcome == "truncated" else "stop")]
    [(reason, _)] = run(SUITE[:1], tmp_path / "out.jsonl", teacher(server, turns=1)).items()
    assert reason == f"rejected: {outcome}"
    assert list(read_jsonl(tmp_path / "out.jsonl", Example)) == []


def test_a_server_that_stays_bad_ends_the_run_in_one_line(server: Server, tmp_path: Path) -> None:
    server.script = [401]
    with pytest.raises(UserError, match=r"5 tasks in a row failed: .*401.*run again to go on") as error:
        run(SUITE * 3, tmp_path / "out.jsonl", teacher(server))
    assert "\n" not in str(error.value)


def test_the_budget_ends_the_run_which_goes_on_with_a_larger_one(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(UserError, match="budget of requests is spent after 2 of 4 tasks"):
        run(SUITE, out, teacher(server, requests=2))
    assert run(SUITE, out, teacher(server)) == {"accepted": 4}
    assert len(server.asked) == 4
    assert [e.task.id for e in read_jsonl(out, Example)] == [task.id for task in SUITE]


def test_the_instruction_is_in_every_question(server: Server, tmp_path: Path) -> None:
    run(SUITE[:2], tmp_path / "out.jsonl", teacher(server, instruction="Prefer few registers."))
    assert all("Prefer few registers." in body["messages"][-1]["content"] for body in server.asked)
