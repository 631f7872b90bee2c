"""The model as a rung: it writes kernels, repairs rejected ones, then improves accepted ones.

    frontend   `samples` kernels at once; rejected ones are shown again with the judge's feedback, until one is right
    midend     the fastest so far with its profile, as long as answers get faster
    backend    the same with the target's sheet, if the run trained this stage

It abstains up front, with the reason in one line, if it was trained on a prompt style that is no longer supported, if the
graph has operators that its card does not list or several loop nests, or if no prompt leaves room for a completion.

May exceed its time on a GPU: samples of a prompt are generated to their end once begun.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from kernelwright import candidates, prompts
from kernelwright.errors import UserError
from kernelwright.graph import Graph, operators
from kernelwright.models import DEFAULT_FOLDER
from kernelwright.policy import Policy, check_default, load_policy
from kernelwright.records import Agent, Candidate, Completion, Prompt, Rollout, Verdict
from kernelwright.search.asks import Asking, fitting, style_of
from kernelwright.search.cache import Rung
from kernelwright.search.rung import CannotWrite, Climb
from kernelwright.synth import reasoning

AGENTS: tuple[Agent, ...] = ("frontend", "midend", "backend")
_TURNS = 2
"""Most turns of each agent."""
LEAST = 15.0
"""Seconds that must be left to ask a model, since only what it has written to the end counts."""


def agents_of(spec: str, target: str = "") -> dict[Agent, str]:
    """The policy of each agent.

    A run folder written by `train` has a checkpoint for each trained stage (sft stands in for a missing front end). Anything
    else serves as front end and mid-end, and also as back end if a `target` is named. Raises UserError if there is no such
    model.
    """
    check_default(spec)
    stages = Path(spec).expanduser() / "stages"
    if spec == "default" or not stages.is_dir():
        return {agent: spec for agent in AGENTS if agent != "backend" or target}
    trained = {agent: stages / agent / "checkpoint" for agent in AGENTS}
    if not trained["frontend"].is_dir():
        trained["frontend"] = stages / "sft" / "checkpoint"
    found = {agent: str(path) for agent, path in trained.items() if path.is_dir()}
    if "frontend" not in found:
        raise UserError(
            f"policy {spec}: this run has no finished sft or frontend stage; go on with kernelwright train --resume"
        )
    return found


class ModelRung:
    """A policy, asked turn by turn."""

    name: Rung = "model"

    def __init__(
        self,
        spec: str = "default",
        target: str = "h200",
        *,
        samples: int = 8,
        temperature: float = 0.8,
        max_tokens: int = 1024,
        seed: int = 0,
        load: Callable[[str], Policy] = load_policy,
    ) -> None:
        """Does not load the model."""
        self.spec, self.target, self.samples = spec, target, samples
        self.temperature, self.max_tokens, self.seed = temperature, max_tokens, seed
        self.key = f"model:{spec}"
        self._load, self._loaded = functools.cache(load), threading.Lock()

    def climb(self, climb: Climb) -> None:
        try:
            named = agents_of(self.spec)
        except UserError as error:
            raise CannotWrite(str(error)) from None
        if why := abstains(climb.graph, named["frontend"], climb.modules):
            raise CannotWrite(f"not asked: {why}")
        if climb.left < LEAST:
            raise TimeoutError
        rollouts: list[Rollout] = []
        for agent in AGENTS:
            for _ in range(_TURNS):
                if agent not in named or climb.left <= 0:
                    break
                if agent != "frontend" and not _right(rollouts):
                    break
                made = self._turn(climb, agent, named[agent], rollouts)
                rollouts += made
                right = list(_right(made))
                if not made or (agent == "frontend") == bool(right):
                    break
        if not rollouts:
            raise CannotWrite("its answers hold no kernel, or no prompt leaves room for one")

    def _turn(self, climb: Climb, agent: Agent, spec: str, before: Sequence[Rollout]) -> list[Rollout]:
        with self._loaded:  # one model and one caller at a time
            policy = self._load(spec)
            style, task = style_of(policy), climb.task
            if style != "chat" and not task.graph:  # small models read graphs alone
                task = task.model_copy(update={"graph": climb.graph.model_dump_json()})
            asking = Asking(task, style, self.target, self.max_tokens, fitting(policy))
            _, shown = asking.prompts(agent, before, self.samples)
            if not shown:
                return []
            each, seed = max(1, self.samples // len(shown)), self.seed + 1000 * len(before)
            texts = policy.generate(shown, each, temperature=self.temperature, seed=seed, until=climb.until)
        if climb.left <= 0:
            raise TimeoutError
        return self._judged(
            climb, agent, [(prompt, one) for prompt, group in zip(shown, texts, strict=True) for one in group]
        )

    def _judged(
        self, climb: Climb, agent: Agent, answers: Sequence[tuple[Prompt, Completion]]
    ) -> list[Rollout]:
        """Rollouts of the completions that hold a kernel, without duplicates, judged."""
        texts: dict[str, tuple[Prompt, Completion, Candidate]] = {}
        for prompt, completion in answers:
            parsed = candidates.parse(completion.text, None, completion.finish_reason)
            code = parsed.code if climb.modules else as_kernel(parsed.code)
            if parsed.problem is None and code:
                texts.setdefault(code, (prompt, completion, parsed))
        verdicts = climb.judge(list(texts)) if texts else []
        return [
            _rollout(climb, agent, *texts[code], verdict)
            for code, verdict in zip(texts, verdicts, strict=True)
            if verdict is not None
        ]


def abstains(graph: Graph, spec: str, modules: bool = False) -> str:
    """Why not to ask a model about a graph, judging by its folder; "" if there is no reason. `modules`: it may answer with a
    module that has a constructor, and is asked even if its card lists no operators."""
    folder = DEFAULT_FOLDER if spec == "default" else Path(spec).expanduser()
    if (style := style_in(folder)) and style not in prompts.STYLES:
        return f"it was trained on prompts in the style {style!r}, which is not written any more"
    known = card_operators(folder)
    if known is not None and (known or not modules):
        others = sorted({operators.packet(node.op) for node in graph.nodes} - known)
        if others:
            return f"its card does not list {', '.join(others[:4])}"
    if style == "compact" and not reasoning.outline(graph):
        return "it knows graphs of one loop nest, and this one has several"
    return ""


def card_operators(folder: Path) -> frozenset[str] | None:
    """Operators that a model's card lists in its section `## Operators`; empty without that section, None without a card."""
    try:
        text = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    except OSError:
        return None
    section = re.search(r"^## Operators\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return frozenset(re.findall(r"`(\w+)`", section[1])) if section else frozenset()


def style_in(folder: Path) -> str:
    """The prompt style that a model was trained on, "" if its folder does not say."""
    try:
        return str(json.loads((folder / "tokenizer_config.json").read_text("utf-8")).get("prompt_style", ""))
    except (OSError, ValueError):
        return ""


def as_kernel(code: str) -> str:
    """The code if it defines `kernel`, else ""."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    return code if any(isinstance(one, ast.FunctionDef) and one.name == "kernel" for one in tree.body) else ""


def _right(rollouts: Sequence[Rollout]) -> list[Rollout]:
    return [one for one in rollouts if one.verdict.correct]


def _rollout(
    climb: Climb, agent: Agent, prompt: Prompt, completion: Completion, parsed: Candidate, verdict: Verdict
) -> Rollout:
    return Rollout(
        task_id=climb.task.id,
        stage=agent,
        prompt=prompt,
        completion=completion,
        candidate=parsed,
        verdict=verdict,
    )
