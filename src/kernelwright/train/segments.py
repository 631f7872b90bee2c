"""GRPO with separate rewards for plan and code, on TRL's GRPOTrainer and the real verifier.

We override these parts of TRL. `rollout_func`: completions, verdicts and rewards come from `rollouts.Rolling`, as in
evaluation. `_calculate_rewards`: returns the conversations' returns of plan and code.
`_generate_and_score_completions`: replaces the advantages by token-level ones, which `advantages.py` computes from the
labels of `credit.py`. The loss, its clipping and averaging are TRL's own; the log-probs in it come from `scoring.py`.

The data set is only a list of slots: a curriculum decides what a step asks, so a resumed run asks the same.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import trl
from accelerate.utils import DistributedType, gather, gather_object
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from kernelwright.config import Recipe
from kernelwright.errors import InfrastructureError
from kernelwright.metrics import plan_entropy
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.hf import HFPolicy
from kernelwright.records import Prompt, Rollout, Task
from kernelwright.rollouts import Rolling, Verifier, gpu_seconds, quiet_gpu
from kernelwright.train import processes
from kernelwright.train.advantages import agreeing, lift_entropy, modal, spread
from kernelwright.train.ahead import Steps, Work
from kernelwright.train.checkpoints import AtomicCheckpoints, last_checkpoint, whole_tensor
from kernelwright.train.credit import CODE, PLAN, Conversation, agree, repaid, returns, row, turn_row
from kernelwright.train.curriculum import Curriculum
from kernelwright.train.curves import Curves, rollout_curve, tracker_metrics
from kernelwright.train.estimate import SLOTS_SHARE
from kernelwright.train.model import adapters, compile_layers
from kernelwright.train.optimizers import ChosenOptimizer
from kernelwright.train.prompts import Ask, judge_of
from kernelwright.train.scoring import ORDERLESS, by_length, score_tokens
from kernelwright.train.segment_advantages import segment_advantages, spread_options, trained_turns
from kernelwright.train.sft import PAD_TO, common_args, on_one_gpu
from kernelwright.train.timed import Timed
from kernelwright.train.turns import Waiting, converse
from kernelwright.train.vllm import VllmPolicy, geometric_ratio, reload, uncompiled, vllm_args

Groups = list[list[Conversation]]
"""A step's conversations by group."""
_FIRST_GATES = (Gate.PARSE, Gate.STATIC)


