"""Estimates memory, steps, tokens and device time of a recipe before it runs, stage by stage.

Weights are counted exactly, on a model on the `meta` device; the rest are formulas, whose assumptions are stated in
`ASSUMPTIONS` and shown with the figures. Memory is per process. Not covered: fragmentation, and the verifier's memory
on the same GPU. Nothing is downloaded and no weights are allocated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kernelwright import hardware
from kernelwright.config import Kind, Recipe, Stage
from kernelwright.errors import UserError
from kernelwright.records import Supervised, read_supervised
from kernelwright.synth.ranking import target_here
from kernelwright.train.architectures import known_architecture
from kernelwright.train.processes import count as process_count
from kernelwright.train.processes import split as splits
from kernelwright.train.prompts import read_tasks

GPU_GB = {"b200": 180, "h200": 141, "h100": 80, "a100": 80, "l40s": 48, "mi300x": 192}
"""GPU memory in 1e9 bytes, from the vendors' data sheets."""
UTILISATION, BANDWIDTH = 0.27, 0.5
"""Shares of peak FLOP/s (training: LoRA steps of 8 B on an H100, benchmarks/trainer_8b.py) and of bandwidth (generation)."""
TOKENS_S, COMPILED_TOKENS_S, STEP_S, MODULE_STEP_S = 6.5e5, 1.4e6, 2e-3, 0.05
SAMPLED = 256
"""Examples that are tokenized to estimate their mean length."""
CPU_TRAIN, CPU_GENERATE = 6e10, 9e9
VERIFY_S = {"cuda": 1.5, "interpret": 1.0}
VERDICTS_S = 3.6
"""Most kernels that one GPU verifies per second, for any number of workers (H200, sixteen workers)."""
HOST = 8
"""GPUs per machine."""
SCALES = (1, 8, 32)
"""Numbers of GPUs that are compared."""
SLOTS_SHARE = 8
"""The generator gets slots beside the whole copy of a split model if that copy takes at most 1 / this of a GPU's memory."""
HEAD_TOKENS, HEAD_COLUMNS = 4096, 32768
"""The tile of logits that TRL's fused head computes at a time."""
ASSUMPTIONS = (
    f"a GPU trains at {UTILISATION:.0%} of its bf16 peak and at most {TOKENS_S / 1e6:.2g} M tokens/s, "
    f"{COMPILED_TOKENS_S / 1e6:.2g} M with sft.compile, and generates at "
    f"{BANDWIDTH:.0%} of its memory bandwidth, {STEP_S * 1e3:.0f} ms a token at least ({MODULE_STEP_S * 1e3:.0f} without "
    "vLLM for other architectures than Qwen3); two CPU cores do "
    f"{CPU_TRAIN:.0e} FLOP/s in training and {CPU_GENERATE:.0e} in generation; a kernel takes a worker "
    f"{VERIFY_S['cuda']} s to verify on a GPU, of which one does {VERDICTS_S} a second at most, and "
    f"{VERIFY_S['interpret']} s in the interpreter; every answer is as long as it may be; of the logits a tile is there at a "
    "time"
)
_BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Device:
    """Where training would run. `target` is None on a CPU."""

    name: str
    bytes: int
    target: hardware.Target | None = None


@dataclass(frozen=True)
class Model:
    """Sizes of the policy. `trained` is the number of weights with gradients."""

    name: str
    source: str
    weights: int
    trained: int
    matrices: int
    """Trained weights in matrices inside layers, for which Muon stores one moment instead of two."""
    layers: int
    hidden: int
    per_token: int
    """Numbers per token that a layer keeps for the backward pass."""
    cache_per_token: int
    """Bytes of keys and values per token of a sequence."""
    vocab: int
    fused: bool
    """Whether the in-process generator's own decoder supports it; else every module is called from Python."""


@dataclass(frozen=True)
class Epoch:
    """One epoch of SFT: examples by kind, and their length in tokens."""

    examples: dict[str, int]
    length: float
    measured: bool
    """Whether `length` is the mean of a sample of examples, rather than the maximum."""

    @property
    def count(self) -> int:
        return sum(self.examples.values())

    @property
    def tokens(self) -> int:
        return round(self.count * self.length)


