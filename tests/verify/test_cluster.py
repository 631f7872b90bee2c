"""Judges on a cluster of three machines: one removed, one actor killed, nothing lost. Run by `make adapters`."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402

from kernelwright.data import CorpusSettings, build  # noqa: E402
from kernelwright.errors import UserError  # noqa: E402
from kernelwright.outcomes import Outcome  # noqa: E402
from kernelwright.policy.gold import gold  # noqa: E402
from kernelwright.records import Candidate, Pair, Task, Verdict, read_jsonl  # noqa: E402
from kernelwright.tasks import load_suite  # noqa: E402
from kernelwright.verify.cluster import ClusterPool  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
VERDICTS = int(os.environ.get("CLUSTER_VERDICTS", "300"))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def pairs() -> list[tuple[Task, Candidate]]:
    tasks = load_suite("wright/activation")
    right = [(tasks[i % len(tasks)], f"{gold(tasks[i % len(tasks)].id)}\n# {i}\n") for i in range(VERDICTS)]
    return [
        (task, Candidate(code=code if i % 3 else "import torch\n")) for i, (task, code) in enumerate(right)
    ]


def kill_an_actor() -> None:
    [line, *_] = os.popen("pgrep -f 'ray::Actor'").read().split() or [""]
    if line:
        os.kill(int(line), signal.SIGKILL)


def test_nothing_is_lost_and_nothing_doubled(cluster: Cluster) -> None:
    asked, seen, at = pairs(), list[int](), list[float]()

    def told(index: int, verdict: Verdict) -> None:
        seen.append(index)
        at.append(time.monotonic())

    removed = cluster.list_all_nodes()[-1]
    with ClusterPool(cluster.address, at_once=1, backend="interpret") as pool:
        assert pool.machines == 3
        threading.Timer(4.0, kill_an_actor).start()
        threading.Timer(8.0, lambda: cluster.remove_node(removed, allow_graceful=False)).start()
        began = time.monotonic()
        verdicts = pool.verify_many(asked, on_result=told)
        pause = max(later - one for one, later in itertools.pairwise(at))
        print(
            f"{len(verdicts)} verdicts in {time.monotonic() - began:.0f} s, at most {pause:.1f} s without one"
        )
    assert sorted(seen) == list(range(len(asked)))
    for (task, candidate), verdict in zip(asked, verdicts, strict=True):
        assert (verdict.task_id, verdict.candidate_digest) == (task.id, candidate.digest)
        assert (
            verdict.correct is candidate.code.endswith("\n") and candidate.code != "import torch\n"
        ) or not verdict.correct
        assert verdict.outcome is not Outcome.INFRASTRUCTURE_ERROR


def test_a_shard_of_data_is_the_local_one(cluster: Cluster, tmp_path: Path) -> None:
    settings = CorpusSettings(
        graphs=8, practice=2, schedules=2, chunk=4, catalogue=1.0, heldout=0, validation=0
    )
    removed = cluster.list_all_nodes()[-1]
    with ClusterPool(cluster.address, at_once=1, backend="interpret") as pool:
        threading.Timer(4.0, lambda: cluster.remove_node(removed, allow_graceful=False)).start()
        build(settings, tmp_path / "there", pool)
    build(settings, tmp_path / "here", workers=1)
    there, here = (read_pairs(tmp_path / name) for name in ("there", "here"))
    assert there == here
    assert len(set(there)) == len(there) > 8


def read_pairs(folder: Path) -> list[tuple[str, str, str, str]]:
    """A corpus's pairs, in order. Leaves out modelled times, which differ between judges by their samples."""
    return [(one.kind, one.digest, one.plan, one.code) for one in read_jsonl(folder / "examples.jsonl", Pair)]


def test_no_cluster_is_the_users_to_fix() -> None:
    with pytest.raises(UserError, match="ray start --head"):
        ClusterPool("127.0.0.1:1")
