"""The judge behind HTTP under load and under attack: no verdict is lost or duplicated, and nobody gets in.

    python benchmarks/serve.py [--verdicts 500] [--clients 8] [--requests 5000]

Starts two real servers with `kernelwright serve`, and measures:
    load      `--clients` clients request `--verdicts` verdicts from both; one server is killed and restarted meanwhile.
              Every answer must have the outcome that a pool in this process gives.
    overhead  milliseconds that HTTP adds to a cached verdict
    garbage   200 invalid requests, and 50 exhibits of the museum: each gets a status or a verdict
    memory    of a server over `--requests` requests, after a tenth and at the end

Without a GPU. Exit code 1 if anything is not as expected.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from kernelwright import tasks
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.verify import VerifierPool
from kernelwright.verify.remote import RemotePool

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import museum

TOKEN = "benchmark"


class Server:
    """`kernelwright serve` in a process of its own."""

    def __init__(self, store: Path, port: int = 0) -> None:
        self.store = store
        command = [sys.executable, "-m", "kernelwright", "serve", "--port", str(port), "--token", TOKEN]
        command += ["--backend", "interpret", "--workers", "1", "--store", str(store)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stdout is not None
        self.url = ""
        for line in self.process.stdout:
            if found := re.search(r"http://[\d.]+:\d+", line):
                self.url = found.group()
                break
        assert self.url, "the server did not start"

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024  # type: ignore[union-attr]

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def two_servers() -> Iterator[list[Server]]:
    with tempfile.TemporaryDirectory() as folder:
        servers = [Server(Path(folder) / f"{name}.sqlite") for name in "ab"]
        try:
            yield servers
        finally:
            for server in servers:
                server.stop()


def pairs(limit: int) -> list[tuple[Task, Candidate]]:
    """`limit` different candidates: golds of the built-in tasks, as they are, with another task's code, and broken."""
    suite = tasks.load_suite("wright")
    golds = [(task, gold(task.id)) for task in suite]
    made: list[tuple[Task, Candidate]] = []
    for number in range(limit):
        task, code = golds[number % len(golds)]
        kind = number % 5
        if kind == 1:
            code = golds[(number + 1) % len(golds)][1]
        elif kind == 2:
            code = code.replace("return", "retrun", 1)
        made.append((task, Candidate(code=f"{code}\n# {number // len(golds)}\n")))
    return made


def load(servers: list[Server], wanted: int, clients: int) -> list[str]:
    kernels = pairs(wanted)
    random.Random(0).shuffle(kernels)
    answers: list[Verdict | None] = [None] * len(kernels)
    began = time.monotonic()

    def client(number: int) -> None:
        with RemotePool(",".join(one.url for one in servers), TOKEN, workers=4) as pool:
            mine = range(number, len(kernels), clients)
            for index, verdict in zip(mine, pool.verify_many([kernels[i] for i in mine]), strict=True):
                answers[index] = verdict

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    while sum(answer is not None for answer in answers) == 0 and time.monotonic() - began < 20:
        time.sleep(0.2)
    port, store = servers[1].port, servers[1].store
    servers[1].kill()
    killed = time.monotonic()
    servers[1] = Server(store, port)
    back = time.monotonic() - killed
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    print(f"load      {sum(a is not None for a in answers)} of {wanted} answers in {seconds:.0f} s "
          f"({wanted / seconds:.1f} a second); a server was killed and back in {back:.1f} s")  # fmt: skip
    with VerifierPool(2, backend="interpret") as pool:
        local = pool.verify_many(kernels)
    differ = [
        f"{task.id}: {answer.outcome if answer else 'no answer'} over HTTP, {here.outcome} here"
        for (task, _), answer, here in zip(kernels, answers, local, strict=True)
        if answer is None or answer.outcome is not here.outcome
    ]
    print(
        f"          {len(differ)} outcomes differ from the local ones; {dict(Counter(v.outcome.value for v in local))}"
    )
    return differ


def overhead(server: Server, times: int = 200) -> list[str]:
    task, candidate = pairs(1)[0]
    with RemotePool(server.url, TOKEN) as pool:
        pool.verify(task, candidate)
        began = time.perf_counter()
        for _ in range(times):
            pool.verify(task, candidate)
    ms = (time.perf_counter() - began) / times * 1000
    print(f"overhead  {ms:.1f} ms a verdict")
    return [f"overhead of {ms:.1f} ms"] if ms >= 10 else []


def garbage(server: Server) -> list[str]:
    dice = random.Random(1)
    statuses: Counter[int] = Counter()
    problems = []
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    for number in range(200):
        content = [
            dice.randbytes(dice.randint(0, 2000)),
            json.dumps({"task_id": dice.choice(["", "wright/relu", "../../etc", "x" * 999])}).encode(),
            json.dumps({"task": {"id": "x", "source": "import os; os._exit(1)"}, "candidate": {"code": "x"}}).encode(),
            b"[" * 5000, b'{"task_id": 1e999}', b"\x00" * 100,
        ][number % 6]  # fmt: skip
        wrong = {**headers, "Authorization": "Bearer no"} if number % 7 == 0 else headers
        status = httpx.post(f"{server.url}/v1/verify", content=content, headers=wrong).status_code
        statuses[status] += 1
        if not 400 <= status < 500:
            problems.append(f"garbage {number} got {status}")
    huge = httpx.post(f"{server.url}/v1/verify", content=iter([b"x" * 65536] * 1600), headers=headers)
    statuses[huge.status_code] += 1
    print(f"garbage   201 requests: {dict(sorted(statuses.items()))}")
    return problems


def attacks(server: Server, count: int = 50) -> list[str]:
    every = [
        one
        for one in museum.exhibits("hacks", "interpret")
        if not one.endless and one.task_id.startswith("wright/")
    ]
    chosen = random.Random(2).sample(every, min(count, len(every)))
    with RemotePool(server.url, TOKEN) as pool:
        verdicts = pool.verify_many([(museum.task_of(one), Candidate(code=one.code)) for one in chosen])
    accepted = [
        one.name for one, verdict in zip(chosen, verdicts, strict=True) if not one.as_expected(verdict)
    ]
    alive = httpx.get(f"{server.url}/v1/health").json()["status"]
    print(
        f"attacks   {len(chosen)} exhibits over HTTP: {len(accepted)} ended otherwise than locally; the server is {alive}"
    )
    return accepted


def memory(server: Server, requests: int) -> list[str]:
    kernels = pairs(100)
    seen: dict[str, float] = {}
    with RemotePool(server.url, TOKEN) as pool:
        for number in range(requests):
            pool.verify(*kernels[number % len(kernels)])
            if number == requests // 10:
                seen["early"] = server.memory_mb()
    seen["late"] = server.memory_mb()
    print(
        f"memory    {requests} requests: {seen['early']:.0f} MB after a tenth, {seen['late']:.0f} MB at the end"
    )
    return [f"memory grew: {seen}"] if seen["late"] > seen["early"] * 1.1 + 10 else []


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verdicts", type=int, default=500)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=5000)
    options: Any = parser.parse_args(arguments)
    with two_servers() as servers:
        problems = load(servers, options.verdicts, options.clients)
        problems += overhead(servers[0]) + garbage(servers[0]) + attacks(servers[1])
        problems += memory(servers[0], options.requests)
    for problem in problems:
        print(f"PROBLEM   {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
