"""Shared by all tests: one thread per process, no network, a cache of its own; `gpu` tests run only if there is a GPU."""

import os
import random
import shutil
import sys
import tempfile

import hypothesis
import numpy
import pytest

# Set before any test imports torch or transformers, and inherited by the verifier's worker processes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

# A loaded machine draws examples slowly, and that is no fault of a test.
hypothesis.settings.register_profile(
    "loaded", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("loaded")

# A cache shared with earlier runs would return their kernels instead of searching.
os.environ["KERNELWRIGHT_CACHE"] = tempfile.mkdtemp(prefix="kernelwright-cache-")


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Each test draws the same numbers every time: none passes or fails by chance."""
    random.seed(0)
    numpy.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def pytest_unconfigure() -> None:
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
