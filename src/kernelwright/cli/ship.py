"""`kernelwright ship`: makes a finished checkpoint the package's own model, with a card about its run.

FOLDER/model.safetensors   bfloat16, at most 32 MiB      FOLDER/tokenizer*.json
FOLDER/config.json, generation_config.json               FOLDER/MODEL_CARD.md
    FOLDER/BEGAN_WITH.md     the cards of the model it is mixed with, and of earlier ones

The card quotes the run's own files and contains nothing else.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelwright import __version__
from kernelwright.config import STAGES
from kernelwright.errors import UserError
from kernelwright.models import DEFAULT_FOLDER, place_of
from kernelwright.records import FASTER
from kernelwright.runs import new_folder, read_json, write_text
from kernelwright.templates import environment

MOST = 32 << 20
"""Most bytes of weights."""
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_TOLD = 2
"""Least samples for a statement about an operator."""


def ship(
    spec: str,
    out: Path = DEFAULT_FOLDER,
    results: Sequence[Path] = (),
    hardware: str = "",
    mix_with: str = "",
    share: float = 0.5,
) -> Path:
    """Write the model folder `out` from the checkpoint (or run) that `spec` names. Returns the card's path.

    `results`: more folders written by `kernelwright eval`. With `mix_with`, the model that this one was trained from, every weight
    is `share` of the checkpoint's plus the rest of that model's: this keeps most of what a small corpus taught, and loses less of
    earlier training (Wortsman et al. 2022, arXiv 2109.01903). Raises UserError for an adapter, a model without a tokenizer,
    weights of more than 32 MiB, and two models with different sizes or tokens.
    """
    from kernelwright.policy.hf import model_folder

    checkpoint = Path(model_folder(spec))
    other = Path(model_folder(place_of(mix_with))) if mix_with else None
    if not checkpoint.is_dir():
        raise UserError(
            f"ship: {spec} is not a folder; name a checkpoint, such as RUN/stages/midend/checkpoint"
        )
    if not (checkpoint / "config.json").exists():
        raise UserError(f"ship: {checkpoint} holds an adapter; merge it into its base model first")
    tensors = _to_bfloat16(_tensors(checkpoint) if other is None else _mix(checkpoint, other, share))
    count = sum(tensor.numel() for tensor in tensors.values())
    if 2 * count > MOST:
        raise UserError(
            f"ship: {count / 1e6:.1f} M parameters are {2 * count / 2**20:.1f} MiB in bfloat16; a packaged model has at "
            "most 32 MiB: train a smaller one (model.hidden_size, model.layers)"
        )
    from safetensors.torch import save_file

    with new_folder(out) as staging:
        save_file(tensors, staging / "model.safetensors", metadata={"format": "pt"})
        (staging / "model.safetensors").chmod(0o644)
        config = {**_json(checkpoint / "config.json"), "dtype": "bfloat16"}
        write_text(staging / "config.json", json.dumps(config, indent=2) + "\n")
        for name in (*_TOKENIZER, "generation_config.json"):
            if (checkpoint / name).exists():
                shutil.copyfile(checkpoint / name, staging / name)
        cards = [other / name for name in ("MODEL_CARD.md", "BEGAN_WITH.md")] if other is not None else []
        if before := [card.read_text(encoding="utf-8") for card in cards if card.exists()]:
            write_text(staging / "BEGAN_WITH.md", "\n".join(before))
        card = _card(
            checkpoint, config, staging / "model.safetensors", count, results, hardware, other, share
        )
        write_text(staging / "MODEL_CARD.md", card)
    return out / "MODEL_CARD.md"


def _tensors(checkpoint: Path) -> dict[str, Any]:
    """The weights unchanged, tied ones only once."""
    from safetensors.torch import load_file

    tensors: dict[str, Any] = {}
    for path in sorted(checkpoint.glob("*.safetensors")):
        tensors |= load_file(path)
    if not tensors:
        raise UserError(f"ship: {checkpoint} holds no weights (*.safetensors); name a finished checkpoint")
    if _json(checkpoint / "config.json").get("tie_word_embeddings"):
        tensors.pop("lm_head.weight", None)
    return tensors


def _mix(checkpoint: Path, other: Path, share: float) -> dict[str, Any]:
    """`share` of the checkpoint's weights plus the rest of the other's, in single precision."""
    one, two = _tensors(checkpoint), _tensors(other)
    if {name: tensor.shape for name, tensor in one.items()} != {
        name: tensor.shape for name, tensor in two.items()
    }:
        raise UserError(
            f"ship: {checkpoint} and {other} differ in their sizes; mix a model with what it came from"
        )
    vocabularies = [_json(folder / "tokenizer.json").get("model") for folder in (checkpoint, other)]
    if vocabularies[0] != vocabularies[1]:
        raise UserError(
            f"ship: {checkpoint} and {other} have different tokens; mix a model with what it came from"
        )
    return {name: share * tensor.float() + (1 - share) * two[name].float() for name, tensor in one.items()}


def _to_bfloat16(tensors: dict[str, Any]) -> dict[str, Any]:
    """The weights in bfloat16."""
    import torch

    half = torch.bfloat16
    return {
        name: (tensor.to(half) if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in tensors.items()
    }


def _card(
    checkpoint: Path,
    config: dict[str, Any],
    weights: Path,
    count: int,
    results: Sequence[Path],
    hardware: str,
    other: Path | None,
    share: float,
) -> str:
    run, stage = _run_of(checkpoint)
    stages = STAGES[: STAGES.index(stage) + 1] if stage in STAGES else ()
    recipe = _json(run / "config.json") if run else {}
    evaluations = _evaluations(run, stages, results)
    shape = (
        f"{config.get('num_hidden_layers', '?')}, {config.get('hidden_size', '?')}, "
        f"{config.get('num_attention_heads', '?')} ({config.get('num_key_value_heads', '?')} of keys and values)"
    )
    mixed_with = _digest(other) if other else ""
    base = recipe.get("model", {}).get("base")
    template = environment(__file__).get_template("model_card.md.jinja")
    card = template.render(
        name=f"Kernelwright {recipe.get('name', checkpoint.name)}",
        parameters=f"{count / 1e6:.2f} M",
        architecture=", ".join(config.get("architectures", ["a causal language model"])),
        version=__version__,
        shape=shape,
        context=config.get("max_position_embeddings", "?"),
        vocabulary=config.get("vocab_size", "?"),
        size=f"{weights.stat().st_size / 2**20:.1f} MiB",
        digest=_digest(weights.parent),
        stage=stage or "unknown",
        mixed_with=mixed_with,
        share=f"{share:.0%}",
        rest=f"{1 - share:.0%}",
        base="" if not base else mixed_with if other else _digest(Path(base)),
        data=_data(recipe, run),
        recipe=(
            f"Stages {', '.join(s for s in recipe['stages'] if s in stages)} with seed {recipe.get('seed', 0)}. "
            "Settings other than the defaults:"
            if recipe.get("stages")
            else "The checkpoint lies in no run folder: its recipe is not known."
        ),
        settings=_settings(recipe, stages),
        results=list(_results(evaluations, results)),
        operators=_operators(evaluations, f"held-out tasks, {stage}"),
        **_minutes_spent(run, stages, hardware),
    )
    return f"{card}\n"


def _minutes_spent(run: Path | None, stages: Sequence[str], hardware: str) -> dict[str, Any]:
    """The machine, and the minutes of each part that led to the checkpoint."""
    environment = _json(run / "environment.json") if run else {}
    seconds = {part: spent for part, spent in (_json(run / "seconds.json") if run else {}).items()
               if part in ("data", *stages)}  # fmt: skip
    machine = environment.get("machine", {})
    versions = ", ".join(f"{name} {number}" for name, number in environment.get("versions", {}).items())
    of_machine = hardware or f"{machine.get('cpus', '?')} CPUs ({machine.get('processor', 'unknown')})"
    minutes = seconds | ({"all": sum(seconds.values())} if len(seconds) > 1 else {})
    return {
        "hardware": f"{of_machine}. {versions}".strip(),
        "minutes": [(part, f"{spent / 60:.1f}") for part, spent in minutes.items()],
    }


def _digest(folder: Path) -> str:
    """Digest of a model's weights; empty if they no longer exist."""
    path = folder / "model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def _run_of(checkpoint: Path) -> tuple[Path | None, str]:
    """(run folder, stage) of RUN/stages/STAGE/checkpoint."""
    path = checkpoint.resolve()
    run = path.parents[2] if len(path.parents) > 2 else path
    if path.parent.parent.name == "stages" and (run / "config.json").exists():
        return run, path.parent.name
    return None, ""


