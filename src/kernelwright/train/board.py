"""The live table of a stage in a terminal: figures of the last step next to the mean of the last ten.

Everything shown is in curves.jsonl. Without a terminal, `progress.Bar` prints a line now and then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from kernelwright.outcomes import Category, Outcome

Figures = dict[str, float | None]
_PERCENT = ("likeliest token", "pass rate", "zero variance", "clipped", "ratio clipped", "hacks")
_LATELY = 10
_LOSS, _HELD = "heldout_loss", "loss, held out"


def figures(line: Mapping[str, Any]) -> Figures:
    """The figures that the table shows of one line of curves.jsonl, by name; None for those that the step lacks.

    Rates are per step: tokens over the time spent generating (in SFT, of the whole step); verdicts over the whole step.
    """
    seconds, trl = line.get("seconds", {}), line.get("trl", {})
    if line.get("stage") == "sft":
        held = {
            f"{_HELD}{key[len(_LOSS) :].replace('_', ', ')}": line[key]
            for key in line
            if key.startswith(_LOSS)
        }
        return {
            "loss": line["loss"],
            **held,
            "likeliest token": trl.get("mean_token_accuracy"),
            "entropy": trl.get("entropy"),
            "gradient": trl.get("grad_norm"),
            "learning rate": trl.get("learning_rate"),
            "tokens/s": _per(line.get("tokens"), seconds.get("step")),
            "step, s": seconds.get("step"),
        }
    outcomes = {Outcome(name): count for name, count in line.get("outcomes", {}).items()}
    total = sum(outcomes.values())
    shown: Figures = {
        "reward": line.get("reward"),
        "reward, plan": line.get("reward_plan"),
        "reward, code": line.get("reward_code"),
        "pass rate": line.get("pass_rate"),
        "speedup": line.get("speedup"),
        "zero variance": line.get("zero_variance"),
        "clipped": line.get("clipped"),
        "ratio clipped": trl.get("clip_ratio/region_mean"),
        "KL": trl.get("kl"),
        "entropy": trl.get("entropy"),
        "loss": line.get("loss"),
        "tokens/s": _per(line.get("tokens"), seconds.get("generate")),
        "verdicts/s": _per(total, seconds.get("step")),
    }
    on_gpus = [what for what in ("cases", "clock") if what in seconds]
    for phase in ("generate", "verify", *on_gpus, "update", "step"):
        shown[f"{phase}, s"] = seconds.get(phase)
    hacks = {name: count for name, count in outcomes.items() if name.category is Category.CHEATING}
    shown["hacks"] = sum(hacks.values()) / total if total else None
    return shown


def mix(line: Mapping[str, Any]) -> str:
    """Shares of a step's outcomes, most frequent first, cheating marked: `correct 50%, wrong_value 25%`."""
    outcomes = line.get("outcomes", {})
    total = sum(outcomes.values()) or 1
    ordered = sorted(outcomes.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(
        f"{'! ' if Outcome(name).category is Category.CHEATING else ''}{name} {count / total:.0%}"
        for name, count in ordered
    )


class Board:
    """The table of a stage with `steps` steps, `done` of them already made. `start`, `show` after each step, `stop`."""

    def __init__(self, stage: str, steps: int, done: int) -> None:
        self.stage, self.steps, self.done, self._first = stage, steps, done, done
        self._lately: deque[Figures] = deque(maxlen=_LATELY)
        self._began = time.monotonic()
        self._live: Any = None

    def start(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)
        self._live.start()

    def show(self, step: int, line: Mapping[str, Any]) -> None:
        """Redraw with a step's line of curves.jsonl."""
        self.done = step
        self._lately.append(figures(line))
        if self._live is not None:
            self._live.update(self.render(line), refresh=True)

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def render(self, line: Mapping[str, Any]) -> Any:
        """The table as a renderable of rich."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table("", "step", f"last {_LATELY}", "", "step", f"last {_LATELY}", box=None, pad_edge=False)
        names = list(self._lately[-1])
        half = -(-len(names) // 2)
        for place in range(half):
            right = self._cells(names[place + half]) if place + half < len(names) else ("", "", "")
            table.add_row(*self._cells(names[place]), *right)
        head = Table.grid(padding=1)
        head.add_row(self.stage, f"{self.done}/{self.steps}", f"ETA {self._eta()}")
        bar = ProgressBar(total=self.steps, completed=self.done, width=60)
        return Group(head, bar, table, *([f"outcomes  {mix(line)}"] if "outcomes" in line else []))

    def _cells(self, name: str) -> tuple[str, str, str]:
        known = [value for each in self._lately if (value := each.get(name)) is not None]
        mean = sum(known) / len(known) if known else None
        return name, _show(name, self._lately[-1].get(name)), _show(name, mean)

    def _eta(self) -> str:
        made = self.done - self._first
        if made <= 0:
            return "?"
        seconds = (time.monotonic() - self._began) / made * (self.steps - self.done)
        hours, rest = divmod(round(seconds), 3600)
        return f"{hours}:{rest // 60:02}:{rest % 60:02}"


def note(line: Mapping[str, Any]) -> str:
    """The short note next to a progress bar."""
    if line.get("pass_rate") is None:
        held = f", held out {line[_LOSS]:.3f}" if _LOSS in line else ""
        return f"loss {line['loss']:.3f}{held}"
    speedup = f" speedup {line['speedup']:.2f}x" if line.get("speedup") else ""
    return f"reward {line['reward'] or 0:.2f} correct {line['pass_rate']:.0%}{speedup}"


def _show(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1%}" if name in _PERCENT else f"{value:.4g}"


def _per(count: float | None, seconds: float | None) -> float | None:
    return count / seconds if count and seconds else None