@dataclass(frozen=True)
class StageEstimate:
    """One stage: memory in bytes by purpose, and work summed over all its steps."""

    stage: Stage
    steps: int
    samples: int
    trained_tokens: int
    generated_tokens: int
    memory: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    epoch: Epoch | None = None

    staleness: int = 0

    @property
    def total_s(self) -> float:
        """Seconds of the stage. Phases run in sequence, but with `staleness` verification overlaps with the others."""
        if self.staleness and "verify" in self.seconds:
            rest = sum(spent for phase, spent in self.seconds.items() if phase != "verify")
            return max(rest, self.seconds["verify"])
        return sum(self.seconds.values())

    @property
    def bound(self) -> str:
        """The longest phase."""
        return max(self.seconds, key=lambda phase: self.seconds[phase])

    @property
    def bytes(self) -> int:
        """Peak bytes. Generation and update take turns, but a generator with its own copy of the weights keeps it and its cache
        during the update."""
        held = sum(self.memory.get(name, 0) for name in ("weights", "gradients", "optimizer", "whole copy"))
        together = self.memory["activations"] + self.memory.get("vllm", 0)
        cache, copied = self.memory.get("KV cache", 0), self.memory.get("generator", 0)
        return held + (together + cache + copied if copied else max(together, cache))


@dataclass(frozen=True)
class Estimate:
    """The whole recipe on one device; `problems` are reasons why it would not run."""

    model: Model
    device: Device
    processes: int
    data: str
    stages: tuple[StageEstimate, ...]
    problems: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return sum(stage.total_s for stage in self.stages)


def estimate(recipe: Recipe, out: Path, on: str = "here") -> Estimate:
    """The estimate for `recipe` in the run folder `out`, `on` this machine or a target of `hardware.TARGETS`, for the number
    of processes that the launcher started.

    Raises UserError for an unknown target or a base whose sizes are unknown.
    """
    parts = device_named(on), measure(recipe), *_data(recipe, out)
    processes = process_count()
    split = processes if splits() else 1
    return _estimate(recipe, *parts, processes, split)


def estimate_by_gpus(recipe: Recipe, out: Path, on: str) -> list[tuple[str, Estimate]]:
    """(launch mode, estimate) for each number of GPUs in `SCALES`: whole models if they fit, else split by FSDP2."""
    parts = device_named(on), measure(recipe), *_data(recipe, out)
    made = []
    for count in SCALES:
        whole = _estimate(recipe, *parts, count, 1)
        held = any(stage.bytes > whole.device.bytes for stage in whole.stages)
        if count > 1 and held:
            made.append(("fsdp2", _estimate(recipe, *parts, count, count)))
        else:
            made.append(("ddp" if count > 1 else "one process", whole))
    return made


def _estimate(
    recipe: Recipe, device: Device, model: Model, epoch: Epoch, data: str, processes: int, split: int
) -> Estimate:
    stages = tuple(
        _sft(recipe, model, device, epoch, processes, split)
        if stage == "sft"
        else _rl(recipe, stage, model, device, processes, split)
        for stage in recipe.stages
    )
    problems = [
        f"{name} = {number} cannot be shared by {processes} processes: make it a multiple of {processes}"
        for stage in recipe.stages
        for name, number in [_split_part(recipe, stage)]
        if number % processes
    ]
    problems += [
        f"{stage.stage} needs {gb(stage.bytes)} of the {gb(device.bytes)} of {device.name}: {_fix(recipe, stage)}"
        for stage in stages
        if stage.bytes > device.bytes
    ]
    return Estimate(model, device, processes, data, stages, tuple(problems))


def _split_part(recipe: Recipe, stage: Stage) -> tuple[str, int]:
    """The setting of a stage that is divided among processes, with its value."""
    return (
        ("sft.batch", recipe.sft.batch) if stage == "sft" else (f"{stage}.prompts", recipe.rl(stage).prompts)
    )


def check_fits(recipe: Recipe, stage: str) -> None:
    """Raises UserError if weights, gradients and optimizer alone exceed this machine's memory.

    A base whose sizes are not known locally is not checked: its config is downloaded with its weights.
    """
    base = recipe.model.base
    if base and known_architecture(base) is None and not (Path(base) / "config.json").exists():
        return
    device, model = device_named("here"), measure(recipe)
    split = process_count() if splits() else 1
    sure = _resident_bytes(recipe, model, stage, split)
    if sum(sure.values()) > device.bytes:
        raise UserError(
            f"{stage}: {', '.join(f'{name} {gb(size)}' for name, size in sure.items())} do not fit in the "
            f"{gb(device.bytes)} of {device.name}; train fewer weights with lora.rank, set model.dtype = "
            '"bfloat16", or use a larger device (see --dry-run)'
        )


