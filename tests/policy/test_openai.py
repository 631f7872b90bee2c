"""An endpoint as policy, against a small server on this machine: answers, retries, refusals."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kernelwright.errors import UserError
from kernelwright.policy import load_policy
from kernelwright.policy.openai import OpenAIPolicy
from kernelwright.records import Message, Prompt

PROMPT = Prompt(
    task_id="t",
    agent="frontend",
    messages=(Message(role="system", content="rules"), Message(role="user", content="go")),
    max_tokens=7,
)
Answer = tuple[int, Any]


class Server:
    """Answers the n-th request with `answers[n]`, later ones with the last; records the requests."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [(200, said("hello"))]
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    status, answer = outer.answers[min(len(outer.asked), len(outer.answers) - 1)]
                    outer.asked.append(body)
                    outer.headers.append({**dict(self.headers), "path": self.path})
                if callable(answer):
                    answer = answer(body)
                raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def said(text: str | None, reason: str = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text, **more}, "finish_reason": reason}]}


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def policy(server: Server) -> Callable[..., OpenAIPolicy]:
    return lambda **options: OpenAIPolicy(server.url, "m", **{"retries": 2, "pause": 0.001, **options})


def test_it_asks_for_what_the_prompt_says(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    [[completion]] = load_policy(f"openai:{server.url}#org/m").generate([PROMPT], temperature=0.5, top_p=0.9)
    [body], [headers] = server.asked, server.headers
    assert (completion.text, completion.finish_reason, completion.token_ids) == ("hello", "stop", None)
    assert (body["model"], body["max_tokens"], body["temperature"], body["top_p"]) == ("org/m", 7, 0.5, 0.9)
    assert body["messages"][0] == {"role": "system", "content": "rules"}
    assert (headers["Authorization"], headers["path"]) == ("Bearer secret", "/v1/chat/completions")


def test_without_a_key_none_is_sent(server: Server, policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    policy().generate([PROMPT])
    assert "Authorization" not in server.headers[0]


def test_answers_come_in_order_and_are_handed_on(server: Server, policy: Any) -> None:
    server.answers = [(200, lambda body: said(str(body["seed"])))]
    judged: dict[tuple[int, int], str] = {}
    groups = policy().generate(
        [PROMPT, PROMPT], 3, on_completion=lambda row, sample, c: judged.update({(row, sample): c.text})
    )
    assert [[judged[row, sample] for sample in range(3)] for row in range(2)] == [
        [c.text for c in group] for group in groups
    ]
    assert len({c.text for group in groups for c in group}) == 6


def test_a_busy_server_is_asked_again(server: Server, policy: Any) -> None:
    server.answers = [(503, {}), (429, {}), (200, said("at last"))]
    assert policy().generate([PROMPT])[0][0].text == "at last"


def test_a_server_that_stays_busy_is_one_line(server: Server, policy: Any) -> None:
    server.answers = [(500, {})]
    with pytest.raises(UserError, match=r"no answer after 3 tries \(HTTP 500\)") as error:
        policy().generate([PROMPT])
    assert (len(server.asked), "\n" in str(error.value)) == (3, False)


def test_nobody_there_is_one_line(server: Server) -> None:
    server.server.shutdown()
    server.server.server_close()
    with pytest.raises(UserError, match="is the server up"):
        OpenAIPolicy(server.url, "m", retries=1, pause=0.001).generate([PROMPT])


def test_silence_ends_with_the_timeout(server: Server, policy: Any) -> None:
    release = threading.Event()
    server.answers = [(200, lambda body: (release.wait(5), said("late"))[1])]
    with pytest.raises(UserError, match="timed out"):
        policy(timeout=0.05, retries=0).generate([PROMPT])
    release.set()


@pytest.mark.parametrize(
    ("status", "body", "fix"),
    [
        (401, {}, "set OPENAI_API_KEY"),
        (404, {}, "check the address"),
        (400, b"model\nnot here", "the server refused the request: model not here"),
    ],
)
def test_a_refusal_is_not_tried_again(server: Server, policy: Any, status: int, body: Any, fix: str) -> None:
    server.answers = [(status, body)]
    with pytest.raises(UserError, match=fix) as error:
        policy().generate([PROMPT])
    assert (len(server.asked), "\n" in str(error.value)) == (1, False)


@pytest.mark.parametrize("body", [{}, [], {"choices": []}, {"choices": [{"message": None}]}])
def test_an_answer_of_another_kind_is_one_line(server: Server, policy: Any, body: Any) -> None:
    server.answers = [(200, body)]
    with pytest.raises(UserError, match="not a chat completion"):
        policy().generate([PROMPT])


def test_a_cut_answer_says_so_and_thoughts_keep_their_tags(server: Server, policy: Any) -> None:
    server.answers = [(200, said(None, "length", reasoning_content="hm"))]
    [[completion]] = policy().generate([PROMPT])
    assert (completion.text, completion.finish_reason) == ("<think>hm</think>", "length")
