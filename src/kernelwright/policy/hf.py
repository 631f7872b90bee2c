"""A local Hugging Face causal LM as a policy, with its own sampling loop.

The loop decodes a batch of prompts times samples, drops rows as they finish, and passes each completion on as soon as it
ends, so that the verifier can start while others are still being sampled. A row's random numbers depend only on the seed and
its place in the batch, so dropping rows changes nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernelwright.config import STAGES
from kernelwright.errors import UserError, one_line
from kernelwright.policy.decode import ModelDecoder, in_layers
from kernelwright.policy.policy import OnCompletion
from kernelwright.policy.slots import Job, engine_for, has_room
from kernelwright.policy.text import prompt_ids, token_pieces
from kernelwright.records import Completion, Prompt

_WIDEST_DRAW = 1 << 14
"""Largest vocabulary for which one GPU program samples a row."""

_BATCH = 64
"""Rows decoded at once, unless set otherwise or decoded in slots."""


@dataclass(frozen=True)
class _Request:
    """The arguments of `generate`: `n` samples of each prompt; a prompt is a row of `encoded`, `budgets` and `numbers`."""

    encoded: Sequence[list[int]]
    """Token ids of the prompts."""
    budgets: Sequence[int]
    """Most new tokens per row; rows with none are not decoded."""
    numbers: Sequence[int]
    """Numbers that seed the rows' random numbers."""
    n: int
    temperature: float
    top_p: float
    seed: int
    keep: OnCompletion
    until: float = math.inf

    @property
    def rows(self) -> list[int]:
        """The rows to decode."""
        return [row for row, budget in enumerate(self.budgets) if budget > 0]

    def uniform(self, row: int, sample: int, count: int) -> Tensor:
        return _uniform(self.seed, self.numbers[row], sample, count)

    def draw(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        # On a GPU this is recorded once, and takes seconds.
        if not logits.is_cuda and time.monotonic() >= self.until:
            raise TimeoutError("the samples did not end in time")
        return draw(logits, uniform, self.temperature, self.top_p)


class HFPolicy:
    """A model and its tokenizer. The model may be in training: it is only read, without gradients."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str = "",
        *,
        batch: int = 0,
        continuous: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        """`batch`: most rows decoded at once; 0: what memory allows on a GPU, 64 elsewhere.

        `continuous`: decode in slots that are refilled (see `slots.py`), if the architecture is supported. `dtype`: type in which
        slots compute, by default the model's own.
        """
        self.model, self.tokenizer, self.batch, self.dtype = model, tokenizer, batch, dtype
        self.continuous = continuous
        self.busy: Callable[[], AbstractContextManager[Any]] = nullcontext
        """Entered while generating, so that nothing is timed on its GPU meanwhile."""
        self.given: dict[int, list[int]] = {}
        """Token ids of prompts, by `id`, that continue sampled text: tokenizing the text might give other tokens."""
        self.numbers: dict[int, int] = {}
        """Numbers of prompts, by `id`, that seed their random numbers; default: their places."""
        self.name = name or type(model).__name__
        ends = getattr(model.generation_config, "eos_token_id", None)
        ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
        self.ends = sorted({*ends, tokenizer.eos_token_id} - {None})
        self.context = int(getattr(model.config, "max_position_embeddings", 0)) or 1 << 30

    @classmethod
    def load(cls, spec: str, *, device: str = "auto", dtype: str = "auto", batch: int = 0) -> HFPolicy:
        """Load from a model folder, a run or stage folder that contains one, or a hub name.

        Raises UserError if there is no such model.
        """
        folder = model_folder(spec)
        from transformers import AutoModelForCausalLM, AutoTokenizer

        try:
            ask_hub(folder)
            tokenizer = AutoTokenizer.from_pretrained(folder)
            model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        except Exception as error:  # a broken file may make the libraries below raise anything
            raise UserError(
                f"policy {spec}: cannot be loaded ({one_line(error)}); name a local folder, or a hub name while online"
            ) from None
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(model.to(device).eval(), tokenizer, name=spec, batch=batch)

    def encode(self, prompt: Prompt) -> list[int]:
        """The prompt's token ids as `generate` passes them to the model."""
        return self.given.get(id(prompt)) or prompt_ids(self.tokenizer, prompt)

    def pieces(self, completion: Completion) -> tuple[str, ...] | None:
        if completion.token_ids is None:
            return None
        return token_pieces(self.tokenizer, completion.token_ids, self.ends)

    @torch.no_grad()
    def generate(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
        on_completion: OnCompletion | None = None,
        until: float = math.inf,
    ) -> list[list[Completion]]:
        """`n` samples of each prompt. Temperature 0 is greedy. Log-probs are those of the distribution sampled from (after
        temperature and top-p; for greedy, at temperature 1). On a CPU, raises TimeoutError at `until` on the monotonic clock.

        A prompt that leaves no room in the model's context gets an empty completion with `finish_reason="error"`.
        """
        answers: list[list[Completion | None]] = [[None] * n for _ in prompts]

        def keep(row: int, sample: int, completion: Completion) -> None:
            answers[row][sample] = completion
            if on_completion is not None:
                on_completion(row, sample, completion)

        encoded = [self.encode(prompt) for prompt in prompts]
        numbers = [self.numbers.get(id(prompt), row) for row, prompt in enumerate(prompts)]
        budgets = [
            min(prompt.max_tokens, self.context - len(ids))
            for prompt, ids in zip(prompts, encoded, strict=True)
        ]
        for row, budget in enumerate(budgets):
            if budget <= 0:
                for sample in range(n):
                    keep(row, sample, Completion(text="", finish_reason="error", policy=self.name))
        request = _Request(encoded, budgets, numbers, n, temperature, top_p, seed, keep, until)
        training = self.model.training
        self.model.eval()
        slots = self.continuous and request.rows and in_layers(self.model) and has_room(self.model)
        decode = self._continuous if slots else self._batches
        try:
            with self.busy():
                decode(request)
        finally:
            self.model.train(training)
        return [[completion for completion in group if completion is not None] for group in answers]

    def _continuous(self, request: _Request) -> None:
        """Decode everything in slots, longest prompts first, and pass on each completion."""
        jobs = [
            Job(
                (r, s),
                tuple(request.encoded[r]),
                request.budgets[r],
                request.uniform(r, s, request.budgets[r]),
            )
            for r in sorted(request.rows, key=lambda r: -len(request.encoded[r]))
            for s in range(request.n)
        ]
        total = max(len(job.prompt) + job.budget for job in jobs)
        most = max(job.budget for job in jobs)

        def done(key: tuple[int, int], ids: list[int], logprobs: list[float], reason: str) -> None:
            request.keep(*key, self._completion(ids, logprobs, reason))

        engine = engine_for(self.model, self.batch, total, most, self.dtype, jobs=len(jobs))
        engine.run(jobs, self.ends, request.draw, done, key=(request.temperature, request.top_p))

    def _batches(self, request: _Request) -> None:
        """Decode batch by batch, each until its last row ends."""
        # One prompt's samples may exceed the batch; then each part is its own batch.
        rows, most = request.rows, self.batch or _BATCH
        per_batch, part = max(1, most // request.n), min(request.n, most)
        for start in range(0, len(rows), per_batch):
            for first in range(0, request.n, part):
                samples = range(first, min(first + part, request.n))
                self._sample(request, rows[start : start + per_batch], samples)

    def _sample(self, request: _Request, rows: Sequence[int], samples: range) -> None:
        """Decode one batch and pass on each completion."""
        encoded, budgets = request.encoded, request.budgets
        device, n = self.model.device, len(samples)
        longest, room = max(len(encoded[r]) for r in rows), max(budgets[r] for r in rows)
        pad = self.ends[0] if self.ends else 0
        ids = torch.full((len(rows), longest), pad, device=device)
        mask = torch.zeros(len(rows), longest, dtype=torch.bool, device=device)
        for i, r in enumerate(rows):
            ids[i, longest - len(encoded[r]) :] = torch.tensor(encoded[r], device=device)
            mask[i, longest - len(encoded[r]) :] = True
        owners = [(r, s) for r in rows for s in samples]
        uniform = torch.stack([request.uniform(r, s, room) for r, s in owners]).to(device)
        limit = torch.tensor([budgets[r] for r, _ in owners], device=device)
        ends = torch.tensor(self.ends, device=device)

        decoder = ModelDecoder(self.model)
        logits = decoder.prefill(ids, mask, n)
        live = torch.arange(len(owners), device=device)  # owner of each row in the decoder's batch
        tokens = torch.full((len(owners), room), pad, device=device)
        logprobs = torch.zeros(len(owners), room, device=device)
        going = torch.ones(len(owners), dtype=torch.bool, device=device)
        for at in range(room):
            token, logprob = request.draw(logits, uniform[live, at])
            tokens[live, at], logprobs[live, at] = token, logprob
            was = going[live]
            stopped = torch.isin(token, ends) if len(ends) else torch.zeros_like(was)
            over = was & (stopped | (limit[live] <= at + 1))
            if over.any():
                for row in over.nonzero().flatten().tolist():
                    owner = int(live[row])
                    going[owner] = False
                    reason = "stop" if bool(stopped[row]) else "length"
                    written = tokens[owner, : at + 1].tolist(), logprobs[owner, : at + 1].tolist()
                    request.keep(*owners[owner], self._completion(*written, reason))
                count = int(going[live].sum())
                if count == 0:
                    return
                if count <= 0.8 * len(live):
                    still = going[live].nonzero().flatten()
                    live, token = live[still], token[still]
                    decoder.select(still)
            logits = decoder.step(token)

    def _completion(self, token_ids: list[int], logprobs: list[float], reason: Any) -> Completion:
        pieces = token_pieces(self.tokenizer, token_ids, self.ends)
        return Completion(
            text="".join(pieces),
            token_ids=tuple(token_ids),
            logprobs=tuple(logprobs),
            finish_reason=reason,
            policy=self.name,
        )


def draw(logits: Tensor, uniform: Tensor, temperature: float, top_p: float) -> tuple[Tensor, Tensor]:
    """Sample one token per row by inverting the cumulative distribution at `uniform` (B,). Returns tokens and log-probs (B,).

    `logits` is (B, V). Top-p keeps the smallest set of tokens whose probability reaches `top_p`.
    """
    if logits.is_cuda and temperature > 0 and top_p == 1 and logits.shape[1] <= _WIDEST_DRAW:
        from kernelwright.policy import fused

        return fused.draw(logits, uniform, temperature)
    logits = logits.float()
    if temperature == 0:
        token = logits.argmax(-1)
        return token, logits.log_softmax(-1).gather(1, token[:, None])[:, 0]
    probs = (logits / temperature).softmax(-1)
    if top_p < 1:
        ordered, order = probs.sort(-1, descending=True)
        # Drop a token if those before it already reach top_p; the likeliest is always kept.
        ordered = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0.0)
        probs = torch.zeros_like(probs).scatter_(1, order, ordered)
        probs = probs / probs.sum(-1, keepdim=True)
    cumulative = probs.double().cumsum(-1)
    goal = uniform[:, None].double() * cumulative[:, -1:]
    token = torch.searchsorted(cumulative, goal, right=True)[:, 0].clamp(max=probs.shape[1] - 1)
    return token, probs.gather(1, token[:, None])[:, 0].log()


def _uniform(seed: int, row: int, sample: int, count: int) -> Tensor:
    """`count` uniform numbers that depend only on these integers."""
    mixed = (seed * 0x9E3779B97F4A7C15 + row * 0xBF58476D1CE4E5B9 + sample * 0x94D049BB133111EB) % (1 << 63)
    return torch.rand(count, generator=torch.Generator().manual_seed(mixed), dtype=torch.float64)


def ask_hub(name: str) -> None:
    """Raises the hub's error at once for a name that is neither a folder nor cached; loading would retry for a minute."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    if not Path(name).is_dir() and try_to_load_from_cache(name, "config.json") is None:
        HfApi().model_info(name, timeout=10)


def model_folder(spec: str) -> str:
    """The folder of the model that `spec` names: itself, a stage's checkpoint, or that of a run's last stage.

    A name that is not a folder is taken for a hub name. Raises UserError for a path that does not exist.
    """
    local = Path(spec).expanduser()
    if not local.is_dir():
        if spec.startswith((".", "/", "~")) or spec.count("/") > 1:
            raise UserError(f"policy {spec}: no such folder; name a checkpoint folder or a hub name")
        return spec
    stages = [local / "stages" / stage / "checkpoint" for stage in reversed(STAGES)]
    for folder in (local, local / "checkpoint", *stages):
        whole = (folder / "config.json").exists() or (folder / "adapter_config.json").exists()
        if whole and list(folder.glob("tokenizer*")):
            return str(folder)
    raise UserError(
        f"policy {spec}: the folder holds no model (config.json, tokenizer); name a checkpoint folder"
    )