def device_named(on: str) -> Device:
    """This machine's first GPU or, without one, its main memory; or a target by name."""
    if on != "here":
        target = hardware.target(on)
        return Device(on, int(GPU_GB[on] * 1e9), target)
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        return Device(properties.name, properties.total_memory, hardware.target(target_here()))
    return Device("this machine's CPU", hardware.memory()[1])


def measure(recipe: Recipe) -> Model:
    """Sizes of the recipe's model, from a copy on torch's `meta` device."""
    from transformers import AutoModelForCausalLM

    from kernelwright.train.model import adapters, architecture_of, parameters

    config = architecture_of(recipe.model, recipe.data.vocab_size)
    with torch.device("meta"):
        made: Any = AutoModelForCausalLM.from_config(config)
        weights = trained = parameters(made)
        lora = adapters(recipe.lora)
        if lora is not None:
            from peft import get_peft_model

            made = get_peft_model(made, lora)
            trained = sum(p.numel() for p in made.parameters() if p.requires_grad)
            weights += trained
    inner = sum(
        p.numel()
        for name, p in made.named_parameters()
        if p.requires_grad and p.ndim == 2 and ".layers." in name
    )
    heads, kv = config.num_attention_heads, config.num_key_value_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    kept = 6 * config.hidden_size + (3 * heads + 4 * kv) * dim + 4 * config.intermediate_size
    return Model(
        name=recipe.model.base or f"{config.model_type} of the recipe's sizes",
        source=_source(recipe),
        weights=weights,
        trained=trained,
        matrices=inner,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        per_token=kept,
        cache_per_token=2 * config.num_hidden_layers * kv * dim * _compute_bytes(recipe),
        vocab=config.vocab_size,
        fused=config.model_type == "qwen3",
    )


def gb(size: float) -> str:
    """Bytes as readable text."""
    return f"{size / 1e9:.3g} GB" if size >= 1e8 else f"{size / 1e6:.3g} MB"


def _resident_bytes(recipe: Recipe, model: Model, stage: str, share: int) -> dict[str, int]:
    """Bytes held during a whole stage in each of the `share` processes that FSDP splits it among. Adapters are float32, whatever
    the base is."""
    each = 4 if recipe.lora.rank else _BYTES[recipe.model.dtype]
    frozen = (model.weights - model.trained) * _BYTES[recipe.model.dtype]
    chosen = recipe.sft.optimizer if stage == "sft" else recipe.rl(stage).optimizer
    moments = 2 * model.trained - (model.matrices if chosen == "muon" else 0)
    return {
        "weights": (frozen + model.trained * each) // share,
        "gradients": model.trained * each // share,
        "optimizer": moments * each // share,
    }


def _activations(recipe: Recipe, model: Model, rows: int, length: int, scored: int) -> int:
    """Bytes of activations for `rows` sequences of `length` tokens, of which the fused head scores `scored`. It stores no
    logits, but float32 gradients of its input, and of its weights if they are trained."""
    each = _compute_bytes(recipe)
    layer = model.per_token * each
    kept = model.layers * model.hidden * each + layer
    if not recipe.model.gradient_checkpointing:
        kept = model.layers * layer
    tile = min(rows * scored, HEAD_TOKENS) * min(model.vocab, HEAD_COLUMNS) * each
    head = rows * scored * model.hidden * 4 + (0 if recipe.lora.rank else model.vocab * model.hidden * 4)
    return rows * length * kept + tile + head


def _copies(recipe: Recipe, model: Model, device: Device, split: int) -> dict[str, int]:
    """Copies of the weights for the generator: a whole one if FSDP splits them, and that of the slots unless it is large."""
    own = (model.weights - model.trained * bool(recipe.lora.rank)) * _compute_bytes(recipe)
    if split == 1:
        return {"generator": own}
    whole = model.weights * _BYTES[recipe.model.dtype]
    return {"whole copy": whole} | ({"generator": own} if SLOTS_SHARE * whole <= device.bytes else {})


def _gather(recipe: Recipe, model: Model, split: int) -> int:
    """What FSDP gathers to compute: a layer and the next, embedding and head, and their gradients if those are trained."""
    if split == 1:
        return 0
    ends = 2 * model.vocab * model.hidden
    layer = max(0, model.weights - ends) // model.layers
    kinds = 1 if recipe.lora.rank else 2
    return kinds * (2 * layer + ends) * _BYTES[recipe.model.dtype]