class SegmentTrainer(ChosenOptimizer, Timed, AtomicCheckpoints, trl.GRPOTrainer):
    """TRL's trainer on our rollouts, with an advantage for every token."""

    def __init__(
        self,
        recipe: Recipe,
        model: Any,
        tokenizer: Any,
        curriculum: Curriculum,
        judge: Verifier,
        curves: Curves,
    ) -> None:
        from datasets import Dataset

        self.recipe, self.stage, self.rl = recipe, curves.stage, recipe.rl(curves.stage)
        self.chosen = self.rl
        self.curriculum, self.curves = curriculum, curves
        self.judge = judge_of(recipe, judge)
        self.compact = recipe.compact_checkpoints
        self._known = {ask.task.digest: ask.best_us for ask in curriculum.asks}
        """Task digest -> microseconds of the best known kernel, on the judge's kind of clock."""
        self._segments: tuple[Tensor, Tensor, list[list[int]]] | None = None
        self._nats: dict[str, float] | None = None
        self._hush = quiet_gpu(judge)
        self._busy = contextlib.ExitStack()
        self._seconds = {"generate": 0.0, "verify": 0.0}
        self._spent, self._began = gpu_seconds(judge), time.perf_counter()
        # A row of the data set is a slot for a prompt, which the curriculum chooses.
        slots = [str(slot) for slot in range(self.rl.prompts * self.rl.steps)]
        on_a_cpu = recipe.generation.engine == "vllm-colocate" and not torch.cuda.is_available()
        with uncompiled(on_a_cpu):
            super().__init__(
                model=model,
                reward_funcs=[plan_reward, code_reward],
                args=grpo_config(recipe, curves),
                train_dataset=Dataset.from_dict({"prompt": slots}),
                processing_class=tokenizer,
                peft_config=None if hasattr(model, "peft_config") else adapters(recipe.lora),
                callbacks=[curves],
                rollout_func=_roll_slots,  # type: ignore[arg-type]
            )
        split = self.accelerator.distributed_type == DistributedType.FSDP
        self._writer = _whole_copy(self.model) if split and not self.args.use_vllm else None
        """With FSDP: a whole model in every process, which samples in place of the split one."""
        if self.rl.compile and torch.cuda.is_available():
            compile_layers(self.model)
        if on_a_cpu:
            generation: Any = self.vllm_generation
            generation.sync_weights = functools.partial(reload, generation)
        reached = last_checkpoint(curves.steps_dir)
        self._steps: Steps[tuple[Groups, Groups]] = Steps(
            self._conversations_of,
            ahead=self.rl.staleness,
            last=self.rl.steps - 1,
            saved=ahead_file(reached, self.accelerator.process_index) if reached else None,
        )

    def conversations(self, slots: int) -> list[Conversation]:
        """This process's conversations of the current step, filling `slots` rows, group by group."""
        step = self.state.global_step // self.rl.updates_per_step
        assert slots == self.rl.rows * self.rl.prompts // self.accelerator.num_processes
        self.release()
        self.refresh()
        self._seconds = {"generate": 0.0, "verify": 0.0}
        (groups, done), work = self._steps.finish(step)
        if self._hush is not None and self._steps.under_way:
            # Later steps are verified during the update: nothing may be timed on this GPU until the next step collects.
            self._busy.enter_context(self._hush())
        everyone = gather_object([[r for talk in group for r in talk.turns] for group in done])
        self._log_rollouts(everyone)
        self.curriculum.observe(rollout for group in everyone for rollout in group)
        if self.accelerator.is_main_process:
            if self.rl.refill:
                self.curves.extra["refilled"] = len(everyone) - self.rl.prompts
            if self.rl.staleness:
                self.curves.extra["staleness"] = work.age(step)
        return [talk for group in groups for talk in group]

    def _conversations_of(self, work: Work, step: int) -> Waiting[tuple[Groups, Groups]]:
        """(conversations of a step to train on, all that were held), by group."""
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        count = self.rl.prompts // world
        places = range(rank * count, (rank + 1) * count)
        asks = self._draw(work, lambda: self.curriculum.draw(step, self.rl.prompts))
        groups = yield from self._converse(work, [(place, asks[place]) for place in places], step, 0)
        done = list(groups)
        for again in range(1, self.rl.refill + 1):
            stale = [i for i, group in enumerate(groups) if agree(group, self.rl.turns, self.rl.gamma)]
            if not stale:
                break
            fresh = self._draw(work, lambda: self.curriculum.more(step, again, self.rl.prompts))  # noqa: B023
            stale_rows = [(places[i], fresh[places[i]]) for i in stale]
            made = yield from self._converse(work, stale_rows, step, again)
            for i, group in zip(stale, made, strict=True):
                groups[i] = group
            done += made
        return groups, done

    def _draw(self, work: Work, fresh: Callable[[], list[Ask]]) -> list[Ask]:
        """A round's asks: replayed from the step's record, else drawn."""
        asks = self.curriculum.asks
        places = {id(ask): place for place, ask in enumerate(asks)}
        return [asks[place] for place in work.draw(lambda: [places[id(ask)] for ask in fresh()])]

    def save_more(self, folder: Path) -> None:
        """Save what later steps have sampled: a resumed run no longer has the weights that wrote it."""
        self._steps.save(ahead_file(folder, self.accelerator.process_index))

    def release(self) -> None:
        """Let kernels be timed on this GPU again."""
        self._busy.close()

    def _prompt(self, ask: Ask) -> Prompt:
        return ask.prompt(self.recipe.data.style, self.rl.max_tokens, self.recipe.answer(self.stage))

    def _group(self, step: int, place: int) -> str:
        return f"{self.stage}/{step + 1}/{place}"

    def refresh(self) -> None:
        """Make sampling use the current weights. With FSDP, copies one weight after another, and only trained ones: another whole
        model would not fit."""
        if self._writer is not None:
            copies = dict(self._writer.named_parameters())
            with torch.no_grad():
                for name, trained in self.model.named_parameters():
                    if trained.requires_grad:
                        copies[name].copy_(whole_tensor(trained))

    @functools.cached_property
    def policy(self) -> HFPolicy:
        """The policy that samples: the trained model in this process, vLLM, or a whole copy of a split model."""
        model = self.accelerator.unwrap_model(self.model)
        if self._writer is not None:
            model = self._writer.to(self.accelerator.device)
        name, rows = f"{self.recipe.name}/{self.stage}", self.recipe.generation.rows
        if self.args.use_vllm:
            return VllmPolicy(self.vllm_generation, model, self.processing_class, name)
        half = torch.bfloat16 if self.recipe.model.autocast and model.device.type == "cuda" else None
        slots = self._writer is None or fits_a_whole_copy(model)
        return HFPolicy(model, self.processing_class, name, batch=rows, dtype=half, continuous=slots)

    def _converse(
        self, work: Work, asks: Sequence[tuple[int, Ask]], step: int, again: int
    ) -> Waiting[Groups]:
        """A group of conversations for each (place in the step, ask). `again`: the round of refilling, from 1; 0 at first."""
        policy = self.policy

        def answers(
            prompts: Sequence[Prompt], tasks: Sequence[Task], turn: int
        ) -> Waiting[list[list[Rollout]]]:
            rolling = Rolling(
                policy,
                prompts,
                tasks,
                self.judge,
                reward=self.rl.reward,
                stage=self.stage,
                step=step + 1,
                known_us=[self._known.get(task.digest) for task in tasks],
                among=self.rl.reward == "plans",
                drop_broken=True,
            )
            sampling: dict[str, Any] = {
                "temperature": self.rl.temperature,
                "top_p": self.rl.top_p,
                "seed": self.recipe.seed * 100_003 + step + (turn * 16 + again) * 1_000_003_019,
            }
            n, now = 1 if turn else self.rl.samples, self.state.global_step // self.rl.updates_per_step
            work.say(rolling, lambda: rolling.generate(n, **sampling), now)
            policy.given.clear()
            policy.numbers.clear()
            self._seconds["generate"] += rolling.generate_s
            yield
            groups = rolling.collect()
            self._seconds["verify"] += rolling.wait_s
            return [[repaid(rollout, self.rl.dead_band) for rollout in group] for group in groups]

        tasks, places = [ask.task for _, ask in asks], [place for place, _ in asks]
        prompts = [self._prompt(ask) for _, ask in asks]
        policy.numbers = {id(prompt): place for prompt, place in zip(prompts, places, strict=True)}
        rolled = yield from answers(prompts, tasks, 0)
        suffix = f"+{again}" if again else ""
        first = [
            [r.model_copy(update={"group": self._group(step, place) + suffix}) for r in group]
            for place, group in zip(places, rolled, strict=True)
        ]
        return (yield from converse(policy, first, tasks, places, self.rl, answers))

    def _log_rollouts(self, groups: Sequence[Sequence[Rollout]]) -> None:
        """Log the rollouts. Raises InfrastructureError if no candidate got a fair verdict, or the verifier failed on all it got."""
        rollouts = [rollout for group in groups for rollout in group]
        failed = [r for r in rollouts if r.verdict.outcome is Outcome.INFRASTRUCTURE_ERROR]
        # Candidates that fail at the first gates never reach a worker, so they do not show that the verifier works.
        tried = [r for r in rollouts if r.verdict.outcome.judged and r.verdict.gate not in _FIRST_GATES]
        if not tried and len(failed) * 4 >= len(rollouts):
            raise InfrastructureError(
                f"{self.stage}: the verifier failed on all {len(failed)} candidates that came to it in a step "
                f"({failed[0].verdict.detail}); see kernelwright doctor, then go on with --resume"
            )
        if not any(r.verdict.outcome.judged for r in rollouts):
            raise InfrastructureError(
                f"{self.stage}: none of a step's {len(rollouts)} candidates got a fair verdict "
                f"({rollouts[0].verdict.outcome}: {rollouts[0].verdict.detail}); set verify.backend to one that can "
                "run them, or see kernelwright doctor"
            )
        self._nats = plan_entropy(rollouts)
        if self.accelerator.is_main_process:
            self.curves.run.append("rollouts.jsonl", rollouts)
            before, self._spent = self._spent, gpu_seconds(self.judge)
            judged = {what: spent - before[what] for what, spent in self._spent.items()}
            seconds = {phase: round(spent, 3) for phase, spent in (self._seconds | judged).items()}
            now = time.perf_counter()
            idle, self._began = self._seconds["verify"] / max(now - self._began, 1e-9), now
            drawn = self.curriculum.drawn(group[0].task_id for group in groups if group)
            self.curves.extra = {
                **rollout_curve(groups),
                "drawn": drawn,
                "idle_share": idle,
                "seconds": seconds,
            }

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """TRL's, with the samples of an update ordered so that little padding is needed."""
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        together = self.args.gradient_accumulation_steps
        if self._buffered_inputs is not before and together > 1 and self.rl.loss in ORDERLESS:
            self._buffered_inputs = by_length(self._buffered_inputs, together)
            inputs = self._buffered_inputs[self._step % self.args.steps_per_generation]
        return inputs

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """TRL's, computed by `score_tokens`. Models with experts or images use TRL's implementation."""
        if compute_aux_loss or any(value is not None for value in images.values()):
            return super()._get_per_token_logps_and_entropies(
                model,
                input_ids,
                attention_mask,
                logits_to_keep,
                batch_size=batch_size,
                compute_entropy=compute_entropy,
                compute_aux_loss=compute_aux_loss,
                **images,
            )
        config, each = self.accelerator.unwrap_model(model).config, batch_size or len(input_ids)
        multiple = PAD_TO if input_ids.is_cuda else 1
        with self.accelerator.autocast():
            parts = [
                score_tokens(model, config, *some, logits_to_keep, multiple)
                for some in zip(input_ids.split(each), attention_mask.split(each), strict=True)
            ]
        logps = torch.cat([part[0] for part in parts])
        entropies = [part[1] for part in parts if part[1] is not None] if compute_entropy else []
        return logps, torch.cat(entropies) if entropies else None, None

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: Any,
        completions: Any,
        completion_ids_list: list[list[int]],
    ) -> Tensor:
        """Returns (B, 2) of the rows of all processes, NaN for None: those of a conversation's first turn, or of each turn if
        turns are rows of their own. Also stores those of every turn."""
        each = self.rl.rows // self.rl.samples
        talks: list[Conversation] = [slot["talk"] for slot in inputs[::each]]
        device, turns = self.accelerator.device, self.rl.turns
        paid = [returns(talk, turns, self.rl.gamma) for talk in talks]
        local = torch.tensor(paid, dtype=torch.float32, device=device)
        if self.rl.truncated == "drop":
            for i, talk in enumerate(talks):
                if talk.cut:
                    local[i, len(talk.turns) - 1] = torch.nan
        plans = torch.tensor([_plan_ids(talk, turns) for talk in talks], device=device)
        everyone: Tensor = gather(local)
        self._segments = everyone, gather(plans), [slot["labels"] for slot in inputs]
        return everyone[:, :each].flatten(0, 1)

    def _free_plans(self, batch: dict[str, Any], labels: Tensor) -> None:
        """Plan tokens only: raise their entropy while it is low, and leave them out of the KL."""
        is_plan = (labels % 3 == PLAN) & (labels >= 0) & (batch["completion_mask"] > 0)
        nats = (self._nats or {}).get("decision")
        if self.rl.entropy_floor and nats is not None:
            sampled = batch["sampling_per_token_logps"]
            batch["advantages"] = lift_entropy(
                batch["advantages"], sampled, is_plan, nats, self.rl.entropy_floor, self.rl.entropy_gain
            )
        if self.rl.kl_on == "code" and "ref_per_token_logps" in batch:
            # With the policy's own log-probs as reference, the KL estimate and its gradient are 0.
            own, held = batch["sampling_per_token_logps"], batch["ref_per_token_logps"]
            batch["ref_per_token_logps"] = torch.where(is_plan, own, held)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's batch with token-level advantages (B, T) in place of (B,), and turns that are not trained on masked."""
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        assert self._segments is not None
        (paid, plans, labels_of), self._segments = self._segments, None
        rank, device = self.accelerator.process_index, self.accelerator.device
        each = self.rl.rows // self.rl.samples
        mine = slice(rank * len(inputs) // each, (rank + 1) * len(inputs) // each)
        plan, code = segment_advantages(paid, self.rl, plans)
        # Padding is labelled as the first turn's code: it is masked, and scalar GRPO has the same number there.
        labels = pad_sequence([torch.tensor(row) for row in labels_of], batch_first=True, padding_value=CODE)
        labels = torch.nn.functional.pad(
            labels, (0, batch["completion_ids"].shape[1] - labels.shape[1]), value=CODE
        )
        labels = labels.to(device)
        plan, code = (segment[mine].repeat_interleave(each, 0) for segment in (plan, code))
        batch["advantages"] = spread(plan, code, labels, **spread_options(self.rl))
        if self.rl.modal:
            batch["advantages"] = modal(batch["advantages"], batch["sampling_per_token_logps"])
        self._free_plans(batch, labels)
        trained = trained_turns(paid, self.rl)[mine]
        if self.rl.truncated == "mask":
            for i, slot in enumerate(inputs[::each]):
                if slot["talk"].cut:
                    trained[i, len(slot["talk"].turns) - 1] = False
        if self.rl.staleness and not self.args.use_vllm:
            # Samples are some updates old: the ratio is relative to the policy that sampled them.
            batch["old_per_token_logps"] = batch["sampling_per_token_logps"]
        kept = trained.repeat_interleave(each, 0).gather(1, labels.clamp(min=0) // 3)
        key = "tool_mask" if "tool_mask" in batch else "completion_mask"
        batch[key] = batch[key] * kept
        in_loss = batch["completion_mask"] * batch.get("tool_mask", 1)
        tokens: Tensor = gather(in_loss.sum())
        batch["num_items_in_batch"] = tokens.sum()
        if "importance_sampling_ratio" in batch:
            self._correct(batch, in_loss)
        first = paid[:, 0].sum(1)
        self.curves.extra["zero_variance"] = agreeing(first, self.rl.samples).float().mean().item()
        self.curves.extra["dropped"] = int(first.isnan().sum())
        return batch

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's, with the figures of the next line of the curves, for trackers."""
        if "loss" in logs:
            logs |= tracker_metrics(self.curves.extra)
        super().log(logs, start_time)

    def _correct(self, batch: dict[str, Any], in_loss: Tensor) -> None:
        """Importance weights for vLLM's different numerics, unless they are TRL's own; logs how far the two differ."""
        old, sampled = batch["old_per_token_logps"], batch["sampling_per_token_logps"]
        if self.recipe.generation.correction.startswith("geometric"):
            ratio = geometric_ratio(self.recipe.generation, old, sampled, in_loss)
            batch["importance_sampling_ratio"] = ratio
        apart = ((old - sampled).nan_to_num(nan=0.0) * in_loss).double()
        # Schulman's k3 estimator of KL(vLLM, trainer), never negative.
        terms = (apart.exp() - 1 - apart).sum()
        left_out = ((batch["importance_sampling_ratio"] == 0) * in_loss).sum()
        sums: Tensor = gather(torch.stack([terms, left_out.double(), in_loss.sum().double()])[None]).sum(0)
        count = max(sums[2].item(), 1.0)
        self.curves.extra["mismatch_kl"] = sums[0].item() / count
        self.curves.extra["masked_share"] = sums[1].item() / count


def ahead_file(folder: Path, rank: int) -> Path:
    """The file in a checkpoint with what a process sampled of later steps."""
    return folder / f"ahead-{rank}.json"


def _plan_ids(talk: Conversation, turns: int) -> list[int]:
    """An id for the plan of each turn; equal plans have equal ids."""
    texts = [" ".join(rollout.candidate.plan.split()) for rollout in talk.turns]
    ids = [int.from_bytes(hashlib.sha256(plan.encode()).digest()[:7], "big") for plan in texts]
    return ids + [0] * (turns - len(ids))


def fits_a_whole_copy(model: Any) -> bool:
    """Whether a whole copy of a split model samples in slots, which hold its weights once more: if the model takes at most 1 /
    SLOTS_SHARE of the GPU. On a CPU always."""
    if model.device.type != "cuda":
        return True
    held = sum(parameter.nbytes for parameter in model.parameters())
    return SLOTS_SHARE * held <= torch.cuda.get_device_properties(model.device).total_memory


def _whole_copy(model: Any) -> Any:
    """An independent copy: TRL patches the model's forward with one bound to the original, which is removed."""
    made = copy.deepcopy(model)
    inner = made.get_base_model() if hasattr(made, "get_base_model") else made
    inner.__dict__.pop("forward", None)
    return made


def plan_reward(**kwargs: Any) -> list[float | None]:
    """Gives the first reward column its name in TRL's logs; values come from `_calculate_rewards`."""
    raise AssertionError("rewards come from rollouts")


def code_reward(**kwargs: Any) -> list[float | None]:
    """Gives the second column its name."""
    raise AssertionError("rewards come from rollouts")


def _roll_slots(prompts: list[str], trainer: SegmentTrainer) -> dict[str, Any]:
    """TRL's `rollout_func`: the slots give the number of samples, the trainer's curriculum the tasks."""
    talks, end = trainer.conversations(len(prompts)), trainer.eos_token_ids[0]
    rows = [row(talk, end) for talk in talks]
    if trainer.rl.history == "answers":
        turns = range(trainer.rl.turns)
        rows = [turn_row(talk, turn, end) for talk in talks for turn in turns]
        talks = [talk for talk in talks for _ in turns]
    columns = {
        "prompt_ids": [each.prompt for each in rows],
        "completion_ids": [each.tokens for each in rows],
        "logprobs": [each.logprobs for each in rows],
        "labels": [each.labels for each in rows],
        "talk": talks,
    }
    return columns if trainer.rl.turns == 1 else {**columns, "env_mask": [each.own for each in rows]}


def grpo_config(recipe: Recipe, curves: Curves) -> trl.GRPOConfig:
    stage, world = curves.stage, processes.count()
    rl = recipe.rl(stage)
    per_step = rl.updates_per_step
    processes.share_of(rl.prompts, f"{stage}.prompts")
    update = rl.prompts * rl.rows // rl.updates // world
    minibatch = min(rl.minibatch or update, update)
    config = trl.GRPOConfig(
        **common_args(recipe, curves, rl.save_every * per_step, rl.learning_rate, rl.warmup),
        logging_steps=per_step,
        per_device_train_batch_size=minibatch,
        gradient_accumulation_steps=update // minibatch,
        steps_per_generation=rl.updates * update // minibatch,
        num_iterations=rl.epochs,
        max_steps=rl.steps * per_step,
        num_generations=rl.rows,
        max_completion_length=rl.max_tokens,
        temperature=rl.temperature,
        top_p=rl.top_p,
        lr_scheduler_type=rl.schedule,
        weight_decay=rl.weight_decay,
        max_grad_norm=rl.max_grad_norm,
        beta=rl.beta,
        epsilon=rl.epsilon,
        epsilon_high=rl.epsilon_high or None,
        loss_type=rl.loss,
        importance_sampling_level=rl.importance,
        delta=rl.delta or None,
        top_entropy_quantile=rl.entropy_share,
        entropy_coef=rl.entropy_bonus,
        off_policy_mask_threshold=rl.off_policy_mask or None,
        use_bias_correction_kl=rl.unbiased_kl,
        scale_rewards="none",
        mask_truncated_completions=False,
        shuffle_dataset=False,
        log_completions=False,
        **vllm_args(recipe, stage, world),
    )
    return on_one_gpu(config)