def _data(recipe: dict[str, Any], run: Path | None) -> str:
    """Summary of the corpus that the run made or was given."""
    from kernelwright.data.card import summary

    given = recipe.get("data", {}).get("examples")
    card = _json((Path(given).parent if given else run / "data") / "card.json") if run else {}
    return summary(card) if card.get("pairs") else "No card of the data lies beside it."


def _settings(recipe: dict[str, Any], stages: Sequence[str]) -> str:
    """The recipe's settings that differ from defaults, as TOML, in the order of the stages. Paths are left out."""
    from kernelwright.config import Recipe

    usual = Recipe().model_dump(mode="json")
    lines: list[str] = []
    for table in ("model", "data", *(stage for stage in stages if stage in recipe.get("stages", ()))):
        values = recipe.get(table)
        if not isinstance(values, dict):
            continue
        lines.append(f"[{table}]")
        for key, value in values.items():
            path = key in ("examples", "tasks", "tokenizer", "base")
            if value != usual.get(table, {}).get(key) and value is not None and not path:
                lines.append(f"{key} = {_toml(value)}")
    return "\n".join(lines)


def _toml(value: Any) -> str:
    """A recipe's value on one line."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_toml(one)}" for key, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return json.dumps(value)


def _evaluations(run: Path | None, stages: Sequence[str], more: Iterable[Path]) -> list[tuple[str, Path]]:
    """The run's own evaluations, up to the shipped stage, and others; with names."""
    made = [run / "eval" / stage for stage in stages] if run else []
    own = [(f"held-out tasks, {path.name}", path) for path in made if path.is_dir()]
    return own + [(path.name, path) for path in more]


