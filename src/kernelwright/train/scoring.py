"""Log-probs of completions without left padding or attention mask, padded only to a minibatch's longest row.

TRL pads prompts on the left and completions on the right, both to the longest of a whole step, and its mask prevents
the fast attention kernels. Log-probs, entropies and gradients are the same here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kernelwright.train.lean import no_mask

ORDERLESS = ("dapo", "grpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo")
"""TRL's losses that do not depend on which samples of an update share a forward pass."""


def score_tokens(
    model: Any, config: Any, input_ids: Tensor, attention_mask: Tensor, keep: int, multiple: int = 1
) -> tuple[Tensor, Tensor | None]:
    """(log-probs, entropies) (B, `keep`) of the last `keep` tokens of `input_ids` (B, T), 0 where the mask is 0. Entropies
    are None if the model's head does not compute them.

    `attention_mask` (B, T) is 0 before each row's prompt and after its completion. `multiple`: see `Collator`.
    """
    total = input_ids.shape[1]
    places = torch.arange(total, device=input_ids.device)
    there = attention_mask != 0
    start = torch.where(there, places, total).amin(1, keepdim=True)
    end = torch.where(there, places + 1, 0).amax(1, keepdim=True)
    width = min(total, -(-int((end - start).max()) // multiple) * multiple)
    source = start + places[:width]
    inside, source = source < end, source.clamp(max=total - 1)
    moved = input_ids.gather(1, source)
    trained = inside & there.gather(1, source) & (source >= total - keep)
    out = model(
        input_ids=moved,
        labels=moved.masked_fill(~trained, -100),
        attention_mask=no_mask(config),
        use_cache=False,
        fused_lm_head=True,
    )
    # Output j predicts token j + 1.
    back = total - keep + places[:keep] - start - 1
    known = (back >= 0) & (back < width - 1)
    back = back.clamp(0, max(width - 2, 0))

    def placed(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.gather(1, back).masked_fill(~known, 0)

    logps = placed(out.log_probs)
    assert logps is not None
    return logps, placed(out.entropy)


def by_length(batches: Sequence[dict[str, Any]], together: int) -> list[dict[str, Any]]:
    """Sort the rows of every `together` batches (one update) by length and deal them out again, longest first."""
    made: list[dict[str, Any]] = []
    for first in range(0, len(batches), together):
        group = batches[first : first + together]
        rows = len(group[0]["completion_mask"])
        lengths = torch.cat(
            [batch["prompt_mask"].sum(1) + batch["completion_mask"].sum(1) for batch in group]
        )
        order = lengths.argsort(descending=True, stable=True)
        whole = {key: _reorder([batch[key] for batch in group], order) for key in group[0]}
        made += [
            {
                key: value[i * rows : (i + 1) * rows] if _has_rows(value) else value
                for key, value in whole.items()
            }
            for i in range(len(group))
        ]
    return made


def _reorder(values: Sequence[Any], order: Tensor) -> Any:
    if not _has_rows(values[0]):
        return values[0]
    if isinstance(values[0], Tensor):
        return torch.cat(list(values))[order]
    flat = [each for value in values for each in value]
    return [flat[i] for i in order.tolist()]


def _has_rows(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, Tensor) and value.ndim > 0)
