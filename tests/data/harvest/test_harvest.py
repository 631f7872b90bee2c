"""Harvest: classes of a package become tasks that stand alone; the others are counted by reason, all with licence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kernelwright.data.harvest import Origin, guess, harvest
from kernelwright.errors import UserError
from kernelwright.records import Task, read_jsonl
from kernelwright.tasks import load_suite
from kernelwright.tasks.closure import Library, Skip, find

LAYERS = '''
"""Layers."""
import numpy
import torch
from torch import nn
from .activations import ACT2FN
from .functions import scaled, logger


class Gate(nn.Module):
    """A gate."""

    def __init__(self, dim: int, dim_out: int, eps: float):
        super().__init__()
        logger.info("made")
        self.proj = nn.Linear(dim, dim_out)
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(self.proj(x))


class SameGate(nn.Module):
    def __init__(self, width: int, units: int, eps: float):
        super().__init__()
        self.linear = nn.Linear(width, units)
        self.eps = eps

    def forward(self, x):
        return scaled(self.linear(x))


class Configured(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.hidden_size, config.intermediate_size)
        self.act = ACT2FN[config.hidden_act]

    def forward(self, hidden_states):
        return self.act(self.fc(hidden_states))


class Image(nn.Module):
    def __init__(self, in_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, in_channels, kernel_size)

    def forward(self, x):
        return self.conv(x)


class NeedsNumpy(nn.Module):
    def forward(self, x):
        return x * numpy.pi


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


class Nothing(nn.Module):
    def forward(self, x):
        return x


class Odd(nn.Module):
    def __init__(self, callback: object):
        super().__init__()

    def forward(self, x):
        return x + 1


class Ends(nn.Module):
    def forward(self, x):
        import os

        os._exit(1)
'''
FUNCTIONS = """
import logging
logger = logging.getLogger()
SCALE = 2.0
def scaled(x):
    return x * SCALE
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "site" / "toys"
    root.mkdir(parents=True)
    (root / "__init__.py").write_text("raise RuntimeError('imported')")
    (root / "layers.py").write_text(LAYERS)
    (root / "functions.py").write_text(FUNCTIONS)
    meta = root.parent / "toys-1.2.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toys\nVersion: 1.2\nLicense-Expression: MIT\n"
    )
    return root.parent


def test_classes_become_tasks_or_counted_reasons(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "tasks.jsonl"
    ended = harvest(["toys"], out, folder)
    assert ended == {
        "tasks of toys": 3,
        "duplicate": 1,
        "needs numpy": 1,
        "run: random": 1,
        "run: hands its input back": 1,
        "constructor: callback: object": 1,
        "run: crash": 1,
    }
    tasks = load_suite(str(out))
    assert all("small" in task.shapes for task in tasks)
    assert all("MIT" in task.source.split("\n")[0] for task in tasks)
    origins = list(read_jsonl(tmp_path / "tasks.origins.jsonl", Origin))
    assert {origin.licence for origin in origins} == {"MIT"}
    assert len(origins) == 9


def test_images_and_tokens_get_their_shapes(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "tasks.jsonl"
    harvest(["toys"], out, folder)
    sources = {task.id.split("-")[1]: task.source for task in read_jsonl(out, Task)}
    assert "torch.randn(BATCH, DIM, HEIGHT, WIDTH)" in sources["Image"]
    assert "torch.randn(BATCH, LENGTH, DIM)" in sources["Gate"]
    assert "class Config:\n    def __init__(self, dim):\n" in sources["Configured"]
    assert "self.intermediate_size = dim" in sources["Configured"]
    assert "self.layer = Configured(config=Config(dim))" in sources["Configured"]


def test_a_second_run_adds_nothing(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "tasks.jsonl"
    first = harvest(["toys"], out, folder)
    text = out.read_text()
    assert harvest(["toys"], out, folder) == first
    assert out.read_text() == text


def test_a_killed_run_goes_on_without_a_task_twice(folder: Path, tmp_path: Path) -> None:
    out, origins = tmp_path / "tasks.jsonl", tmp_path / "tasks.origins.jsonl"
    harvest(["toys"], out, folder)
    text, lines = out.read_text(), origins.read_text().splitlines(keepends=True)
    made = next(number for number, line in enumerate(lines) if '"task_id":"harvest' in line)
    out.rename(tmp_path / "tasks.jsonl.part")
    (tmp_path / "tasks.origins.jsonl.part").write_text("".join(lines[:made]) + '{"package": "to')
    origins.unlink()
    steps: list[tuple[int, int]] = []
    harvest(["toys"], out, folder, progress=lambda _, done, total: steps.append((done, total)))
    assert out.read_text() == text
    assert origins.read_text() == "".join(lines)
    assert steps[0] == (made + 1, len(lines))


def test_several_packages_make_one_file(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "toys", folder / "games")
    out = tmp_path / "tasks.jsonl"
    ended = harvest(["toys", "games"], out, folder)
    assert ended["tasks of toys"] == 3
    assert ended["tasks of games"] == 0
    assert ended["duplicate"] == 1 + 4
    assert ended["run: random"] == 2
    origins = list(read_jsonl(tmp_path / "tasks.origins.jsonl", Origin))
    assert {(origin.package, origin.licence) for origin in origins} == {("toys", "MIT"), ("games", "unknown")}
    shutil.copytree(folder / "toys", folder / "plays")
    with pytest.raises(UserError, match="whole harvest without all of plays; name another file"):
        harvest(["toys", "plays"], out, folder)


def test_a_class_takes_along_what_it_uses(folder: Path) -> None:
    package = find("toys", folder)
    assert package is not None
    text = Library(package).closure("toys.layers", "Gate")
    assert "SCALE = 2.0" in text
    assert "logger" not in text
    assert "A gate." not in text


def test_an_unknown_package_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not installed"):
        harvest(["nowhere_at_all"], tmp_path / "t.jsonl")


@pytest.mark.parametrize(
    ("name", "hint", "expected"),
    [
        ("embed_dim", "int", "DIM"),
        ("num_heads", "int", "4"),
        ("eps", "float", "1e-05"),
        ("drop_rate", "", "0.0"),
        ("norm_layer", "", "nn.LayerNorm"),
        ("window_size", "Tuple[int, int]", "(3, 3)"),
    ],
)
def test_arguments_are_guessed_by_name(name: str, hint: str, expected: str) -> None:
    assert guess.value(name, hint) == expected


def test_what_cannot_be_guessed_is_said() -> None:
    with pytest.raises(Skip, match="constructor: codec: Codec"):
        guess.value("codec", "Codec")
