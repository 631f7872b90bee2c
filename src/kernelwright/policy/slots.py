"""Continuous generation with small models: a fixed number of slots, refilled as their rows finish.

Small models are limited by Python. Here the cache, the sampling and the bookkeeping of all rows are tensors of fixed shape, so
that on CUDA a whole step is one replay of a CUDA graph. Only every `STRIDE` steps, the host checks for finished rows, passes
them on, and fills their slots with the next samples. A row's random numbers depend only on the seed, its prompt and its
sample, so neither the number of slots nor the order of refilling changes the result.

For models accepted by `decode.in_layers`. `load` copies the weights in (LoRA's merged), so that graphs survive training
steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F

from kernelwright.drawing import DRAWING
from kernelwright.policy.decode import Layer, has_adapters, unwrap

STRIDE = 8
"""Steps between checks for finished rows; each check synchronises with the device."""
WINDOW = 128
"""Attention reads the cache up to a multiple of this; there is one CUDA graph per multiple."""
CHUNK_TOKENS = 1 << 16
"""Most prompt tokens read at once."""


@dataclass(frozen=True)
class Job:
    """One sample to write: its owner's key, the prompt's ids, the most new tokens, its random numbers (budget,)."""

    key: Any
    prompt: tuple[int, ...]
    budget: int
    uniform: Tensor


Done = Callable[[Any, list[int], list[float], str], None]
"""Called as `(key, token ids, log-probs, "stop" or "length")`."""
Draw = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From logits (B, V) and uniform numbers (B,) to tokens and log-probs."""


