"""Policies, loaded by name: anything that answers prompts.

    load_policy("default")                                 the package's own small model
    load_policy("runs/laptop")                             the last model that a run trained; also one of its stages
    load_policy("some/model")                              a Hugging Face causal LM: a folder or a hub name
    load_policy("openai:http://localhost:8000/v1#qwen3")   any OpenAI-compatible endpoint
    load_policy("gold")                                    the built-in golds, for tests and for calibration

A policy only generates text. It does not parse or judge its answers.
"""

from __future__ import annotations

from typing import Any

from kernelwright.errors import UserError
from kernelwright.models import DEFAULT_FOLDER
from kernelwright.policy.policy import Policy


def load_policy(spec: str, **options: Any) -> Policy:
    """The policy that `spec` names. Raises UserError if there is none.

    Options are passed on: `device`, `dtype`, `batch` to local models; `api_key`, `timeout`, `retries`, `parallel` to
    endpoints.
    """
    if spec == "gold":
        from kernelwright.policy.gold import GoldPolicy

        return GoldPolicy(**options)
    if spec.startswith("openai:"):
        from kernelwright.policy.openai import OpenAIPolicy

        return OpenAIPolicy.from_spec(spec, **options)
    if not spec.strip():
        raise UserError(
            "no policy named; give default, a model folder, a hub name, openai:BASE_URL#MODEL, or gold"
        )
    check_default(spec)
    import transformers

    from kernelwright.policy.hf import HFPolicy
    from kernelwright.policy.plan_first import PlanFirst
    from kernelwright.policy.text import trained_style

    transformers.logging.disable_progress_bar()
    if spec != "default":
        policy = HFPolicy.load(spec, **options)
    else:
        policy = HFPolicy.load(str(DEFAULT_FOLDER), **{"dtype": _default_dtype(), **options})
        policy.name = spec
    return PlanFirst(policy) if trained_style(policy.tokenizer) == "compact" else policy


def check_name(spec: str) -> None:
    """Raises UserError for a name that cannot be a policy's, and for a folder without a model. Loads nothing, needs no network."""
    if spec.startswith("openai:"):
        from kernelwright.policy.openai import OpenAIPolicy

        OpenAIPolicy.from_spec(spec)
    elif spec not in ("default", "gold"):
        from kernelwright.policy.hf import model_folder

        model_folder(spec)


def check_default(spec: str) -> None:
    """Raises UserError if `spec` is the package's own model and its weights are missing."""
    if spec == "default" and not list(DEFAULT_FOLDER.glob("*.safetensors")):
        raise UserError(
            f"policy default: its weights are not in this installation ({DEFAULT_FOLDER}); train and ship them "
            "(kernelwright train recipes/default_model.toml, kernelwright ship RUN), or name another policy with -p"
        )


def _default_dtype() -> str:
    """The weights' own dtype on a GPU; float32 on CPUs, which multiply it faster."""
    import torch

    return "auto" if torch.cuda.is_available() else "float32"
