"""Removes host-device synchronisation from steps of supervised fine-tuning, so that a GPU never waits for the host.

TRL's SFTTrainer reads five numbers back from the GPU in every step, and each read waits for all queued work. Here they
are summed on the GPU until a line is logged. Metrics, losses and gradients are the same.
"""

from __future__ import annotations

from typing import Any

import torch


class LeanSteps:
    """Mixin before SFTTrainer: sums metrics on the GPU, needs no mask, counts no FLOPs."""

    accelerator: Any
    args: Any
    curves: Any
    _metrics: Any
    _tally: torch.Tensor | None = None
    """Since the last line: trained tokens, sum of their entropies, how many were the likeliest token, all tokens."""

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Mean loss over the trained tokens of all processes, as in SFTTrainer."""
        assert not return_outputs
        inner = self.accelerator.unwrap_model(model)
        out = model(
            input_ids=inputs["input_ids"],
            labels=inputs["labels"],
            attention_mask=no_mask(inner.config),
            use_cache=False,
            fused_lm_head=True,
            num_items_in_batch=num_items_in_batch,
        )
        with torch.no_grad():
            there = (inputs["input_ids"] != inner.config.pad_token_id).sum()
            seen = [out.label_mask.sum(), out.entropy.sum(), out.is_top1.sum(), there]
            tally = torch.stack([each.to(torch.float64) for each in seen])
            self._tally = tally if self._tally is None else self._tally + tally
        loss: torch.Tensor = out.loss
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            loss = loss * self.accelerator.num_processes
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the metrics of the steps since the last line, under TRL's names."""
        if self._tally is not None and "loss" in logs:
            trained, entropy, likeliest, tokens = self.accelerator.reduce(self._tally, "sum").tolist()
            self._tally = None
            self._metrics["train"]["entropy"] = [entropy / max(trained, 1)]
            self._metrics["train"]["mean_token_accuracy"] = [likeliest / max(trained, 1)]
            self.curves.extra["tokens"] = int(tokens)
        super().log(logs, start_time)  # type: ignore[misc]

    def floating_point_ops(self, inputs: Any) -> int:
        """Returns 0: visiting all parameters in every step costs more than the figure is worth."""
        return 0


def no_mask(config: Any) -> Any:
    """The mask argument for "causal, nothing masked": None, or the model's own masks if making them would inspect positions
    on the GPU, to find packed sequences that we never have."""
    layers = getattr(config, "layer_types", None) or ()
    ready = config.model_type in ("qwen2", "qwen3") and config._attn_implementation == "sdpa"
    return {"full_attention": None} if ready and set(layers) == {"full_attention"} else None
