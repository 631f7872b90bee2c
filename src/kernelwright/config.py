"""The training recipe: a typed TOML file, read with `key=value` overrides.

Every key has a type, a default and a meaning; errors (an unknown key, a wrong type, a missing file) are one line that names
the valid keys and the nearest match. Not checked here: whether a base model exists or fits in memory, which `train` checks
before its first step.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from kernelwright.errors import UserError
from kernelwright.models import place_of
from kernelwright.records import PrecisionName, ProtocolName

Stage = Literal["sft", "frontend", "midend", "backend"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Style = Literal["compact", "chat"]
Cut = Literal["words", "names"]
Kind = Literal["translate", "write", "repair", "improve"]
_OF_PRINTS = ("model", "clock")
"""Judges of a stage that accept only the library's prints."""


class Section(BaseModel):
    """A table of the recipe: frozen, no unknown keys, no silent conversions from text."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelConfig(Section):
    """The initial policy. `init = "random"` needs sizes, `init = "pretrained"` needs `base`."""

    init: Literal["random", "pretrained"] = "random"
    base: str = ""
    """`default` (the package's own model), a local folder or a hub name; with `init = "random"`, only its architecture is used."""
    hidden_size: int = Field(192, gt=0)
    layers: int = Field(4, gt=0)
    heads: int = Field(4, gt=0)
    kv_heads: int = Field(2, gt=0)
    head_dim: int = Field(48, gt=0, multiple_of=2)
    intermediate_size: int = Field(512, gt=0)
    context: int = Field(1024, gt=0)
    """Longest prompt plus completion, in tokens."""
    tie_embeddings: bool = True
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type in which weights are stored and trained."""
    autocast: bool = False
    """Compute matrix products in bfloat16. Useful on CPUs with AMX and on any recent GPU."""
    attention: Literal["", "sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention"] = ""
    """Attention of the update, by transformers' names; empty: its default, sdpa where possible. Flash attention needs the
    package flash-attn, and bfloat16."""
    gradient_checkpointing: bool = False
    """Store one activation per layer and recompute the others: less memory, a third more arithmetic."""

    @field_validator("base")
    @classmethod
    def _own(cls, base: str) -> str:
        return place_of(base)

    @model_validator(mode="after")
    def _base_or_sizes(self) -> ModelConfig:
        if self.init == "pretrained" and not self.base:
            raise ValueError(
                'init = "pretrained" needs a base: set model.base to default, a folder or hub name'
            )
        if self.heads % self.kv_heads:
            raise ValueError("heads must be a multiple of kv_heads")
        return self


class LoraConfig(Section):
    """Low-rank adapters instead of full training. `rank = 0` is off."""

    rank: int = Field(0, ge=0)
    alpha: int = Field(32, gt=0)
    dropout: float = Field(0.0, ge=0, lt=1)
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class DataConfig(Section):
    """The data that `data make` makes for this recipe, and where training finds it."""

    examples: str = ""
    """JSONL of Pair records; empty: `RUN/data/examples.jsonl`."""
    tasks: str = ""
    """JSONL of Task records without kernels, for the front end to practise on; empty: `RUN/data/tasks.jsonl`, or, without that
    file, the tasks of the training examples."""
    source: str = ""
    """A function of yours, `my_data.py:records`, that returns Task and Example records as the data; then no data is
    made."""
    tokenizer: str = ""
    """Folder of a saved tokenizer, for `init = "random"`; empty: `RUN/data/tokenizer`."""
    style: Style = "compact"
    """Style of prompts."""
    answer: Literal["plan+code", "plan"] = "plan+code"
    """Requested answer: plan and code, or only the plan, whose code the library's printer writes."""
    profile: bool = True
    """Later agents are shown the profile of the kernel that they are to improve."""
    think: bool = False
    """Supervised answers begin with reasons for their plan in think tags, printed from graph and schedule."""
    graphs: int = Field(300, ge=0)
    """Graphs to draw for pairs. This key and the following ones are those of `kernelwright.data.CorpusSettings`, which has more
    settings and explains them."""
    practice: int = Field(200, ge=0)
    catalogue: float = Field(0.25, ge=0, le=1)
    forms: tuple[str, ...] = ()
    """Forms of random graphs, such as `["map", "row"]`; none: all."""
    operators: tuple[str, ...] = ()
    """Operators of random graphs, such as `["add", "sum"]`; none: all."""
    ranks: tuple[int, ...] = ()
    """Dimensions of their arguments; none: 1 to 4."""
    reduced: tuple[int, ...] = ()
    """Dimensions that their reductions drop; none: any."""
    names: tuple[str, ...] = ()
    """Naming styles of their values, such as `["drawn"]`, by operator; none: all styles."""
    varied: float = Field(0.0, ge=0, le=1)
    """Share of graphs changed to resemble parts of modules."""
    most_operators: int = Field(12, ge=1)
    precisions: Mapping[PrecisionName, Annotated[float, Field(ge=0)]] = {}
    """Frequency of each precision, such as `{ ieee = 1 }`; none: the default of `CorpusSettings`."""
    schedules: int = Field(3, ge=1)
    judged: float = Field(1.0, ge=0, le=1)
    priced: bool = False
    faults: float = Field(0.4, ge=0)
    heldout: float = Field(0.08, ge=0, lt=1)
    vocab_size: int = Field(2048, ge=260)
    cut: Cut = "words"
    """How the tokenizer splits text. `names`: an operator is the same token everywhere, which helps small models to copy it."""
    max_tokens: int = Field(400, ge=0)


class SftConfig(Section):
    """Supervised fine-tuning; the loss is on completions only."""

    steps: int = Field(0, ge=0)
    """Optimizer steps; 0: as many as `epochs` gives."""
    epochs: float = Field(1.0, gt=0)
    seconds: float = Field(0.0, ge=0)
    """End at the latest after this many seconds of steps, with a rate that decays by time; 0: no limit. The first step, which
    compiles, is not counted."""
    batch: int = Field(16, gt=0)
    """Examples per step."""
    minibatch: int = Field(0, ge=0)
    """Examples per forward pass; 0: all of the step's."""
    learning_rate: float = Field(1e-3, gt=0)
    optimizer: Literal["adamw", "muon"] = "adamw"
    """`muon`: Muon for the matrices inside layers, at `matrix_rate`; AdamW for the rest, at `learning_rate`."""
    matrix_rate: float = Field(7e-3, gt=0)
    warmup: float = Field(0.05, ge=0, lt=1)
    """Share of the steps."""
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    save_every: int = Field(50, gt=0)
    """Steps between checkpoints."""
    log_every: int = Field(1, gt=0)
    """Steps per line of the curves. Each line synchronises with the GPU."""
    compile: bool = False
    """On a GPU, compile the model's layers with `torch.compile`: under a minute before the first step."""
    kinds: tuple[Kind, ...] = ("translate", "write", "repair", "improve")
    plans: bool = True
    """Whether completions begin with the plan. Without it, reinforcement rewards only the code."""
    near: float = Field(0.0, ge=0)
    """Learn plans only from kernels that take at most this many times the best known time of their graph; of slower ones, only the
    code given its plan. 0: learn all plans."""
    shares: Mapping[Kind, Annotated[float, Field(ge=0)]] = {}
    """Share of each kind's examples in an epoch, drawn anew each time, such as `{ repair = 0.3 }`; unnamed kinds: all
    examples."""
    eval_every: int = Field(200, ge=0)
    """Steps between evaluations on held-out examples, besides one at the end; 0: no evaluation, nothing held out."""
    eval_examples: int = Field(256, gt=0)
    """Most held-out examples."""
    eval_share: float = Field(0.02, ge=0, lt=1)
    """Share of operator graphs to hold out additionally if the validation split has fewer examples than that."""
    keep: Literal["last", "best"] = "last"
    """The weights that the stage passes on: those of its last step, or those of the evaluation with the least held-out loss,
    which comes before the model memorises. What was kept is in `stages/sft/kept.json`."""

    @model_validator(mode="after")
    def _best_of_some(self) -> SftConfig:
        if self.keep == "best" and not self.eval_every:
            raise ValueError(
                'keep = "best" compares held-out losses: set eval_every to the steps between them'
            )
        return self

    @model_validator(mode="after")
    def _whole_minibatches(self) -> SftConfig:
        if self.minibatch and self.batch % self.minibatch:
            raise ValueError(f"minibatch = {self.minibatch} does not divide batch = {self.batch}")
        return self


class RlConfig(Section):
    """One stage of reinforcement learning (GRPO) with the verifier as reward."""

    answer: Literal["", "plan+code", "plan"] = ""
    """Requested answer in this stage. `plan`: samples end with their plan, and the library's printer writes the code; also for a
    model that was trained to write both. Empty: `data.answer`."""
    reward: str = "wright"
    """Name of a preset in `kernelwright.rewards`, or a function of yours, `my_reward.py:reward` (docs/training.md)."""
    advantage: str = ""
    """A function of yours, `my_advantage.py:advantage`, in place of `scale`, `baseline`, `negatives` and `compare`."""
    steps: int = Field(10, gt=0)
    seconds: float = Field(0.0, ge=0)
    """As in `[sft]`: end at the latest after this many seconds of steps."""
    prompts: int = Field(4, gt=0)
    """Prompts per step."""
    samples: int = Field(8, ge=2)
    """Completions per prompt: the group whose mean is the baseline."""
    updates: int = Field(1, gt=0)
    """Weight updates per step, each on its share of the step's samples, drawn at random."""
    epochs: int = Field(1, gt=0)
    """Passes of a step over its samples."""
    minibatch: int = Field(0, ge=0)
    """Samples per forward pass; 0: all of the update's."""
    max_tokens: int = Field(400, gt=0)
    """Longest completion."""
    temperature: float = Field(1.0, gt=0)
    top_p: float = Field(1.0, gt=0, le=1)
    learning_rate: float = Field(1e-4, gt=0)
    optimizer: Literal["adamw", "muon"] = "adamw"
    """As in `[sft]`."""
    matrix_rate: float = Field(7e-4, gt=0)
    compile: bool = False
    """As in `[sft]`, for the update. It would also compile generation with the model's own modules: leave it off for that."""
    warmup: float = Field(0.0, ge=0, lt=1)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    beta: float = Field(0.0, ge=0)
    """Weight of the KL to the stage's initial model."""
    epsilon: float = Field(0.2, gt=0)
    """Half-width of the clipped probability ratio."""
    epsilon_high: float = Field(0.0, ge=0)
    """Upper half-width if different (DAPO's clip-higher); 0: `epsilon`."""
    loss: Literal["grpo", "dapo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo"] = "dapo"
    """The loss of a token and how losses are averaged, by TRL's names; equations in docs/training.md."""
    importance: Literal["token", "sequence"] = "token"
    """The probability ratio: per token, or the geometric mean over a row (GSPO: `grpo` with `sequence`)."""
    delta: float = Field(0.0, ge=0)
    """Upper bound of the ratio also for negative advantages (INTELLECT-2); 0: none."""
    entropy_share: float = Field(1.0, gt=0, le=1)
    """Train only on this share of the tokens, those with the highest entropy (arXiv 2506.01939)."""
    entropy_bonus: float = Field(0.0, ge=0)
    """Weight of the tokens' mean entropy as a bonus."""
    off_policy_mask: float = Field(0.0, ge=0)
    """Leave out rows with negative advantage whose mean log-ratio to the sampling policy exceeds this (DeepSeek-V3.2); 0:
    none."""
    unbiased_kl: bool = True
    """Weight each token's KL by its ratio, which makes the gradient unbiased (DeepSeek-V3.2). GRPO as published: false."""
    credit: Literal["hierarchical", "uniform"] = "hierarchical"
    """`hierarchical`: plan tokens get the plan's reward, code tokens the code's. `uniform`: all tokens get the sum."""
    alpha: float = Field(1.0, ge=0)
    """Weight of the plan's term (TritonRL found 0.1 best in its setting)."""
    thoughts: Literal["plan", "code", "both", "none"] = "plan"
    """The advantage of tokens in think tags: the plan's, the code's, their sum, or none. With `uniform` credit only `none`
    differs."""
    scale: Literal["std", "none", "batch"] = "std"
    """Divide advantages by the group's standard deviation, by nothing, or by the batch's."""
    baseline: Literal["mean", "leave_one_out"] = "mean"
    negatives: float = Field(1.0, ge=0, le=1)
    """Weight of negative advantages. Below 1, a step learns more from correct samples than from wrong ones."""
    grouping: Literal["samples", "plans"] = "samples"
    """`plans`: a plan gets the best reward of the samples with that plan, and code is compared among samples with the same plan,
    if there are several and they differ."""
    contrast: int = Field(0, ge=0, le=8)
    """Further kernels of the graph, fast and slow ones with times, shown to a later agent; from `verify.archive`."""
    best_of: int = Field(1, ge=1)
    """Reward a plan for what it adds to the best of this many samples of its group (max@k); 1: against the mean, as in GRPO. As
    many as `samples`: the leave-one-out maximum. Needs hierarchical credit."""
    entropy_floor: float = Field(0.0, ge=0)
    """Entropy, in nats per decision of the plan, below which plan tokens are also rewarded for being rare; 0: never."""
    entropy_gain: float = Field(0.1, ge=0)
    """Weight of that reward, at an entropy of 0."""
    kl_on: Literal["all", "code"] = "all"
    """Tokens whose KL `beta` penalises: all, or only those of the code, so that plans are free to change."""
    modal: bool = False
    """Learn only from the likely tokens of correct samples, and from the unlikely ones of wrong samples."""
    truncated: Literal["keep", "mask", "drop"] = "keep"
    """Truncated completions: trained on; left out of the loss but not of the baseline; left out of both."""
    save_every: int = Field(5, gt=0)
    families: tuple[str, ...] = ()
    """Train only on tasks of these families; empty: all."""
    dead_band: float = Field(0.0, ge=0, le=1)
    """Round speedups towards 1 in steps of this ratio: 0.05 takes 1.04 for 1 and 1.12 for 1.1025. For presets that reward
    the ratio directly; `wright` has its own band. 0: as measured."""
    refill: int = Field(0, ge=0, le=8)
    """Rounds in which prompts whose samples all have the same reward are replaced by others (DAPO's dynamic sampling)."""
    agreeing: Literal["keep", "drop"] = "keep"
    """Groups whose rewards are still equal: counted in the loss's average with advantage 0, or left out of it."""
    turns: int = Field(1, ge=1, le=8)
    """Answers per conversation: after each but the last, the verifier's message or the profile is appended."""
    gamma: float = Field(0.4, ge=0, le=1)
    """Share of the next answer's return that an answer gets (Kevin, arXiv 2507.11948)."""
    until_correct: bool = False
    """End a conversation at its first accepted kernel instead of asking for a faster one."""
    history: Literal["all", "answers"] = "all"
    """What a later turn sees of earlier answers: everything, a conversation being one row in training; or everything but
    thoughts, each turn being its own row (Kevin). Needs turns."""
    compare: Literal["turn", "prompt"] = "turn"
    """Returns are compared within the same turn, or over all turns of the prompt's samples."""
    curriculum: Literal["shuffle", "difficulty", "success"] = "shuffle"
    """How prompts are drawn: each once in random order; easy tasks first, reaching all at half of the steps; or more often the
    closer their success rate so far is to one half."""
    weights: Mapping[str, Annotated[float, Field(ge=0)]] = {}
    """Mixture of task families, such as `{ norm = 2.0, scan = 0.5 }`; unnamed families weigh 1."""
    difficulties: Mapping[
        Annotated[str, Field(pattern=r"^\d+(-\d+|\+)?$")], Annotated[float, Field(ge=0)]
    ] = {}
    """Mixture of task difficulties, as shares of the draws, such as `{ "1" = 0.6, "2-4" = 0.3, "5+" = 0.1 }`; unnamed ones are
    not drawn. Empty: no mixture. What was drawn is in `curves.jsonl`."""
    start: str = ""
    """Initial model of the stage: `model` (that of [model]), the name of an earlier stage, a folder or a hub name. Empty: the
    previous stage, or [model] for the first."""
    judge: Literal["", "interpret", "values", "model", "cuda", "clock"] = ""
    """Backend of the verifier in this stage. `values`: on CPU cores, without binaries or times, for rewards without times.
    For answers that are only a plan (`answer`), whose code the printer writes: `clock`: on a GPU, values at full size and the
    time, several times as many verdicts; or `model`: on CPU cores, values at one small size and the modelled time, in a quarter of
    the time. Empty: `verify.backend`."""
    judged: float = Field(1.0, ge=0, le=1)
    """Judge only this share of the samples whose code equals the library's print of their plan; the others count as correct once
    one of their kind was (`train.printers_word`). Only for rewards without times, `judge = "values"`."""
    deadline_s: float = Field(0.0, ge=0)
    """Most seconds per verification in this stage, since a step waits for its slowest. 0: `verify.deadline_s`."""
    timing_precision: float = Field(0.0, ge=0, le=0.2)
    """As `verify.timing_precision`, for this stage: timing occupies the GPU, and rewards need less precision. 0: that one."""
    eval_every: int = Field(0, ge=0)
    """Steps between evaluations on the held-out tasks of `[eval]` while the front end trains, besides one at the end; 0: none.
    Results are in `curves.jsonl` and in the trackers."""
    keep: Literal["last", "best"] = "last"
    """The weights that the stage passes on: those of its last step, or those of the evaluation with the most correct samples."""
    staleness: int = Field(0, ge=0, le=4)
    """Steps that sampling runs ahead of the update, while earlier steps are verified and trained on, turns and refills
    included; the probability ratio to the older sampling policy corrects for the difference. 0: each step is sampled, verified and
    trained on before the next."""

    @model_validator(mode="after")
    def _whole_minibatches(self) -> RlConfig:
        total = self.prompts * self.rows
        if total % self.updates:
            raise ValueError(f"updates = {self.updates} does not divide a step's {total} rows")
        if self.minibatch and (total // self.updates) % self.minibatch:
            raise ValueError(
                f"minibatch = {self.minibatch} does not divide an update's {total // self.updates} rows"
            )
        if self.history == "answers" and self.turns == 1:
            raise ValueError('history = "answers" is about later turns: set turns to 2 or more')
        if self.difficulties and self.curriculum == "difficulty":
            raise ValueError(
                'difficulties fixes the mixture that curriculum = "difficulty" changes: set one of them'
            )
        if self.best_of > 1 and self.credit != "hierarchical":
            raise ValueError('best_of is about plans: set credit = "hierarchical"')
        if self.best_of > self.samples:
            raise ValueError(f"best_of = {self.best_of} is more than samples = {self.samples}")
        if self.grouping == "plans" and (self.compare == "prompt" or self.credit == "uniform"):
            raise ValueError('grouping = "plans" needs credit = "hierarchical" and compare = "turn"')
        if self.loss == "cispo" and self.epsilon_high < 1:
            raise ValueError(
                'loss = "cispo" clips the ratio itself at epsilon_high: set it above 1, such as 5.0'
            )
        if self.loss == "luspo" and self.importance == "token":
            raise ValueError('loss = "luspo" is about whole rows: set importance = "sequence"')
        if self.delta and self.delta <= 1 + (self.epsilon_high or self.epsilon):
            raise ValueError("delta bounds ratios beyond the clip: set it above 1 + epsilon_high")
        if self.keep == "best" and not self.eval_every:
            raise ValueError('keep = "best" compares evaluations: set eval_every to the steps between them')
        if self.staleness and self.top_p < 1:
            raise ValueError("staleness needs the log-probs of what was sampled from: set top_p = 1")
        return self

    @property
    def updates_per_step(self) -> int:
        return self.updates * self.epochs

    @property
    def rows(self) -> int:
        """Training rows per prompt: its samples, or each turn of each sample."""
        return self.samples * (self.turns if self.history == "answers" else 1)


class GenerationConfig(Section):
    """What generates the samples of reinforcement learning."""

    engine: Literal["own", "vllm-colocate", "vllm-server"] = "own"
    """`own`: in this process, with the trained weights. `vllm-colocate`: vLLM on the training GPUs. `vllm-server`: a running
    `trl vllm-serve` on its own GPUs."""
    rows: int = Field(0, ge=0)
    """Sequences that `own` decodes at once; 0: what memory allows on a GPU, 64 elsewhere."""
    server: str = ""
    """The server's address, such as `http://localhost:8000`."""
    memory_share: float = Field(0.3, gt=0, lt=1)
    """Share of the GPU's memory that a colocated vLLM may take."""
    tensor_parallel: int = Field(1, gt=0)
    sleep: bool = True
    """Whether a colocated vLLM frees its GPU memory during the update. No effect on a CPU."""
    correction: Literal[
        "off",
        "token_truncate",
        "token_mask",
        "sequence_truncate",
        "sequence_mask",
        "geometric_truncate",
        "geometric_mask",
    ] = "sequence_mask"
    """Correction of tokens to which vLLM gave another probability than the trainer: none; weight them by the ratio of the two,
    clipped to its bounds; or mask them outside the bounds. Per token, by the product over a row, or by its geometric mean."""
    correction_max: float = Field(3.0, gt=0)
    correction_min: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _has_server(self) -> GenerationConfig:
        if self.engine == "vllm-server" and not self.server.startswith(("http://", "https://")):
            raise ValueError(
                'engine = "vllm-server" needs its address: set generation.server to http://HOST:PORT'
            )
        return self


class EvalConfig(Section):
    """The evaluation after each stage."""

    suite: str = "heldout"
    """A suite, or `heldout`: the tasks of examples with `split = "heldout"`."""
    samples: int = Field(4, gt=0)
    """Completions per task."""
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: int = Field(400, gt=0)
    limit: int = Field(0, ge=0)
    """Most tasks to evaluate on; 0: all."""


class VerifyConfig(Section):
    judge: str = ""
    """Addresses of `kernelwright serve`, separated by commas: candidates are judged there, under that server's rules; or `ray`,
    `ray://HOST:PORT`: on all machines of that cluster. Empty: judged on this machine."""
    workers: int = Field(2, gt=0)
    backend: Literal["auto", "interpret", "cuda"] = "auto"
    protocol: ProtocolName = "strict"
    target: str = "h200"
    devices: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """GPUs to judge on, by index; default: all. If there are several, train on others."""
    compiled: bool = False
    """Also time torch.compile, once per task: some ten seconds each."""
    archive: str = ""
    """An archive of judged kernels (`kernelwright archive`): kernels that it has for the target are not judged again."""
    recorded: Literal["", "modelled", "measured"] = ""
    """Take times of this kind only from the archive and judge nothing, so that recorded times replay for ablations. Kernels that
    the archive lacks have no reward."""
    priced: bool = True
    """Without a GPU, also compile correct kernels for the target and model their time."""
    printed: bool = False
    """Only for kernels written by the library's printer: checks values (on a GPU at full size, else at one small size) and the
    time; no checks against cheating."""
    precision: PrecisionName = "default"
    """Precision of tasks: default (PyTorch's default flags), ieee, tf32, bf16 or fp16."""
    timing_precision: float = Field(0.01, ge=0.001, le=0.2)
    """Timing ends when half the 95 % interval is at most this share of the time."""
    deadline_s: float = Field(30.0, gt=0)
    """Most seconds per verification, compilation included; then the candidate has timed out."""


class Recipe(Section):
    """One training run. See `recipes/laptop.toml` for a commented example."""

    name: str = "recipe"
    seed: int = 0
    stages: tuple[Stage, ...] = Field(default=("sft", "frontend", "midend"), min_length=1)
    threads: int = Field(0, ge=0)
    """Threads of torch's CPU arithmetic; 0: torch's default."""
    compact_checkpoints: bool = False
    """Round weights and optimizer states to bfloat16 at every checkpoint, also in the running process, so that a resumed run is
    identical: a third of the size, and a small error per checkpoint."""
    report_to: tuple[Literal["wandb", "tensorboard", "trackio"], ...] = ()
    """Trackers that a run reports to: losses by TRL's names, and the figures of curves.jsonl under `kernelwright/`."""
    model: ModelConfig = ModelConfig()
    lora: LoraConfig = LoraConfig()
    data: DataConfig = DataConfig()
    sft: SftConfig = SftConfig()
    frontend: RlConfig = RlConfig()
    midend: RlConfig = RlConfig()
    backend: RlConfig = RlConfig()
    generation: GenerationConfig = GenerationConfig()
    eval: EvalConfig = EvalConfig()
    verify: VerifyConfig = VerifyConfig()

    @model_validator(mode="after")
    def _in_order(self) -> Recipe:
        order = [STAGES.index(stage) for stage in self.stages]
        if order != sorted(set(order)):
            raise ValueError(f"stages must come once each and in the order {', '.join(STAGES)}")
        for place, stage in enumerate(self.stages):
            if stage in ("midend", "backend") and self.rl(stage).eval_every:
                raise ValueError(
                    f"{stage}.eval_every: later agents are measured on the kernels of an evaluation before them; "
                    "set it for the frontend alone"
                )
            if stage != "sft" and self.rl(stage).judge in _OF_PRINTS and self.answer(stage) != "plan":
                raise ValueError(
                    f'{stage}.judge = "{self.rl(stage).judge}" is for printed kernels; set {stage}.answer = "plan"'
                )
            if stage != "sft" and self.rl(stage).judged < 1 and self.rl(stage).judge != "values":
                raise ValueError(
                    f'{stage}.judged: a print has no time before it is judged; set {stage}.judge = "values"'
                )
            start = "" if stage == "sft" else self.rl(stage).start
            if start in STAGES and start not in self.stages[:place]:
                earlier = ", ".join(("model", *self.stages[:place]))
                raise ValueError(
                    f"{stage}.start = {start!r} is not a stage before it; set one of {earlier}, or a folder"
                )
        return self

    def rl(self, stage: str) -> RlConfig:
        """The settings of one of the reinforcement stages."""
        assert stage in ("frontend", "midend", "backend"), stage
        config: RlConfig = getattr(self, stage)
        return config

    def answer(self, stage: str) -> Literal["plan+code", "plan"]:
        """The answer that a reinforcement stage asks for."""
        return self.rl(stage).answer or self.data.answer

    def examples_in(self, run: Path) -> Path:
        """The file of training examples for the run folder `run`."""
        return Path(self.data.examples or run / "data" / "examples.jsonl")

    def tasks_in(self, run: Path) -> Path:
        """The file of its practice tasks, which may not exist."""
        return Path(self.data.tasks or run / "data" / "tasks.jsonl")

    def judging(self, stage: str) -> VerifyConfig:
        """The judge's settings in a reinforcement stage."""
        rl = self.rl(stage)
        named = {"values": "interpret", "model": "interpret", "clock": "cuda", "": self.verify.backend}
        chosen = {
            "backend": named.get(rl.judge, rl.judge),
            "printed": rl.judge in _OF_PRINTS,
            "priced": self.verify.priced and rl.judge != "values",
            "deadline_s": rl.deadline_s or self.verify.deadline_s,
            "timing_precision": rl.timing_precision or self.verify.timing_precision,
        }
        return self.verify.model_copy(update=chosen)


def load_recipe(path: Path | str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply `key=value` overrides, such as `frontend.steps=4` or `model.base="a/b"`.

    Raises UserError, one line, for an unreadable file, bad TOML, an unknown key or a value of a wrong type.
    """
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"recipe {path} does not exist; the ones that ship are in recipes/") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"recipe {path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"recipe {path} is not TOML: {error}") from None
    table.setdefault("name", path.stem)
    for override in overrides:
        apply_override(table, override)
    return parse_recipe(table, where=str(path))


def parse_recipe(table: Mapping[str, Any], where: str = "recipe") -> Recipe:
    """Validate a table. Raises UserError for the first error."""
    try:
        # Through JSON, since strict mode there still accepts an array as a tuple and a whole number as a float.
        return Recipe.model_validate_json(json.dumps(table, default=str))
    except ValidationError as error:
        raise UserError(f"{where}: {complaint(error, Recipe)}") from None


def apply_override(table: dict[str, Any], override: str) -> None:
    """Set one dotted key in `table`. The value is TOML; anything else is taken as a string."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UserError(f"override {override!r} is not key=value, such as frontend.steps=4")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = [part.strip() for part in key.split(".")]
    for part in parents:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UserError(f"override {override!r}: {part} is a value, not a table of keys")
    table[last] = value


def complaint(error: ValidationError, model: type[BaseModel]) -> str:
    """The first of pydantic's errors about a `model`; for an unknown key, with the valid keys and the nearest."""
    first = error.errors()[0]
    location = tuple(str(part) for part in first["loc"])
    name = ".".join(location)
    if first["type"] == "extra_forbidden":
        valid = sorted(_section(model, location[:-1]).model_fields)
        near = difflib.get_close_matches(location[-1], valid, n=1)
        hint = f"; did you mean {'.'.join((*location[:-1], near[0]))}?" if near else ""
        return f"unknown key {name}{hint} (valid: {', '.join(valid)})"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return f"{name}: {message}" if name else message
    return f"{name} = {_short(first['input'])}: {message}"


def _section(model: type[BaseModel], location: tuple[str, ...]) -> type[BaseModel]:
    """The model whose keys are at `location` inside another."""
    for part in location:
        annotation = model.model_fields[part].annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        model = annotation
    return model


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
