"""Turns run folders into one self-contained HTML page.

The page makes no requests: styles, script and charts are inline, and a content security policy forbids everything else.
Kernels, plans and messages are hostile text: templates escape by default, and the policy allows only the page's own
script, by hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from kernelwright import __version__
from kernelwright.errors import UserError
from kernelwright.outcomes import Category, Gate
from kernelwright.report import charts, highlight
from kernelwright.report.gather import Run, Stage, read_run, task_rows
from kernelwright.runs import write_text
from kernelwright.templates import environment

__all__ = ["build_report"]

_HELD = "heldout_loss"


def build_report(run_dirs: Sequence[str | Path], out: str | Path = "report.html") -> Path:
    """Write the page for one or several run folders and return its path.

    The file is written atomically. Raises UserError for a missing run folder or an unwritable `out`.
    """
    if not run_dirs:
        raise UserError("report: no run folder given: kernelwright report RUN... [-o report.html]")
    paths = [Path(run) for run in run_dirs]
    runs = [read_run(path, prefix=f"{path.name} · " if len(paths) > 1 else "") for path in paths]
    # A lone surrogate in a kernel must not make the page fail.
    text = render(runs).encode("utf-8", "backslashreplace").decode("utf-8")
    return write_text(Path(out), text)


def render(runs: Sequence[Run]) -> str:
    """The page as text."""
    stages = [stage for run in runs for stage in run.stages]
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    templates = environment(__file__, autoescape=True)
    filters = (_percent, _times, _number, _pretty, _size, _breakable)
    templates.filters |= {one.__name__.lstrip("_"): one for one in filters} | {"python": highlight.python}
    kind, tasks = _timing_kind(stages), task_rows(stages)
    labels = [*(stage.label for stage in stages), *_series(runs, "loss"), *_series(runs, "reward")]
    colours = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return templates.get_template("page.html.jinja").render(
        version=__version__,
        runs=runs,
        stages=stages,
        tasks=tasks,
        operators=sorted({one for task in tasks for one in task.operators}),
        dtypes=sorted({task.dtype for task in tasks if task.dtype}),
        categories=[c.value for c in (Category.CORRECT, *(c for c in Category if c is not Category.CORRECT))],
        gates=list(Gate),
        timing_kind=kind,
        shared_k=_shared_k(stages),
        colours=colours,
        charts=_charts(runs, stages, colours, kind),
        style=Markup(_asset("page.css")),
        script=Markup(script),
        script_digest=digest,
        notes=[note for run in runs for note in run.notes],
    )


def _charts(
    runs: Sequence[Run], stages: Sequence[Stage], colours: Mapping[str, int], kind: str
) -> list[tuple[str, bool, Markup]]:
    """(title, whether it takes the full page width, drawing) of every chart that has data."""
    reward = _series(runs, "reward")
    # A policy-gradient loss means little: if a stage has a reward, show that instead.
    loss = {name: points for name, points in _series(runs, "loss").items() if name not in reward}
    trained, gain = _series(runs, "pass_rate"), _series(runs, "speedup")
    drawn = [
        ("Supervised loss", False, charts.curves("Supervised loss", loss, colours)),
        *_held_out(runs, colours),
        ("Reward", False, charts.curves("Reward", reward, colours)),
        ("Correct while training", False, charts.curves("Correct", trained, colours, percent=True)),
        ("Plans paid", False, charts.curves("Reward of plans", _series(runs, "reward_plan"), colours)),
        ("Code paid", False, charts.curves("Reward of code", _series(runs, "reward_code"), colours)),
        ("Plan entropy", False, charts.curves("Nats a decision", _series(runs, "nats.decision"), colours)),
        ("Speedup while training", False, charts.curves("Speedup", gain, colours, line_at=1.0)),
    ]
    title = f"{kind} speedup over eager, held-out samples".strip().capitalize()
    spread = {stage.label: (stage.speedups, stage.speedup) for stage in stages}
    wide, narrow = (
        charts.speedups(title, spread, colours, width=1060),
        charts.speedups(title, spread, colours),
    )
    if narrow:
        both = Markup('<div class="wide">{}</div><div class="narrow">{}</div>').format(wide, narrow)
        drawn.append((title, True, both))
    return [chart for chart in drawn if chart[2]]


def _held_out(runs: Sequence[Run], colours: Mapping[str, int]) -> list[tuple[str, bool, Markup]]:
    """Loss on held-out examples of supervised fine-tuning, and by kind of example if there are several kinds."""
    kinds = sorted({key for run in runs for line in run.curves for key in line if key.startswith(_HELD)})
    titles = {_HELD: "Held-out loss"} | {
        key: f"Held-out loss, {key[len(_HELD) + 1 :]}" for key in kinds if key != _HELD and len(kinds) > 2
    }
    return [(t, False, charts.curves(t, _series(runs, key), colours)) for key, t in titles.items()]


def _series(runs: Sequence[Run], key: str) -> dict[str, list[tuple[float, float]]]:
    """Stage -> [(step, value)] of one key of curves.jsonl, or of `key.part`, in the order in which stages ran."""
    key, _, part = key.partition(".")
    series: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        prefix = f"{run.name} · " if len(runs) > 1 else ""
        for number, line in enumerate(run.curves):
            value, step = line.get(key), line.get("step", number)
            value = value.get(part) if part and isinstance(value, dict) else value
            if isinstance(value, int | float) and isinstance(step, int | float):
                series.setdefault(f"{prefix}{line.get('stage', '')}", []).append((float(step), float(value)))
    return series


def _shared_k(stages: Sequence[Stage]) -> int:
    """The largest k for which every stage has a pass@k."""
    known = [{int(k) for k in stage.summary["pass_at_k"]} for stage in stages]
    return max(set.intersection(*known) if known else (), default=1)


def _timing_kind(stages: Sequence[Stage]) -> str:
    """`modelled`, `measured`, or both if the page mixes them; empty without timings."""
    kinds = {r.verdict.timing.kind for s in stages for r in s.rollouts if r.verdict.timing is not None}
    return " and ".join(sorted(kinds))


def _asset(name: str) -> str:
    return (resources.files("kernelwright.report") / "templates" / name).read_text("utf-8")


def _breakable(name: str) -> Markup:
    """A name that a narrow page breaks after separators rather than inside words."""
    return Markup(re.sub(r"([_/.])", r"\1<wbr>", str(escape(name))))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}".replace(",", "\u202f") if abs(value) >= 1000 else f"{value:.{digits}g}"


def _size(value: float | None) -> str:
    """Bytes or operations with a decimal prefix."""
    if value is None:
        return "–"
    for prefix in ("", "k", "M", "G", "T"):
        if abs(value) < 1000 or prefix == "T":
            break
        value /= 1000
    return f"{value:.3g} {prefix}"


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
