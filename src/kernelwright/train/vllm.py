"""vLLM as the writer of training samples, through TRL's own link to it, which also keeps its weights up to date.

Colocated on the training GPUs, or a server started by `trl vllm-serve`. Temperature, top-p and the token budget are
those of the trainer; seeds are vLLM's own, so a resumed run samples others than an uninterrupted one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from kernelwright.config import Recipe
from kernelwright.errors import UserError
from kernelwright.policy import OnCompletion
from kernelwright.policy.hf import HFPolicy
from kernelwright.policy.text import token_pieces
from kernelwright.records import Completion, Prompt


class VllmPolicy(HFPolicy):
    """Token ids in, token ids out, through `generation`: TRL's VLLMGeneration."""

    def __init__(self, generation: Any, model: Any, tokenizer: Any, name: str) -> None:
        super().__init__(model, tokenizer, name)
        self.generation = generation

    def generate(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
        on_completion: OnCompletion | None = None,
    ) -> list[list[Completion]]:
        asked = [ids for prompt in prompts for ids in [self.encode(prompt)] * n]
        with self.busy():
            _, said, logprobs, _ = self.generation.generate(prompts=asked, images=None, num_generations=n)
        answers: list[list[Completion]] = []
        for row in range(len(prompts)):
            answers.append([])
            for sample in range(n):
                ids = tuple(said[row * n + sample])
                pieces = token_pieces(self.tokenizer, ids, self.ends)
                completion = Completion(
                    text="".join(pieces),
                    token_ids=ids,
                    logprobs=tuple(each[0] for each in logprobs[row * n + sample]),
                    finish_reason="stop" if ids and ids[-1] in self.ends else "length",
                    policy=self.name,
                )
                answers[-1].append(completion)
                if on_completion is not None:
                    on_completion(row, sample, completion)
        return answers


def vllm_args(recipe: Recipe, stage: str, world: int) -> dict[str, Any]:
    """What TRL's GRPOConfig is told about vLLM; nothing for the own engine. Raises UserError for what cannot be."""
    generation, rl = recipe.generation, recipe.rl(stage)
    if generation.engine == "own":
        return {}
    if importlib.util.find_spec("vllm") is None:
        raise UserError(
            f'generation.engine = "{generation.engine}" needs vLLM, which is not installed: pip install vllm, or set '
            'generation.engine = "own"'
        )
    server = generation.engine == "vllm-server"
    if server and world > 1 and (rl.turns > 1 or rl.refill):
        raise UserError(
            f"{stage}: {world} processes ask one vLLM server in step, which turns and refills are not; set "
            f'generation.engine = "vllm-colocate", or {stage}.turns = 1 and {stage}.refill = 0'
        )
    return {
        "use_vllm": True,
        "vllm_mode": "server" if server else "colocate",
        "vllm_server_base_url": generation.server or None,
        "vllm_gpu_memory_utilization": generation.memory_share,
        "vllm_tensor_parallel_size": generation.tensor_parallel,
        "vllm_max_model_length": recipe.model.context,
        "vllm_importance_sampling_correction": generation.correction != "off",
        **(
            {"vllm_importance_sampling_mode": generation.correction} if generation.correction != "off" else {}
        ),
        "vllm_importance_sampling_clip_max": generation.correction_max,
        "vllm_importance_sampling_clip_min": generation.correction_min or None,
    }
