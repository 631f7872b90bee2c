"""The judge behind HTTP: idempotent, bounded, guarded; nothing is lost when it dies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from graph.building import Builder

from kernelwright.errors import InfrastructureError, UserError
from kernelwright.graph.task import to_task
from kernelwright.outcomes import Outcome
from kernelwright.records import Candidate, Task
from kernelwright.verify.remote import RemotePool, VerifyRequest
from serve.conftest import RELU, FakePool, Served, wait_for

Serve = Callable[..., Served]
STRANGE = RELU.model_copy(update={"source": "import os"})


def body(code: str = "x = 1", **fields: object) -> dict[str, object]:
    return {"task_id": "suite/relu", "candidate": {"code": code}, **fields}


def test_a_verdict_by_name_of_the_task(serve: Serve) -> None:
    answer = httpx.post(f"{serve().url}/v1/verify", json=body())
    assert answer.status_code == 200
    assert answer.json()["verdict"]["outcome"] == "wrong_value"


def test_the_same_request_again_is_answered_from_the_store(serve: Serve) -> None:
    server = serve()
    first, second = (httpx.post(f"{server.url}/v1/verify", json=body()).json() for _ in range(2))
    assert (first["cached"], second["cached"]) == (False, True)
    assert first["id"] == second["id"]
    assert len(server.pool.asked) == 1


def test_a_judge_that_failed_is_asked_again(serve: Serve) -> None:
    server = serve()
    server.pool.broken = True
    first = httpx.post(f"{server.url}/v1/verify", json=body()).json()
    assert first["verdict"]["outcome"] == "infrastructure_error"
    server.pool.broken = False
    second = httpx.post(f"{server.url}/v1/verify", json=body()).json()
    assert second["verdict"]["outcome"] == "wrong_value"


def test_a_completion_is_parsed_by_the_server(serve: Serve) -> None:
    server = serve()
    httpx.post(
        f"{server.url}/v1/verify", json={"task_id": "suite/relu", "completion": "```python\ny = 2\n```"}
    )
    assert [code.strip() for code in server.pool.asked] == ["y = 2"]


def test_what_takes_longer_is_fetched_later(serve: Serve) -> None:
    server = serve()
    server.pool.held = True
    begun = httpx.post(f"{server.url}/v1/verify", json=body(wait_s=0.0))
    assert begun.status_code == 202
    place = f"{server.url}/v1/verdicts/{begun.json()['id']}"
    assert httpx.get(place).status_code == 202
    server.pool.let_go()
    wait_for(lambda: httpx.get(place).status_code == 200)


def test_a_full_queue_says_when_to_come_back(serve: Serve) -> None:
    server = serve(queue=1)
    server.pool.held = True
    httpx.post(f"{server.url}/v1/verify", json=body("a = 1", wait_s=0.0))
    refused = httpx.post(f"{server.url}/v1/verify", json=body("b = 1", wait_s=0.0))
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")


def test_one_token_cannot_fill_the_queue_of_others(serve: Serve) -> None:
    server = serve(tokens=("one", "two"), per_token=1)
    server.pool.held = True

    def ask(token: str, code: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.post(f"{server.url}/v1/verify", json=body(code, wait_s=0.0), headers=headers).status_code

    assert [ask("one", "a = 1"), ask("one", "b = 1"), ask("two", "c = 1")] == [202, 429, 202]


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic right", "Bearer", "Bearer right2"])
def test_a_wrong_token_gets_nothing(serve: Serve, header: str | None) -> None:
    server = serve(tokens=("right",))
    headers = {"Authorization": header} if header else {}
    assert httpx.post(f"{server.url}/v1/verify", json=body(), headers=headers).status_code == 401
    assert httpx.get(f"{server.url}/metrics", headers=headers).status_code == 401
    assert httpx.get(f"{server.url}/v1/health", headers=headers).status_code == 200
    assert server.pool.asked == []


def test_a_large_body_is_refused_before_it_is_read(serve: Serve) -> None:
    server = serve(largest_body=2000)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as raw:
        raw.sendall(b"POST /v1/verify HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n")
        assert b" 413 " in raw.recv(100)


def test_a_large_body_of_unknown_length_is_cut_off(serve: Serve) -> None:
    server = serve(largest_body=2000)
    assert httpx.post(f"{server.url}/v1/verify", content=iter([b"x" * 1500] * 3)).status_code == 413


def test_a_strangers_task_is_not_executed(serve: Serve) -> None:
    server = serve()
    sent = VerifyRequest(task=STRANGE, candidate=Candidate(code="x = 1")).model_dump(mode="json")
    refused = httpx.post(f"{server.url}/v1/verify", json=sent)
    assert refused.status_code == 403
    assert "--allow-source" in refused.json()["detail"]
    assert server.pool.asked == []


def test_a_graphs_task_is_judged_whoever_sends_it_and_not_once_it_is_changed(serve: Serve) -> None:
    def status(task: Task) -> int:
        sent = VerifyRequest(task=task, candidate=Candidate(code="x = 1")).model_dump(mode="json")
        return httpx.post(f"{server.url}/v1/verify", json=sent).status_code

    b = Builder()
    server, one = serve(), to_task(b.graph(b.op("aten.relu.default", b.input(4))), "graph/relu")
    assert status(one) == 200
    assert status(one.model_copy(update={"source": one.source + "import os\n"})) == 403


def test_a_task_that_the_server_has_may_be_sent_whole(serve: Serve) -> None:
    sent = VerifyRequest(task=RELU, candidate=Candidate(code="x = 1")).model_dump(mode="json")
    assert httpx.post(f"{serve().url}/v1/verify", json=sent).status_code == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"{", 422), (b"[]", 422), (b"\xff\xfe", 422), (b"{}", 422), (b'{"task_id": "suite/relu"}', 422),
        (b'{"task_id": 1e999}', 422), (b"[" * 5000, 400), (b'{"task_id": "no/such", "candidate": {"code": "x"}}', 404),
        (b'{"task_id": "suite/relu", "candidate": {"code": ""}}', 422),
        (b'{"task_id": "suite/relu", "candidate": {"code": "x"}, "wait_s": 1e9}', 422),
        (b'{"task_id": "suite/relu", "candidate": {"code": "x"}, "more": 1}', 422),
    ],
)  # fmt: skip
def test_garbage_gets_a_status_and_a_line(serve: Serve, sent: bytes, status: int) -> None:
    server = serve()
    answer = httpx.post(f"{server.url}/v1/verify", content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["detail"]
    assert server.pool.asked == []


def test_many_are_streamed_as_they_are_known(serve: Serve) -> None:
    sent = {"requests": [body(f"x = {i % 5}") for i in range(20)] + [body(task_id="no/such")]}
    lines = httpx.post(f"{serve(queue=3).url}/v1/verify/stream", json=sent).text.splitlines()
    assert len(lines) == 21
    assert sum('"wrong_value"' in line for line in lines) == 20
    assert sum("no task" in line for line in lines) == 1


def test_a_client_that_goes_away_cancels_what_only_it_waits_for(serve: Serve) -> None:
    server = serve()
    server.pool.held = True
    with pytest.raises(httpx.TimeoutException):
        httpx.post(f"{server.url}/v1/verify", json=body(), timeout=0.3)
    wait_for(lambda: not server.jobs.running)
    assert server.jobs.tally.cancelled == 1


def test_a_restarted_server_finishes_what_it_had_taken(serve: Serve, tmp_path: Path) -> None:
    store = str(tmp_path / "verdicts.sqlite")
    first = serve(store=store)
    first.pool.held = True
    key = httpx.post(f"{first.url}/v1/verify", json=body(wait_s=0.0)).json()["id"]
    killed = FakePool()
    second = serve(pool=killed, store=store)
    assert killed.asked == ["x = 1"]
    wait_for(lambda: httpx.get(f"{second.url}/v1/verdicts/{key}").status_code == 200)


def test_metrics_count_outcomes(serve: Serve) -> None:
    server = serve()
    httpx.post(f"{server.url}/v1/verify", json=body())
    assert 'kernelwright_verdicts_total{outcome="wrong_value"} 1.0' in httpx.get(f"{server.url}/metrics").text


def test_the_client_is_a_pool(serve: Serve) -> None:
    server = serve()
    with RemotePool(server.url) as pool:
        pairs = [(RELU, Candidate(code=f"x = {i % 3}")) for i in range(12)]
        verdicts = pool.verify_many(pairs)
    assert [v.outcome for v in verdicts] == [Outcome.WRONG_VALUE] * 12
    assert [v.candidate_digest for v in verdicts] == [candidate.digest for _, candidate in pairs]
    assert len(server.pool.asked) == 3


def test_the_client_goes_on_with_another_server(serve: Serve) -> None:
    stays, goes = serve(), serve()
    goes.stop()
    with RemotePool(f"{goes.url},{stays.url}") as pool:
        assert all(pool.verify(RELU, Candidate(code=f"x = {i}")).outcome.judged for i in range(6))


def test_the_client_waits_for_a_full_server(serve: Serve) -> None:
    server = serve(queue=1)
    server.pool.held = True
    with RemotePool(server.url) as pool:
        asked = [pool.submit(RELU, Candidate(code=f"x = {i}")) for i in range(4)]
        wait_for(lambda: server.pool.asked)
        threading.Timer(0.2, server.pool.let_go).start()
        assert [future.result(20).outcome for future in asked] == [Outcome.WRONG_VALUE] * 4


def test_a_judge_that_is_gone_is_no_verdict() -> None:
    with (
        RemotePool("http://127.0.0.1:9", patience_s=0.2) as pool,
        pytest.raises(InfrastructureError, match="did not answer"),
    ):
        pool.verify(RELU, Candidate(code="x = 1"))


def test_a_wrong_token_is_the_users_to_fix(serve: Serve) -> None:
    server = serve(tokens=("right",))
    with RemotePool(server.url, token="wrong") as pool, pytest.raises(UserError, match="Bearer"):
        pool.verify(RELU, Candidate(code="x = 1"))
    with RemotePool(server.url, token="right") as pool:
        assert pool.verify(RELU, Candidate(code="x = 1")).outcome is Outcome.WRONG_VALUE


@pytest.mark.parametrize("urls", ["", "judge:8040", "ftp://x"])
def test_an_address_that_is_none(urls: str) -> None:
    with pytest.raises(UserError, match="http://HOST:PORT"):
        RemotePool(urls)