def _sft(
    recipe: Recipe, model: Model, device: Device, epoch: Epoch, processes: int, split: int
) -> StageEstimate:
    config, longest = recipe.sft, min(recipe.data.max_tokens or recipe.model.context, recipe.model.context)
    steps = config.steps or math.ceil(math.ceil(epoch.count / config.batch) * config.epochs)
    rows = min(config.minibatch or config.batch, max(1, config.batch // processes))
    samples = steps * config.batch
    if not config.steps:
        samples = min(samples, round(epoch.count * config.epochs))
    tokens = round(samples * epoch.length)
    memory = _resident_bytes(recipe, model, "sft", split) | {
        "activations": _activations(recipe, model, rows, longest, longest) + _gather(recipe, model, split)
    }
    limit = COMPILED_TOKENS_S if config.compile else TOKENS_S
    seconds = {"train": _train_seconds(recipe, model, device, tokens, limit) / processes}
    return StageEstimate("sft", steps, samples, tokens, 0, memory, seconds, epoch)


def _rl(
    recipe: Recipe, stage: Stage, model: Model, device: Device, processes: int, split: int
) -> StageEstimate:
    rl, context = recipe.rl(stage), recipe.model.context
    samples = rl.prompts * rl.samples
    length = min(context, rl.max_tokens * rl.turns + (context - rl.max_tokens))
    written = min(rl.max_tokens * rl.turns, length)
    total = rl.prompts * rl.rows
    rows = min(rl.minibatch or total, max(1, total // rl.updates // processes))
    scored = rl.max_tokens if rl.history == "answers" else written
    memory = _resident_bytes(recipe, model, stage, split) | {
        "activations": _activations(recipe, model, rows, length, scored) + _gather(recipe, model, split)
    }
    if rl.beta and not recipe.lora.rank:
        memory["weights"] *= 2
    mine = max(1, samples // processes)
    if recipe.generation.engine == "own":
        at_once = min(mine, recipe.generation.rows or (mine if device.target else 64))
        memory["KV cache"] = at_once * length * model.cache_per_token
        if model.fused and device.target:
            memory |= _copies(recipe, model, device, split)
    elif recipe.generation.engine == "vllm-colocate":
        memory["vllm"] = int(recipe.generation.memory_share * device.bytes)
        at_once = mine
    else:
        at_once = mine
    trained = rl.steps * rl.epochs * total * length
    generated = rl.steps * samples * written
    verdicts = rl.steps * samples * rl.turns * (1 + rl.refill)
    step = STEP_S if model.fused or recipe.generation.engine != "own" else MODULE_STEP_S
    backend = "cuda" if device.target and recipe.judging(stage).backend != "interpret" else "interpret"
    seconds = {
        "generate": _generate_seconds(model, device, written, at_once, length, mine, step)
        * rl.steps
        * (1 + rl.refill),
        "verify": _verify_seconds(recipe, verdicts, backend, processes),
        "train": _train_seconds(recipe, model, device, trained) / processes,
    }
    return StageEstimate(
        stage, rl.steps, rl.steps * samples, trained, generated, memory, seconds, staleness=rl.staleness
    )


def _verify_seconds(recipe: Recipe, verdicts: int, backend: str, processes: int) -> float:
    """Limited by the workers of all machines, and by their GPUs."""
    rate = recipe.verify.workers * math.ceil(processes / HOST) / VERIFY_S[backend]
    if backend == "cuda":
        rate = min(rate, VERDICTS_S * max(processes, len(recipe.verify.devices)))
    return verdicts / rate


def _train_seconds(
    recipe: Recipe, model: Model, device: Device, tokens: int, limit: float = TOKENS_S
) -> float:
    """FLOPs per weight and token: forward 2, gradients of activations 2, of weights 2; checkpointing 2 more. At most `limit`
    tokens per second."""
    frozen = model.weights - model.trained
    flops = tokens * (4 * frozen + 6 * model.trained)
    if recipe.model.gradient_checkpointing:
        flops += tokens * 2 * model.weights
    if device.target is None:
        return flops / CPU_TRAIN
    return max(flops / (UTILISATION * device.target.bf16_tflops * 1e12), tokens / limit)


def _generate_seconds(
    model: Model, device: Device, written: int, at_once: int, length: int, samples: int, least: float
) -> float:
    """Seconds for one step's samples, `at_once` rows at a time: each token reads the weights and the rows' caches, and
    takes at least `least` seconds."""
    waves = math.ceil(samples / at_once)
    if device.target is None:
        return waves * written * at_once * 2 * model.weights / CPU_GENERATE
    read = 2 * model.weights + at_once * model.cache_per_token * length / 2
    return waves * written * max(least, read / (BANDWIDTH * device.target.dram_gb_s * 1e9))


def _data(recipe: Recipe, out: Path) -> tuple[Epoch, str]:
    """(an epoch of SFT, a description of the data)."""
    path = recipe.examples_in(out)
    longest = float(min(recipe.data.max_tokens or recipe.model.context, recipe.model.context))
    if path.exists():
        splits: dict[str, int] = {}
        train: list[Supervised] = []
        for example in read_supervised(path):
            splits[example.split] = splits.get(example.split, 0) + 1
            if example.split == "train":
                train.append(example)
        counts = ", ".join(f"{count} {split}" for split, count in splits.items())
        kinds: dict[Kind, int] = {}
        for example in train:
            kinds[example.kind] = kinds.get(example.kind, 0) + 1
        measured = _mean_length(recipe, train, out)
        epoch = Epoch(_shares(recipe, kinds), measured or longest, measured is not None)
        return epoch, f"{path}: {counts or 'no examples'}"
    tasks = recipe.tasks_in(out)
    if "sft" not in recipe.stages and tasks.exists():
        return Epoch({}, longest, False), f"{tasks}: {len(read_tasks(tasks))} tasks to practise on"
    if recipe.data.examples:
        raise UserError(f"no examples at {path}; make them with kernelwright data make, or set data.examples")
    data = recipe.data
    made: dict[Kind, int] = {"write": data.graphs * data.schedules}
    made["improve"] = data.graphs * (data.schedules - 1) // 2
    made["repair"] = round(data.graphs * data.faults)
    return Epoch(_shares(recipe, made), longest, False), (
        f"to be made: about {sum(made.values())} pairs of {data.graphs} graphs, "
        f"{data.practice} tasks to practise on, {data.heldout:.0%} of the structures held out"
    )


def _shares(recipe: Recipe, kinds: Mapping[Kind, int]) -> dict[str, int]:
    """Examples of each kind in an epoch."""
    config = recipe.sft
    return {k: round(n * config.shares.get(k, 1.0)) for k, n in kinds.items() if k in config.kinds}


def _mean_length(recipe: Recipe, train: Sequence[Supervised], out: Path) -> float | None:
    """Mean tokens of an example in an epoch, from a sample; None without a tokenizer."""
    base = recipe.data.tokenizer or (recipe.model.base if recipe.model.init == "pretrained" else "")
    folder = Path(base or out / "data" / "tokenizer")
    if not folder.is_dir():
        return None
    from kernelwright.train.batches import tokenize_examples
    from kernelwright.train.model import load_tokenizer

    some = train[:: max(1, len(train) // SAMPLED)]
    rows = tokenize_examples(recipe, load_tokenizer(str(folder)), some)
    weights = [recipe.sft.shares.get(kind, 1.0) for kind in rows.kinds]
    if not sum(weights):
        return None
    return float(sum(w * n for w, n in zip(weights, rows.lengths, strict=True)) / sum(weights))


def _source(recipe: Recipe) -> str:
    """Where the weights come from, as far as is known offline."""
    base = recipe.model.base
    if recipe.model.init == "random":
        return "random weights"
    if Path(base).is_dir():
        return f"the folder {base}"
    from huggingface_hub import try_to_load_from_cache

    there = isinstance(try_to_load_from_cache(base, "config.json"), str)
    return "the hub's cache on this machine" if there else "the hub, to be downloaded"


def _fix(recipe: Recipe, stage: StageEstimate) -> str:
    """The change that would help most."""
    largest = max(stage.memory, key=lambda name: stage.memory[name])
    table = stage.stage
    if largest == "activations":
        return f"lower {table}.minibatch" + (
            "" if recipe.model.gradient_checkpointing else " or set model.gradient_checkpointing = true"
        )
    if largest == "KV cache":
        return "lower generation.rows"
    if largest == "vllm":
        return "lower generation.memory_share"
    return "set lora.rank" if not recipe.lora.rank else "use a smaller base or a larger device"


def _compute_bytes(recipe: Recipe) -> int:
    return 2 if recipe.model.autocast else _BYTES[recipe.model.dtype]
