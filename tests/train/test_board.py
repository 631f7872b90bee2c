"""The live table: figures by hand, shares of outcomes with cheating marked, and rich's rendering."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from kernelwright.train.board import Board, figures, mix, note

LINE: dict[str, Any] = {
    "stage": "frontend", "step": 3, "loss": 0.25, "reward": 0.5, "reward_plan": 0.2, "reward_code": 0.3,
    "pass_rate": 0.5, "speedup": 1.5, "zero_variance": 0.25, "clipped": 0.125, "tokens": 1000,
    "outcomes": {"correct": 4, "wrong_value": 2, "decoy_kernel": 1, "torch_compute": 1},
    "seconds": {"generate": 2.0, "verify": 1.0, "update": 1.0, "step": 4.0},
    "trl": {"clip_ratio/region_mean": 0.01, "kl": 0.002, "entropy": 1.25},
}  # fmt: skip


def test_figures_by_hand() -> None:
    shown = figures(LINE)
    assert (shown["tokens/s"], shown["verdicts/s"]) == (500.0, 2.0)
    assert shown["hacks"] == pytest.approx(2 / 8)
    assert (shown["KL"], shown["entropy"], shown["ratio clipped"]) == (0.002, 1.25, 0.01)
    assert shown["update, s"] == 1.0


def test_a_line_without_rollouts_has_gaps_and_no_error() -> None:
    shown = figures({"loss": 1.0, "seconds": {"step": 1.0}, "trl": {}})
    assert (shown["loss"], shown["reward"], shown["hacks"], shown["tokens/s"]) == (1.0, None, None, None)
    assert note({"loss": 1.0}) == "loss 1.000"


def test_the_mix_of_outcomes_marks_cheating() -> None:
    assert mix(LINE) == "correct 50%, wrong_value 25%, ! decoy_kernel 12%, ! torch_compute 12%"


def test_the_table_shows_every_figure_and_the_mean_of_the_last_steps() -> None:
    board = Board("frontend", 10, 2)
    board.show(3, LINE)
    board.show(4, {**LINE, "reward": 1.5})
    out = StringIO()
    Console(file=out, width=100).print(board.render(LINE))
    said = out.getvalue()
    for name in figures(LINE):
        assert name in said
    assert "4/10" in said
    assert "ETA 0:00" in said
    assert said.split("\n")[2].split()[:3] == ["reward", "1.5", "1"]
    assert "decoy_kernel" in said


def test_supervised_steps_have_a_table_of_their_own_with_held_out_losses() -> None:
    line: dict[str, Any] = {
        "stage": "sft", "step": 20, "loss": 0.5, "heldout_loss": 0.75, "heldout_loss_repair": 0.9, "tokens": 900,
        "seconds": {"step": 0.05}, "trl": {"mean_token_accuracy": 0.875, "learning_rate": 1e-3},
    }  # fmt: skip
    shown = figures(line)
    assert (shown["loss, held out"], shown["loss, held out, repair"], shown["tokens/s"]) == (
        0.75,
        0.9,
        18000.0,
    )
    assert note(line) == "loss 0.500, held out 0.750"
    board = Board("sft", 100, 10)
    board.show(20, line)
    out = StringIO()
    Console(file=out, width=100).print(board.render(line))
    assert "87.5%" in out.getvalue()
    assert "outcomes" not in out.getvalue()
