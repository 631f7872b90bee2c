"""The initial model of a run: random weights in the recipe's sizes, or from a folder or hub name.

Setups that cannot work raise an error before the first step: no tokenizer, no padding token, a base that does not
exist.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from kernelwright.config import LoraConfig, ModelConfig
from kernelwright.errors import UserError, one_line
from kernelwright.policy.hf import ask_hub
from kernelwright.train.architectures import KNOWN, known_architecture


def load_tokenizer(spec: str) -> Any:
    """The tokenizer in a folder or at a hub name, padding on the left, with a pad token other than its EOS."""
    from transformers import AutoTokenizer

    if not spec:
        raise UserError(
            "no tokenizer; set data.tokenizer to a folder, or make one with kernelwright data make"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(spec, padding_side="left")
    except (OSError, ValueError) as error:
        raise UserError(
            f"tokenizer {spec} cannot be loaded ({one_line(error)}); name a local folder, or go online"
        ) from None
    if tokenizer.eos_token_id is None:
        raise UserError(f"tokenizer {spec} has no end-of-sequence token; set its eos_token")
    if tokenizer.pad_token_id is None or tokenizer.pad_token_id == tokenizer.eos_token_id:
        spare = next((t for t in ("<pad>", "<|pad|>", "<|endoftext|>") if t in tokenizer.get_vocab()), None)
        if spare is None or spare == tokenizer.eos_token:
            raise UserError(f"tokenizer {spec} has no padding token apart from its EOS; set its pad_token")
        tokenizer.pad_token = spare
    return tokenizer


def architecture_of(config: ModelConfig, vocab_size: int) -> Any:
    """The transformers config of a recipe's model: that of its base if it has one, else Qwen3 in the given sizes.

    Raises UserError if the base is neither known nor a folder, and cannot be found on the hub.
    """
    from transformers import AutoConfig, Qwen3Config

    if not config.base:
        return Qwen3Config(
            vocab_size=vocab_size,
            hidden_size=config.hidden_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            head_dim=config.head_dim,
            intermediate_size=config.intermediate_size,
            max_position_embeddings=config.context,
            tie_word_embeddings=config.tie_embeddings,
        )
    sizes = known_architecture(config.base)
    if sizes is not None:
        return AutoConfig.for_model(**sizes)
    try:
        ask_hub(config.base)
        return AutoConfig.from_pretrained(config.base)
    except Exception as error:  # whatever the hub or the network raises
        raise UserError(
            f"model.base {config.base} has no config ({one_line(error)}); name a local folder, a hub name while "
            f"online, or one whose sizes are known: {', '.join(KNOWN)}"
        ) from None


def check_base(config: ModelConfig) -> None:
    """Raises UserError early for a base that is not a known name, a folder, or a name on the hub."""
    if config.init == "random":
        architecture_of(config, 0)
    elif config.base != "default":
        try:
            ask_hub(config.base)
        except Exception as error:  # whatever the hub or the network raises
            raise UserError(
                f"model.base {config.base} cannot be had ({one_line(error)}); name a local folder, or a hub name while online"
            ) from None


def new_model(config: ModelConfig, tokenizer: Any, seed: int) -> Any:
    """A model with random weights. Its architecture may have a larger vocabulary than the tokenizer."""
    from transformers import AutoModelForCausalLM

    architecture = architecture_of(config, len(tokenizer))
    if architecture.vocab_size < len(tokenizer):
        raise UserError(
            f"model.base {config.base} has {architecture.vocab_size} tokens, the tokenizer {len(tokenizer)}; "
            "set data.tokenizer to a smaller one"
        )
    architecture.pad_token_id, architecture.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    architecture.bos_token_id = tokenizer.bos_token_id
    torch.manual_seed(seed)
    # Eight billion random numbers take a CPU core two minutes, and a GPU a moment.
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        return AutoModelForCausalLM.from_config(architecture, dtype=getattr(torch, config.dtype))


def load_model(spec: str, dtype: str) -> Any:
    """The model in a folder or at a hub name. Raises UserError if it does not exist, or if its weights do not fit its config."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            spec, dtype=getattr(torch, dtype), output_loading_info=True
        )
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        raise UserError(
            f"model {spec} cannot be loaded ({one_line(error)}); name a local folder, or a hub name while online"
        ) from None
    except RuntimeError as error:
        if "size" not in str(error):
            raise
        raise UserError(_other_architecture(spec, "their shapes differ")) from None
    model, read = loaded
    if read["missing_keys"]:
        names = sorted(read["missing_keys"])
        raise UserError(_other_architecture(spec, f"{len(names)} are missing, such as {names[0]}"))
    return model


def _other_architecture(spec: str, how: str) -> str:
    return (
        f"model {spec}: its weights are not those of its config.json ({how}); put the config beside them that they were "
        "saved with, or name another folder"
    )


def attend(model: Any, how: str) -> None:
    """Set a model's attention implementation, by its name in transformers; empty: keep the default. Raises UserError if its
    package is not installed."""
    if not how:
        return
    inner = model.get_base_model() if hasattr(model, "peft_config") else model
    try:
        inner.set_attn_implementation(how)
    except (ImportError, ValueError) as error:
        raise UserError(
            f"model.attention = {how!r} cannot be had here ({one_line(error)}); install its package, or leave it empty"
        ) from None


def load_adapted(folder: str, dtype: str) -> Any:
    """A model saved by `save_model`: a whole one, or the base with the adapter in `folder`, ready for further training."""
    adapter = Path(folder) / "adapter_config.json"
    if not adapter.exists():
        return load_model(folder, dtype)
    from peft import PeftModel

    base = json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"]
    model = load_model(base, dtype)
    try:
        return PeftModel.from_pretrained(model, folder, is_trainable=True)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"adapter {folder} does not fit {base} ({one_line(error)}); it was trained on a base of another architecture"
        ) from None


def adapters(config: LoraConfig) -> Any:
    """The peft config of a recipe's LoRA, or None if it is off."""
    if config.rank == 0:
        return None
    from peft import LoraConfig as PeftLora

    return PeftLora(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=list(config.targets),
        task_type="CAUSAL_LM",
    )


def compile_layers(model: Any) -> None:
    """Compile every decoder layer on its first call: one compilation serves all layers, for any length.

    The module tree and the names of its weights do not change.
    """
    inner = model.get_base_model() if hasattr(model, "peft_config") else model
    names = set(inner._no_split_modules or ())
    for module in inner.modules():
        if type(module).__name__ in names:
            module.compile(dynamic=True)


def parameters(model: Any) -> int:
    """Number of weights, each counted once."""
    return sum(p.numel() for p in model.parameters())
