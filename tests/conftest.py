"""Shared by all tests: one thread per process, no network, a cache of its own; `gpu` tests run only if there is a GPU."""

import gc
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from subprocess import Popen
from typing import Any

import hypothesis
import numpy
import pytest

# Set before any test imports torch or transformers, and inherited by the verifier's worker processes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
# Each process that a test starts would compile all our modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A loaded machine draws examples slowly, and that is no fault of a test.
hypothesis.settings.register_profile(
    "loaded", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("loaded")

# A cache shared with earlier runs would return their kernels instead of searching.
os.environ["KERNELWRIGHT_CACHE"] = tempfile.mkdtemp(prefix="kernelwright-cache-")


HELPERS = ("kernelwright.tasks.probe", "kernelwright.policy.compiler.worker")
"""They import torch and fork for every question: nothing of one is left for the next."""


@pytest.fixture(scope="session", autouse=True)
def helpers_stay() -> Iterator[None]:
    """Helper processes end with the session, not with their block, and the next block gets them: starting takes 3 s of CPU."""
    from kernelwright.children import Helper

    idle: dict[object, list[Popen[str]]] = {}
    enter, leave, ask = Helper.__enter__, Helper.__exit__, Helper.ask

    def enter_again(self: Any) -> Any:
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        self.start = (tuple(self._command), tuple(sorted(environment.items())), os.getcwd())
        self.answered = True
        while idle.get(self.start):
            self._process = idle[self.start].pop()
            if self._process.poll() is None:
                return self
        return enter(self)

    def ask_and_note(self: Any, question: Any) -> Any:
        self.answered = False
        answer = ask(self, question)
        self.answered = True
        return answer

    def leave_running(self: Any, *error: object) -> None:
        if self._process is not None and self.answered and self._command[2] in HELPERS:
            idle.setdefault(self.start, []).append(self._process)
            self._process = None
        leave(self, *error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Helper, "__enter__", enter_again)
        patch.setattr(Helper, "ask", ask_and_note)
        patch.setattr(Helper, "__exit__", leave_running)
        yield
    for process in [one for many in idle.values() for one in many]:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module", autouse=True)
def what_is_there_stays() -> None:
    """Garbage collections (each training run asks for several) leave out what earlier modules imported, which takes seconds."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Each test draws the same numbers every time: none passes or fails by chance."""
    random.seed(0)
    numpy.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def pytest_unconfigure() -> None:
    gc.unfreeze()
    shutil.rmtree(os.environ["KERNELWRIGHT_CACHE"], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip `gpu` tests without a CUDA device (imports torch only if such a test was collected)."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))
