"""The training recipe: a typed TOML file, read with `key=value` overrides.

Every key has a type, a default and a meaning; an unknown key, a wrong type or a missing file is one line
that names the valid keys and the nearest match. What is not guaranteed here: that a base model exists or
fits in memory, which `train` finds out before its first step.
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
"""Judges of a stage that take the library's prints alone."""


class Section(BaseModel):
    """A table of the recipe: frozen, no unknown keys, no silent conversions from text."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelConfig(Section):
    """Where the policy comes from. `init = "random"` needs sizes, `init = "pretrained"` needs `base`."""

    init: Literal["random", "pretrained"] = "random"
    base: str = ""
    """`default` (the package's own model), a local folder or a hub name; with `init = "random"`, its architecture alone."""
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
    """Of the weights as they are kept and trained."""
    autocast: bool = False
    """Compute matrix products in bfloat16. Worth it where the CPU has AMX, and on any recent GPU."""
    attention: Literal["", "sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention"] = ""
    """Attention of the update, by transformers' names; empty: its own choice, sdpa where it can. Flash attention needs the
    package flash-attn, and bfloat16."""
    gradient_checkpointing: bool = False
    """Keep one activation a layer and compute the others again: less memory, a third more arithmetic."""

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
    """What `data make` makes for this recipe, and where training looks for it."""

    examples: str = ""
    """JSONL of Pair records; empty: `RUN/data/examples.jsonl`."""
    tasks: str = ""
    """JSONL of Task records without kernels, for the front end to practise on; empty: `RUN/data/tasks.jsonl`, and
    where there are none the tasks of the training examples."""
    source: str = ""
    """A function of yours, `my_data.py:records`, that returns Task and Example records: they are the data, and nothing is
    made."""
    tokenizer: str = ""
    """Folder of a saved tokenizer, for `init = "random"`; empty: `RUN/data/tokenizer`."""
    style: Style = "compact"
    """How prompts are rendered."""
    answer: Literal["plan+code", "plan"] = "plan+code"
    """What is asked for: plan and code, or the plan alone, whose code the library's printer writes."""
    think: bool = False
    """Supervised answers begin with the reasons for their plan in think tags, printed from graph and schedule."""
    graphs: int = Field(300, ge=0)
    """Graphs to draw for pairs. This and what follows is read by `kernelwright.data.CorpusSettings`, which has more settings
    and says what they mean."""
    practice: int = Field(200, ge=0)
    catalogue: float = Field(0.25, ge=0, le=1)
    forms: tuple[str, ...] = ()
    """Of random graphs, such as `["map", "row"]`; none: all."""
    operators: tuple[str, ...] = ()
    """Of random graphs, such as `["add", "sum"]`; none: all."""
    ranks: tuple[int, ...] = ()
    """Of their arguments; none: 1 to 4."""
    reduced: tuple[int, ...] = ()
    """Dimensions that their reductions go over; none: any."""
    names: tuple[str, ...] = ()
    """How their values are named, such as `["drawn"]`, by operators; none: in all styles."""
    varied: float = Field(0.0, ge=0, le=1)
    """Share of the graphs that are made more like parts of modules."""
    most_operators: int = Field(12, ge=1)
    precisions: Mapping[PrecisionName, Annotated[float, Field(ge=0)]] = {}
    """How often each is drawn, such as `{ ieee = 1 }`; none: as `CorpusSettings` says."""
    schedules: int = Field(3, ge=1)
    judged: float = Field(1.0, ge=0, le=1)
    priced: bool = False
    faults: float = Field(0.4, ge=0)
    heldout: float = Field(0.08, ge=0, lt=1)
    vocab_size: int = Field(2048, ge=260)
    cut: Cut = "words"
    """Where the tokenizer cuts. `names`: an operator is one token wherever it stands, which small models can copy."""
    max_tokens: int = Field(400, ge=0)


class SftConfig(Section):
    """Supervised fine-tuning on the completions only."""

    steps: int = Field(0, ge=0)
    """Optimizer steps; 0 means `epochs` decides."""
    epochs: float = Field(1.0, gt=0)
    seconds: float = Field(0.0, ge=0)
    """End after so many seconds of steps at the latest, with a rate that falls by time; 0: never. The first step, which
    compiles, is not counted."""
    batch: int = Field(16, gt=0)
    """Examples a step."""
    minibatch: int = Field(0, ge=0)
    """Examples per forward pass; 0: all of a step's."""
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
    """Steps that a line of the curves is about. Each line waits for the GPU."""
    compile: bool = False
    """Compile the model's layers with `torch.compile` where there is a GPU: under a minute before the first step."""
    kinds: tuple[Kind, ...] = ("translate", "write", "repair", "improve")
    plans: bool = True
    """Whether completions begin with the plan. Without, reinforcement pays the code alone."""
    near: float = Field(0.0, ge=0)
    """Plans are learned from kernels that take at most so many times the best known of their graph; of slower ones the code alone,
    given its plan. 0: all plans alike."""
    shares: Mapping[Kind, Annotated[float, Field(ge=0)]] = {}
    """How much of each kind's examples an epoch goes through, drawn anew in each, such as `{ repair = 0.3 }`; a kind
    not named: all of them."""
    eval_every: int = Field(200, ge=0)
    """Steps between evaluations on examples that are held out, besides the one at the end; 0: none, nothing held out."""
    eval_examples: int = Field(256, gt=0)
    """At most so many of them."""
    eval_share: float = Field(0.02, ge=0, lt=1)
    """Share of the operator graphs to hold out besides, where the validation split has fewer examples than that."""
    keep: Literal["last", "best"] = "last"
    """Which weights the stage hands on: those of its last step, or those of the evaluation with the least held-out loss,
    which has to come before the model learns by heart. What was kept is in `stages/sft/kept.json`."""

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
    """What is asked for in this stage. `plan`: samples end with their plan, and the library's printer writes the code; a model that was
    trained to write both can be asked so, too. Empty: `data.answer`."""
    reward: str = "wright"
    """Name of a preset in `kernelwright.rewards`, or a function of yours, `my_reward.py:reward` (docs/training.md)."""
    advantage: str = ""
    """A function of yours, `my_advantage.py:advantage`, in place of `scale`, `baseline`, `negatives` and `compare`."""
    steps: int = Field(10, gt=0)
    seconds: float = Field(0.0, ge=0)
    """As in `[sft]`: end after so many seconds of steps at the latest."""
    prompts: int = Field(4, gt=0)
    """Prompts a step."""
    samples: int = Field(8, ge=2)
    """Completions of one prompt: the group whose mean is the baseline."""
    updates: int = Field(1, gt=0)
    """Updates of the weights that a step makes, each from its share of the step's samples, drawn at random."""
    epochs: int = Field(1, gt=0)
    """How often a step goes through its samples."""
    minibatch: int = Field(0, ge=0)
    """Samples per forward pass; 0: all of an update's."""
    max_tokens: int = Field(400, gt=0)
    """Longest completion."""
    temperature: float = Field(1.0, gt=0)
    top_p: float = Field(1.0, gt=0, le=1)
    learning_rate: float = Field(1e-4, gt=0)
    optimizer: Literal["adamw", "muon"] = "adamw"
    """As in `[sft]`."""
    matrix_rate: float = Field(7e-4, gt=0)
    compile: bool = False
    """As in `[sft]`, for the update. Generation with the model's own modules would compile too: leave it off there."""
    warmup: float = Field(0.0, ge=0, lt=1)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    beta: float = Field(0.0, ge=0)
    """Weight of the KL to the stage's starting point."""
    epsilon: float = Field(0.2, gt=0)
    """Half-width of the clipped probability ratio."""
    epsilon_high: float = Field(0.0, ge=0)
    """Its upper half-width where that differs (DAPO's clip-higher); 0: `epsilon`."""
    loss: Literal["grpo", "dapo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo"] = "dapo"
    """The loss of a token and how they are averaged, by TRL's names; equations in docs/training.md."""
    importance: Literal["token", "sequence"] = "token"
    """The probability ratio: of each token, or the geometric mean of a row's (GSPO: `grpo` with `sequence`)."""
    delta: float = Field(0.0, ge=0)
    """Upper bound of the ratio where the advantage is negative, too (INTELLECT-2); 0: none."""
    entropy_share: float = Field(1.0, gt=0, le=1)
    """Train only on this share of the tokens, those of most entropy (arXiv 2506.01939)."""
    entropy_bonus: float = Field(0.0, ge=0)
    """Weight of the mean entropy of tokens, which the loss rewards."""
    off_policy_mask: float = Field(0.0, ge=0)
    """Leave out rows of negative advantage whose mean log-ratio to the sampling policy is more than this (DeepSeek-V3.2); 0:
    none."""
    unbiased_kl: bool = True
    """Weigh the KL's tokens by their ratio, which makes its gradient unbiased (DeepSeek-V3.2). GRPO as published: false."""
    credit: Literal["hierarchical", "uniform"] = "hierarchical"
    """`hierarchical`: plan tokens by the plan's reward, code tokens by the code's. `uniform`: all by the sum."""
    alpha: float = Field(1.0, ge=0)
    """Weight of the plan's term (TritonRL found 0.1 best for itself)."""
    thoughts: Literal["plan", "code", "both", "none"] = "plan"
    """What tokens in think tags are paid: as the plan, as the code, the sum, or nothing. With `uniform` credit only
    `none` differs."""
    scale: Literal["std", "none", "batch"] = "std"
    """Divide advantages by the group's standard deviation, by nothing, or by the batch's."""
    baseline: Literal["mean", "leave_one_out"] = "mean"
    negatives: float = Field(1.0, ge=0, le=1)
    """Weight of negative advantages. Below 1 a step learns more from what was right than from what was wrong."""
    grouping: Literal["samples", "plans"] = "samples"
    """`plans`: a plan is paid the best of the samples that say it, and code is compared with that of the same plan, where
    there are several and they differ."""
    contrast: int = Field(0, ge=0, le=8)
    """Further kernels of the graph that a later agent is shown with their times, fast and slow ones, from `verify.archive`."""
    best_of: int = Field(1, ge=1)
    """Plans are paid for what they add to the best of so many samples of their group (max@k); 1: against the mean, as GRPO.
    As many as `samples`: the leave-one-out maximum. Needs hierarchical credit."""
    entropy_floor: float = Field(0.0, ge=0)
    """Nats a decision of the plan below which plan tokens are also paid for being rare; 0: never."""
    entropy_gain: float = Field(0.1, ge=0)
    """Weight of that, at an entropy of 0."""
    kl_on: Literal["all", "code"] = "all"
    """Which tokens `beta` holds to the start: all, or the code's alone, so that plans are free."""
    modal: bool = False
    """Of right samples learn from the likely tokens alone, and of wrong ones from the unlikely."""
    truncated: Literal["keep", "mask", "drop"] = "keep"
    """Completions that ran out of tokens: trained on; out of the loss but in the baseline; out of both."""
    save_every: int = Field(5, gt=0)
    families: tuple[str, ...] = ()
    """Train only on tasks of these families; empty: all."""
    dead_band: float = Field(0.0, ge=0, le=1)
    """Speedups count in whole steps of this ratio, towards 1: 0.05 takes 1.04 for 1 and 1.12 for 1.1025. For
    presets that pay the ratio as it is; `wright` has a band of its own. 0: as measured."""
    refill: int = Field(0, ge=0, le=8)
    """Rounds in which prompts whose samples were all paid alike are replaced by others (DAPO's dynamic sampling)."""
    agreeing: Literal["keep", "drop"] = "keep"
    """Groups that are paid alike even so: advantage 0 but counted in the loss's average, or out of it."""
    turns: int = Field(1, ge=1, le=8)
    """Answers in a conversation: after each but the last the verifier's message, or the profile, is appended."""
    gamma: float = Field(0.4, ge=0, le=1)
    """What an answer gets of the return of the next (Kevin, arXiv 2507.11948)."""
    until_correct: bool = False
    """End a conversation at its first accepted kernel, instead of asking for a faster one."""
    history: Literal["all", "answers"] = "all"
    """What a later turn sees of the answers before it: all, a conversation being one row in training; or all but what was
    thought, each turn being a row of its own (Kevin). Needs turns."""
    compare: Literal["turn", "prompt"] = "turn"
    """What a return is compared with: those of the same turn, or of all turns of the prompt's samples."""
    curriculum: Literal["shuffle", "difficulty", "success"] = "shuffle"
    """How prompts are drawn: each once in random order; easy tasks first, all from half of the steps on; by how
    close their success rate so far is to one half."""
    weights: Mapping[str, Annotated[float, Field(ge=0)]] = {}
    """Mixture of task families, such as `{ norm = 2.0, scan = 0.5 }`; a family not named weighs 1."""
    difficulties: Mapping[
        Annotated[str, Field(pattern=r"^\d+(-\d+|\+)?$")], Annotated[float, Field(ge=0)]
    ] = {}
    """Mixture of task difficulties: what share of the draws each has, such as `{ "1" = 0.6, "2-4" = 0.3, "5+" = 0.1 }`;
    one not named is not drawn. Empty: as they come. What was drawn is in `curves.jsonl`."""
    start: str = ""
    """What the stage starts from: `model` (what [model] says), a stage before it by name, a folder or a hub name. Empty: the
    stage before, or [model] for the first."""
    judge: Literal["", "interpret", "values", "model", "cuda", "clock"] = ""
    """Backend of the verifier in this stage. Where no time is paid, `values`: on the CPU cores, without binaries or
    times. Where plans alone are said (`answer`), whose code is the printer's, `clock`: on a GPU, values at full size and
    the time, which is several times as many verdicts; or `model`: on the CPU cores, values at one small size and the modelled
    time, in a quarter of the time. Empty: `verify.backend`."""
    judged: float = Field(1.0, ge=0, le=1)
    """Share of those samples that is judged whose code is word for word what the library prints of their plan; the others are taken for
    right, once one of their kind was (`train.printers_word`). Only where no time is paid, `judge = "values"`."""
    deadline_s: float = Field(0.0, ge=0)
    """Seconds that a verification may take in this stage: a step waits for its slowest. 0: `verify.deadline_s`."""
    timing_precision: float = Field(0.0, ge=0, le=0.2)
    """As `verify.timing_precision`, in this stage: the clock has the GPU to itself, and a reward needs less than a table. 0: that."""
    eval_every: int = Field(0, ge=0)
    """Steps between evaluations on the held-out tasks of `[eval]` while the front end trains, besides one at the end; 0:
    none. They are in `curves.jsonl` and in the trackers."""
    keep: Literal["last", "best"] = "last"
    """Which weights the stage hands on: those of its last step, or of the evaluation with the most right."""
    staleness: int = Field(0, ge=0, le=4)
    """How many steps ahead of the update samples are written, while those of earlier steps are verified and learned from,
    turns and refills included; what they are older than the weights is made up for by the ratio to the probabilities that
    they were sampled with. 0: each step is written, verified and learned from by itself."""

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
        """Rows of a prompt in training: its samples, or each turn of each."""
        return self.samples * (self.turns if self.history == "answers" else 1)


class GenerationConfig(Section):
    """Who writes the samples that reinforcement learning is made of."""

    engine: Literal["own", "vllm-colocate", "vllm-server"] = "own"
    """`own`: in this process, with the weights that are trained. `vllm-colocate`: vLLM on the training GPUs.
    `vllm-server`: a running `trl vllm-serve`, on GPUs of its own."""
    rows: int = Field(0, ge=0)
    """Sequences decoded at once by `own`; 0: what memory allows on a GPU, 64 elsewhere."""
    server: str = ""
    """Address of the server, such as `http://localhost:8000`."""
    memory_share: float = Field(0.3, gt=0, lt=1)
    """Share of the GPU's memory that a colocated vLLM may take."""
    tensor_parallel: int = Field(1, gt=0)
    sleep: bool = True
    """Whether a colocated vLLM gives its GPU memory back while the update runs. There is none to give on a CPU."""
    correction: Literal[
        "off",
        "token_truncate",
        "token_mask",
        "sequence_truncate",
        "sequence_mask",
        "geometric_truncate",
        "geometric_mask",
    ] = "sequence_mask"
    """What becomes of tokens to which vLLM gave another probability than the trainer: nothing; weighed by the ratio of
    the two, cut at its bounds; or left out beyond them. By token, by the product over a row, or by its geometric mean."""
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
    """A suite, or `heldout`: the tasks of the examples with `split = "heldout"`."""
    samples: int = Field(4, gt=0)
    """Completions a task."""
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: int = Field(400, gt=0)
    limit: int = Field(0, ge=0)
    """Evaluate at most so many tasks; 0: all."""


class VerifyConfig(Section):
    judge: str = ""
    """Addresses of `kernelwright serve`, separated by commas: candidates are judged there, by that server's rules; or `ray`,
    `ray://HOST:PORT`: on all machines of that cluster. Empty: judged here."""
    workers: int = Field(2, gt=0)
    backend: Literal["auto", "interpret", "cuda"] = "auto"
    protocol: ProtocolName = "strict"
    target: str = "h200"
    devices: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """GPUs to judge on, by index; all by default. Give training others where there are several."""
    compiled: bool = False
    """Also clock torch.compile, once a task: some ten seconds each."""
    archive: str = ""
    """An archive of judged kernels (`kernelwright archive`): what it holds of the target is not judged again."""
    recorded: Literal["", "modelled", "measured"] = ""
    """Times of that kind are taken from the archive alone, and nothing is judged: recorded times replay for ablations. What the
    archive does not hold has no reward."""
    priced: bool = True
    """Without a GPU, also make the target's binary of what is right and model its time."""
    printed: bool = False
    """Only for kernels that the library's printer wrote: values on a GPU at full size, else at one small one, and the time; no gates of
    honesty."""
    precision: PrecisionName = "default"
    """What tasks are asked in: default (PyTorch's default flags), ieee, tf32, bf16 or fp16."""
    timing_precision: float = Field(0.01, ge=0.001, le=0.2)
    """Half the 95 % interval of a measured time, as a share of it, at which clocking ends."""
    deadline_s: float = Field(30.0, gt=0)
    """Seconds that a verification may take before the candidate has run out of time, compilation included."""


class Recipe(Section):
    """One training run. See `recipes/laptop.toml` for a commented example."""

    name: str = "recipe"
    seed: int = 0
    stages: tuple[Stage, ...] = Field(default=("sft", "frontend", "midend"), min_length=1)
    threads: int = Field(0, ge=0)
    """Threads of torch's own arithmetic; 0 leaves torch's choice."""
    compact_checkpoints: bool = False
    """Round weights and optimizer states to bfloat16 whenever a checkpoint is saved, also in the run that goes on, so
    that a resumed run is the same: a third of the size, and a small error as rarely as checkpoints are."""
    report_to: tuple[Literal["wandb", "tensorboard", "trackio"], ...] = ()
    """Trackers that a run reports to: losses by TRL's names, and what curves.jsonl has under `kernelwright/`."""
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
                    f"{stage}.start = {start!r} is no stage before it; set one of {earlier}, or a folder"
                )
        return self

    def rl(self, stage: str) -> RlConfig:
        """The settings of one of the reinforcement stages."""
        assert stage in ("frontend", "midend", "backend"), stage
        config: RlConfig = getattr(self, stage)
        return config

    def answer(self, stage: str) -> Literal["plan+code", "plan"]:
        """What one of the reinforcement stages is asked for."""
        return self.rl(stage).answer or self.data.answer

    def examples_in(self, run: Path) -> Path:
        """Where the examples of a run in the folder `run` are."""
        return Path(self.data.examples or run / "data" / "examples.jsonl")

    def tasks_in(self, run: Path) -> Path:
        """Where its practice tasks are, if there are any."""
        return Path(self.data.tasks or run / "data" / "tasks.jsonl")

    def judging(self, stage: str) -> VerifyConfig:
        """Who judges in one of the reinforcement stages."""
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
    """Check a table against the schema. Raises UserError for the first thing that is wrong."""
    try:
        # Through JSON, where strict mode still lets an array be a tuple and a whole number a float.
        return Recipe.model_validate_json(json.dumps(table, default=str))
    except ValidationError as error:
        raise UserError(f"{where}: {complaint(error, Recipe)}") from None


def apply_override(table: dict[str, Any], override: str) -> None:
    """Set one dotted key in `table`. The value is TOML; what is not TOML is taken as a string."""
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
    """The first of pydantic's complaints about a `model`, with the valid keys and the nearest where one is unknown."""
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
    """The model whose keys live at `location` of another."""
    for part in location:
        annotation = model.model_fields[part].annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        model = annotation
    return model


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
