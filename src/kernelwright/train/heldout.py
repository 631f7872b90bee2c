"""Loss on held-out examples, by kind: shows memorisation, at the cost of a few forward passes.

They are the corpus's validation split; if that is small, a share of the operator graphs is held out of training, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
import transformers

from kernelwright.config import SftConfig
from kernelwright.records import Pair, Supervised
from kernelwright.train.batches import Collator
from kernelwright.train.best import Best
from kernelwright.train.curves import Curves
from kernelwright.train.lean import no_mask


def held_out(
    config: SftConfig, train: Sequence[Supervised], validation: Sequence[Supervised]
) -> tuple[list[Supervised], list[Supervised]]:
    """(examples to train on, at most `eval_examples` to evaluate on). The two share no operator graph.

    If `validation` has fewer than that, `eval_share` of the training graphs are held out as well, rounded down.
    """
    if not config.eval_every:
        return list(train), []
    held, examples = {_graph(example) for example in validation}, list(validation)
    if len(examples) < config.eval_examples:
        graphs = sorted({_graph(example) for example in train} - held, key=_rank)
        more = set(graphs[: int(len(graphs) * config.eval_share)])
        examples += [example for example in train if _graph(example) in more]
        held |= more
    chosen = sorted(examples, key=lambda example: _rank(example.model_dump_json()))
    return [e for e in train if _graph(e) not in held], chosen[: config.eval_examples]


def _graph(example: Supervised) -> str:
    return (example.structure if isinstance(example, Pair) else example.graph) or example.task.id


def _rank(text: str) -> str:
    """A pseudo-random order, the same on every machine."""
    return hashlib.sha256(text.encode()).hexdigest()


class HeldOut(transformers.TrainerCallback):
    """Evaluates every `every` steps and after the last; the losses are added to that step's line of the curves.

    `best` is offered the weights of each evaluation.
    """

    def __init__(
        self,
        collate: Collator,
        every: int,
        batch: int,
        curves: Curves,
        accelerator: Any,
        best: Best | None = None,
    ) -> None:
        self.collate, self.every, self.batch, self.curves = collate, every, batch, curves
        self.accelerator, self.best = accelerator, best

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> Any:
        last = state.global_step >= state.max_steps
        if len(self.collate.rows) and (last or state.global_step % self.every == 0):
            losses = self.losses(model)
            self.curves.extra.update(losses)
            control.should_log = True
            if self.best is not None:
                first = self.accelerator.is_main_process
                self.best.offer(model, state.global_step, losses["heldout_loss"], write=first)
        return control

    @torch.no_grad()
    def losses(self, model: Any) -> dict[str, float]:
        """`heldout_loss` and `heldout_loss_<kind>` in nats per trained token; each process evaluates its share of the rows.

        All processes make equally many passes, since each pass gathers a split model in all of them: one without rows left
        repeats a row, uncounted."""
        kinds = sorted(set(self.collate.rows.kinds))
        device, world = self.accelerator.device, self.accelerator.num_processes
        sums = torch.zeros(2, len(kinds), dtype=torch.float64, device=device)
        mine = range(self.accelerator.process_index, len(self.collate.rows), world)
        rows = sorted(mine, key=lambda row: int(self.collate.rows.lengths[row]))
        training = model.training
        model.eval()
        # Compiling again, without gradients, would take longer than it saves.
        with torch.compiler.set_stance("force_eager"):
            for start in range(0, -(-len(self.collate.rows) // world), self.batch):
                counted = rows[start : start + self.batch]
                chosen = counted or [0]
                batch = {k: v.to(device) for k, v in self.collate([{"row": row} for row in chosen]).items()}
                out = model(
                    **batch, attention_mask=no_mask(model.config), use_cache=False, fused_lm_head=True
                )
                if not counted:
                    continue
                where = torch.tensor([kinds.index(self.collate.rows.kinds[row]) for row in chosen]).to(device)
                sums[0].index_add_(0, where, -out.log_probs.sum(1, dtype=torch.float64))
                sums[1].index_add_(0, where, out.label_mask.sum(1, dtype=torch.float64))
        model.train(training)
        loss, count = self.accelerator.reduce(sums, "sum").tolist()
        shown = {
            f"heldout_loss_{kind}": total / max(n, 1.0)
            for kind, total, n in zip(kinds, loss, count, strict=True)
        }
        return {"heldout_loss": sum(loss) / max(sum(count), 1.0), **shown}