def engine_for(
    model: Any, rows: int, total: int, budget: int, dtype: torch.dtype | None = None, *, jobs: int = 0
) -> Slots:
    """An engine for `model` with its current weights: the previous call's, if that is large enough.

    `rows`: slots of a new engine, at most `jobs` if that is given; 0: as many as fit in memory.
    """
    kept = _ENGINES.get(model)
    wanted = dtype or unwrap(model).model.embed_tokens.weight.dtype
    if (
        kept is None
        or kept.rows < min(rows or kept.most, jobs or kept.most)
        or kept.total < total
        or kept.budget < budget
        or kept.dtype != wanted
    ):
        _ENGINES.pop(model, None)
        kept = None  # frees its memory for the next one
        total = -(-total // WINDOW) * WINDOW
        fitting = rows or _rows_that_fit(model, total, wanted)
        kept = _ENGINES[model] = Slots(model, min(fitting, jobs or fitting), total, budget, wanted)
        kept.most = fitting
    kept.load(model)
    return kept


def has_room(model: Any) -> bool:
    """Whether there is memory for a copy of the weights: a model with adapters may fill half of a GPU."""
    if model.device.type != "cuda" or not has_adapters(model) or model in _ENGINES:
        return True
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(model.device)
    return 2 * sum(one.nbytes for one in model.parameters()) < free


def _rows_that_fit(model: Any, total: int, dtype: torch.dtype) -> int:
    """Number of rows of `total` tokens whose cache fits in half of the GPU's free memory; 64 on a CPU."""
    if model.device.type != "cuda":
        return 64
    config = model.config
    numbers = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(model.device)
    return max(1, min(4096, free // 2 // (numbers * dtype.itemsize * total)))


_ENGINES: WeakKeyDictionary[Any, Slots] = WeakKeyDictionary()


class Slots:
    """`rows` sequences of at most `total` tokens, at most `budget` of them generated."""

    def __init__(self, model: Any, rows: int, total: int, budget: int, dtype: torch.dtype) -> None:
        model = unwrap(model)
        config, device = model.config, model.device
        self.rows, self.total, self.budget, self.dtype = rows, total, budget, dtype
        self.most = rows
        """Slots that would have fitted, had there been enough jobs."""
        self.heads, self.kv, self.dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        self.eps, self.graphs = config.rms_norm_eps, device.type == "cuda"
        whole_head = self.dim >= 16 and self.dim & (self.dim - 1) == 0
        self.fused = self.graphs and whole_head and dtype in (torch.float16, torch.bfloat16)
        """Whether `fused.py` computes what lies between the matrix products."""
        with torch.no_grad():
            self.layers = [Layer(layer, self.heads, self.kv).to(dtype) for layer in model.model.layers]
        self.embed = model.model.embed_tokens.weight.detach().to(dtype, copy=True)
        self.norm = model.model.norm.weight.detach().to(dtype, copy=True)
        self.tied = model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
        self.head = self.embed if self.tied else model.lm_head.weight.detach().to(dtype, copy=True)
        places = torch.arange(total, device=device)
        cos, sin = model.model.rotary_emb(self.embed[:1, :1].float(), places[None])
        self.cos, self.sin = cos[0].to(dtype), sin[0].to(dtype)  # (total, dim)
        self.places, self.each = places, torch.arange(rows, device=device)
        shape = (len(self.layers), rows, self.kv, total, self.dim)
        self.keys, self.values = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
        whole: dict[str, Any] = {"dtype": torch.long, "device": device}
        self.length, self.token, self.count, self.limit = (torch.zeros(rows, **whole) for _ in range(4))
        self.active = torch.zeros(rows, dtype=torch.bool, device=device)
        self.stopped = torch.zeros_like(self.active)
        self.tokens = torch.zeros(rows, budget, **whole)
        self.logprobs = torch.zeros(rows, budget, device=device)
        self.uniform = torch.zeros(rows, budget, dtype=torch.float64, device=device)
        self.ends = torch.zeros(0, **whole)
        self._captured: dict[tuple[Any, ...], Any] = {}
        self._pool: Any = None

    def load(self, model: Any) -> None:
        """Copy the model's current weights into the buffers that the graphs read."""
        model = unwrap(model)
        with torch.no_grad():
            for mine, layer in zip(self.layers, model.model.layers, strict=True):
                mine.copy_(Layer(layer, self.heads, self.kv))
            self.embed.copy_(model.model.embed_tokens.weight)
            self.norm.copy_(model.model.norm.weight)
            if not self.tied:
                self.head.copy_(model.lm_head.weight)

    @torch.no_grad()
    def run(
        self, jobs: Sequence[Job], ends: Sequence[int], draw: Draw, done: Done, *, key: Any = None
    ) -> None:
        """Generate every job's sample and pass each to `done`. `key` identifies the sampling settings, for reusing graphs."""
        device = self.embed.device
        ending = torch.tensor(sorted(ends), dtype=torch.long, device=device)
        if not torch.equal(ending, self.ends):
            self.ends, self._captured = ending, {}
        waiting = deque(jobs)
        held: dict[int, Job] = {}
        self.active.zero_()
        free = deque(range(self.rows))
        while waiting or held:
            # Reading a few prompts costs as much as reading many: wait until a share of the slots is free.
            if waiting and (len(free) >= min(len(waiting), max(1, self.rows // 8)) or not held):
                self._fill(waiting, free, held, draw)
            longest = int(self.length.max()) if held else 0
            if held and bool(self.active.any()):
                for _ in range(STRIDE):
                    longest += 1
                    self._advance(min(self.total, -(-longest // WINDOW) * WINDOW), draw, key)
            self._harvest(held, free, done)

    def _harvest(self, held: dict[int, Job], free: deque[int], done: Done) -> None:
        """Pass on finished rows and free their slots."""
        active = self.active.tolist()
        over = [row for row in held if not active[row]]
        if not over:
            return
        at = torch.tensor(over, device=self.embed.device)
        counts, stopped = self.count[at].tolist(), self.stopped[at].tolist()
        tokens, logprobs = self.tokens[at].tolist(), self.logprobs[at].tolist()
        for place, row in enumerate(over):
            size, job = counts[place], held.pop(row)
            reason = "stop" if stopped[place] else "length"
            done(job.key, tokens[place][:size], logprobs[place][:size], reason)
            free.append(row)
        self.length[at] = 0

    def _fill(self, waiting: deque[Job], free: deque[int], held: dict[int, Job], draw: Draw) -> None:
        """Put the next jobs into free slots; a prompt is read once for all its samples in a batch."""
        device = self.embed.device
        while waiting and free:
            jobs: list[Job] = []
            prompts: dict[tuple[int, ...], int] = {}
            longest = 0
            while waiting and len(jobs) < len(free):
                size = max(longest, len(waiting[0].prompt))
                unique = len(prompts) + (waiting[0].prompt not in prompts)
                if jobs and unique * size > CHUNK_TOKENS:
                    break
                job = waiting.popleft()
                prompts.setdefault(job.prompt, len(prompts))
                jobs.append(job)
                longest = size
            rows = [free.popleft() for _ in jobs]
            held.update(zip(rows, jobs, strict=True))
            ids = torch.zeros(len(prompts), longest, dtype=torch.long)
            for prompt, place in prompts.items():
                ids[place, : len(prompt)] = torch.tensor(prompt)
            lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
            owner = torch.tensor([prompts[job.prompt] for job in jobs], device=device)
            at = torch.tensor(rows, device=device)
            logits = self._read(ids.to(device), lengths, at, owner)
            uniform = torch.zeros(len(jobs), self.budget, dtype=torch.float64)
            for place, job in enumerate(jobs):
                uniform[place, : len(job.uniform)] = job.uniform
            self.uniform[at] = uniform.to(device)
            self.limit[at] = torch.tensor([job.budget for job in jobs], device=device)
            self.length[at], self.count[at], self.active[at] = lengths[owner], 0, True
            self._take(at, logits, draw)

    def _read(self, ids: Tensor, lengths: Tensor, rows: Tensor, owner: Tensor) -> Tensor:
        """Read prompts (P, S), right-padded, into the slots `rows`, each from its `owner` prompt. Returns logits (len(rows), V)."""
        count, size = ids.shape
        x = F.embedding(ids, self.embed)
        groups = self.heads // self.kv
        for index, layer in enumerate(self.layers):
            q, k, v = layer.qkv(x, self.dim, self.eps, self.cos[:size, None], self.sin[:size, None])
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)  # (P, heads, S, dim)
            self.keys[index, rows, :, :size], self.values[index, rows, :, :size] = k[owner], v[owner]
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
            # Padding follows a prompt's last token, so causal attention does not see it.
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = layer.finish(x, out.transpose(1, 2).reshape(count, size, -1), self.eps)
        last = x[torch.arange(count, device=x.device), lengths - 1]
        return self._logits(last)[owner]

    def _advance(self, window: int, draw: Draw, key: Any) -> None:
        """One token for every row, attending to the first `window` places; on CUDA by replaying a graph."""
        if not self.graphs:
            self._step(window, draw)
            return
        window = self.total if self.fused else window  # fused attention reads each row up to its own length
        name = (window, key)
        if name not in self._captured:
            self._captured[name] = self._capture(window, draw)
        self._captured[name].replay()

    def _capture(self, window: int, draw: Draw) -> Any:
        """The CUDA graph of one step. A warm-up on a side stream runs first; its effects on the rows are undone."""
        state = (self.length, self.token, self.count, self.active, self.stopped)
        before = [tensor.clone() for tensor in state]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._step(window, draw)
        torch.cuda.current_stream().wait_stream(stream)
        for tensor, old in zip(state, before, strict=True):
            tensor.copy_(old)
        graph = torch.cuda.CUDAGraph()
        # Meanwhile the verifier's threads may allocate on this GPU, which does not concern this capture.
        with DRAWING, torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            self._step(window, draw)
        self._pool = self._pool or graph.pool()
        return graph

    def _step(self, window: int, draw: Draw) -> None:
        """Append each row's last token to its cache and sample the next. Finished rows do not change."""
        logits = self._fuse() if self.fused else self._plain(window)
        self.length += self.active
        self._take(self.each, logits, draw)

    def _plain(self, window: int) -> Tensor:
        """Append each row's last token to its cache. Returns the logits of the next."""
        at = self.length.clamp(max=self.total - 1)
        cos, sin = self.cos[at][:, None], self.sin[at][:, None]
        seen = self.places[:window] <= at[:, None]
        bias = torch.zeros(seen.shape, dtype=self.dtype, device=at.device)
        bias = bias.masked_fill_(~seen, torch.finfo(self.dtype).min)[:, None, None]
        x = F.embedding(self.token, self.embed)
        for index, layer in enumerate(self.layers):
            q, k, v = layer.qkv(x, self.dim, self.eps, cos, sin)  # (R, heads, dim)
            self.keys[index, self.each, :, at], self.values[index, self.each, :, at] = k, v
            keys, values = self.keys[index, :, :, :window], self.values[index, :, :, :window]
            # Heads that share keys are the rows of one small matrix product, so nothing is copied.
            q = q.view(self.rows, self.kv, -1, self.dim) * self.dim**-0.5
            scores = (q @ keys.transpose(-1, -2) + bias).softmax(-1)
            x = layer.finish(x, (scores @ values).view(self.rows, -1), self.eps)
        return self._logits(x)

    def _fuse(self) -> Tensor:
        """Like `_plain`, with each row attending only to its own length."""
        from kernelwright.policy import fused

        x = F.embedding(self.token, self.embed)
        normed = F.rms_norm(x, x.shape[-1:], self.layers[0].before, self.eps)
        after = [*(layer.before for layer in self.layers[1:]), self.norm]
        for layer, keys, values, norm in zip(self.layers, self.keys, self.values, after, strict=True):
            qkv = F.linear(normed, layer.in_proj)
            seen = fused.attend(qkv, layer.qk_norm, self.cos, self.sin, keys, values, self.length, self.eps)
            x, normed = fused.add_norm(x, F.linear(seen, layer.out_proj), layer.after, self.eps)
            inner = fused.gated_silu(F.linear(normed, layer.gate_up))
            x, normed = fused.add_norm(x, F.linear(inner, layer.down), norm, self.eps)
        return F.linear(normed, self.head)

    def _take(self, rows: Tensor, logits: Tensor, draw: Draw) -> None:
        """Sample a token for each of `rows`, record it, and mark finished rows."""
        active, place = self.active[rows], self.count[rows].clamp(max=self.budget - 1)
        token, logprob = draw(logits, self.uniform[rows, place])
        self.tokens[rows, place] = torch.where(active, token, self.tokens[rows, place])
        self.logprobs[rows, place] = torch.where(active, logprob.float(), self.logprobs[rows, place])
        self.token[rows] = torch.where(active, token, self.token[rows])
        count = self.count[rows] + active
        stopped = (token[:, None] == self.ends).any(1)
        self.count[rows] = count
        self.stopped[rows] = torch.where(active, stopped, self.stopped[rows])
        self.active[rows] = active & ~stopped & (count < self.limit[rows])

    def _logits(self, x: Tensor) -> Tensor:
        return F.linear(F.rms_norm(x, x.shape[-1:], self.norm, self.eps), self.head)