def _operators(evaluations: Iterable[tuple[str, Path]], own: str) -> list[str]:
    """Operators that the model was measured to write: at least two samples of graphs with them were judged, half of them correct.
    The model rung only asks for graphs of these (`search/model.py`). Of the run's evaluations only `own` is about these weights."""
    right, judged = Counter[str](), Counter[str]()
    for label, folder in evaluations:
        if label.startswith("held-out tasks, ") and label != own:
            continue
        for name, (good, all_) in _json(folder / "metrics.json").get("operators", {}).items():
            right[name] += good
            judged[name] += all_
    return [
        f"`{name}` {right[name]} of {count}"
        for name, count in sorted(judged.items())
        if count >= _TOLD and 2 * right[name] >= count
    ]


def _results(evaluations: Iterable[tuple[str, Path]], more: Iterable[Path]) -> Iterator[tuple[str, ...]]:
    """The rows of the table: one per evaluation."""
    for label, folder in evaluations:
        found, config = _json(folder / "metrics.json"), _json(folder / "config.json")
        if "correct_rate" not in found:
            if folder in more:
                raise UserError(
                    f"ship: {folder} holds no evaluation; name folders that kernelwright eval wrote"
                )
            continue
        suites = ", ".join(found.get("suites", ()))
        rate = "–" if found["correct_rate"] is None else f"{found['correct_rate']:.1%}"
        if found.get("correct_rate_ci"):
            rate += " [{:.1%}, {:.1%}]".format(*found["correct_rate_ci"])
        yield (
            f"{label}: {suites}" if suites else label,
            str(found["tasks"]),
            str(found["samples"]),
            str(config.get("temperature", "?")),
            f"{config.get('protocol', '?')}, {config.get('precision', 'default')}",
            rate,
            ", ".join(f"@{k} {rate:.0%}" for k, rate in found.get("pass_at_k", {}).items()),
            _times(found["speedup"].get("eager"), found.get("timing")),
            _times(found["speedup"].get(FASTER), found.get("timing")),
        )


def _times(speedup: dict[str, Any] | None, timing: str | None) -> str:
    """`1.50× [1.25, 1.75] modelled`."""
    if not speedup or speedup["geometric_mean"] is None:
        return "–"
    interval = " [{:.2f}, {:.2f}]".format(*speedup["ci"]) if speedup["ci"] else ""
    return f"{speedup['geometric_mean']:.2f}×{interval} {timing or ''}".strip()


def _json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty without the file. Raises UserError for other content."""
    return read_json(path) or {}
