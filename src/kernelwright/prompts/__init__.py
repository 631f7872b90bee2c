"""Prompts for the policy, and the format of its answers.

A task in function form is shown as its graph, and the answer is a plan and `def kernel(...)`; any other task is shown as its
source, and the answer contains `class ModelNew`. `templates/` has one template per agent for the `chat` style (any instruct
model), and one `compact` template for small models trained from scratch, without chat roles: training and policy concatenate
the message contents. Rendering is pure: same arguments, same prompt. A prompt never contains seeds, tolerances or expected
outputs.
"""

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from kernelwright import hardware
from kernelwright.config import Style
from kernelwright.errors import UserError
from kernelwright.graph.text import to_text
from kernelwright.graph.types import Graph
from kernelwright.precision import precision_of
from kernelwright.prompts.feedback import feedback, profile
from kernelwright.prompts.host_first import host_first, plan_and_host
from kernelwright.records import Agent, Example, Message, Pair, Prompt, Task
from kernelwright.synth import reasoning
from kernelwright.synth.library import schedules_of
from kernelwright.synth.plan import parse_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.templates import environment

__all__ = [
    "PLAN_END", "completion_text", "contrast", "example_pair", "feedback", "profile", "render", "until_kernels",
]  # fmt: skip

STYLES: tuple[Style, ...] = ("chat", "compact")
Answer = Literal["plan+code", "plan+kernels", "plan"]
PLAN_END = "</plan>"
_CONSIDERED = 6
"""Other schedules drawn for the reasons, which mention those with different figures."""
AGENTS: tuple[Agent, ...] = ("frontend", "midend", "backend")


def render(
    agent: Agent,
    task: Task,
    *,
    style: Style = "chat",
    kernel: str = "",
    plan: str = "",
    feedback: str = "",
    profile: str = "",
    others: Sequence[str] = (),
    precision: str = "default",
    target: str = "",
    max_tokens: int = 1024,
    answer: Answer = "plan+code",
) -> Prompt:
    """The prompt of `agent` for `task`.

    `kernel`: for `frontend` the rejected kernel to repair (with `feedback`; empty if the last answer had no code), for the other
    agents the verified kernel (with `profile`, and with `feedback` on an attempt to improve it). `plan`: that kernel's plan; a
    compact prompt shows only the plan of a verified kernel, since the code follows from it. `others`: further kernels of the
    graph, as written by `contrast`. `precision`: that of a graph's reference. `answer`: what a model trained for compact prompts
    writes itself; "plan+kernels" leaves the host function, and "plan" all code, to the library. `target`: a data sheet of `hardware.TARGETS`, shown only to `backend`. `max_tokens` limits the answer.

    Raises UserError for an unknown agent or style, a limit below 1, a missing kernel for `midend` or `backend`,
    and a missing or unknown target for `backend`.
    """
    _check("agent", agent, AGENTS)
    _check("style", style, STYLES)
    if max_tokens < 1:
        raise UserError(f"prompt for {agent}: max_tokens is {max_tokens}; valid: 1 or more")
    if agent != "frontend" and not kernel.strip():
        raise UserError(f"prompt for {agent}: no kernel; pass the verified kernel that it should improve")
    sheet = _sheet(target) if agent == "backend" else ""
    graph, arguments = _graph(task.graph) if task.graph else ("", "")
    fields: dict[str, object] = {
        "agent": agent,
        "graph": graph,
        "outline": _outline(task.graph) if graph and style != "chat" else "",
        "arguments": arguments,
        "precision": precision if task.precision == "default" else task.precision,
        "source": "" if graph else _notes(task) + task.source.strip(),
        "kernel": (host_first(kernel) if graph and style != "chat" else kernel).strip(),
        "plan": plan.strip(),
        "others": [one.strip() for one in others],
        "feedback": feedback.strip(),
        "profile": profile.strip(),
        "target": target if agent == "backend" else "",
        "sheet": sheet,
        "policy": task.policy,
        "min_share": task.min_share,
        "example_answer": "",
    }
    messages = _messages(agent, style, fields)
    return Prompt(
        task_id=task.id, agent=agent, messages=messages, max_tokens=max_tokens, answer=answer, task=task
    )


def _messages(agent: Agent, style: Style, fields: dict[str, object]) -> tuple[Message, ...]:
    if style != "chat":
        return (Message(role="user", content=_fill("compact", fields) + "\n"),)
    fields["example_answer"] = completion_text(_fill("example_plan", {}), _fill("example_code", fields))
    return (
        Message(role="system", content=_fill("chat_system", fields)),
        Message(role="user", content=_fill(f"chat_{agent}", fields)),
    )


def completion_text(plan: str, code: str) -> str:
    """The canonical completion: SFT trains it, and `candidates.parse` tries it first. An empty plan is left out.

    >>> completion_text("one program per row", "import torch")
    '<plan>\\none program per row\\n</plan>\\n```python\\nimport torch\\n```'
    """
    fenced = f"```python\n{code.strip()}\n```"
    return f"{plan_text(plan)}\n{fenced}" if plan.strip() else fenced


def until_kernels(json: str, plan: str) -> str:
    """The canonical completion up to its Triton kernels, with the host function that the library prints for the plan; empty if it
    prints none. Kernels and the closing fence follow."""
    found = plan_and_host(json, plan)
    return f"{plan_text(found[0])}\n```python\n{found[1]}\n\n\n" if found else ""


def plan_text(plan: str) -> str:
    """The plan in its tags: the whole answer if only the plan is asked for."""
    return f"<plan>\n{plan.strip()}\n{PLAN_END}"


def contrast(plan: str, code: str, us: float, clock: str = "modelled") -> str:
    """Another known kernel, for `others`: its time, and its plan or, without one, its code."""
    return f"{us:.4g} us {clock}\n{plan.strip() or code.strip()}"


def example_pair(
    example: Example | Pair,
    style: Style,
    answer: Answer = "plan+code",
    think: bool = False,
    profile: bool = True,
) -> tuple[Prompt, str]:
    """Prompt and completion for SFT; with `think`, the completion starts with reasons for the plan in think tags. Without
    `profile`, the prompt does not say what the kernel to improve takes."""
    improve = example.kind == "improve"
    agent: Agent = "midend" if improve else "frontend"
    if isinstance(example, Pair):
        shown = example.shown
        prompt = render(
            agent,
            example.task,
            style=style,
            kernel=shown.code if shown else "",
            plan=shown.plan if shown else "",
            feedback=shown.feedback if shown and not improve else "",
            profile=shown.feedback if shown and improve and profile else "",
            precision=example.precision,
        )
    else:
        prompt = render(
            agent,
            example.task,
            style=style,
            kernel=example.kernel,
            feedback="" if improve else example.feedback,
            profile=example.feedback if improve and profile else "",
        )
    prompt = prompt.model_copy(update={"answer": answer})
    code = host_first(example.code) if style != "chat" and example.task.graph else example.code
    text = plan_text(example.plan) if answer == "plan" else completion_text(example.plan, code)
    reasons = _reasons(example) if think and isinstance(example, Pair) else ""
    return prompt, f"<think>\n{reasons}\n</think>\n{text}" if reasons else text


def _reasons(pair: Pair) -> str:
    """Reasons printed from graph and schedule; empty if the plan is not a schedule's."""
    graph = Graph.model_validate_json(pair.task.graph)
    try:
        _, schedule = parse_plan(pair.plan)
        others = schedules_of(graph, pair.target)
        chance = random.Random(pair.plan)
        return reasoning.think(graph, schedule, chance.sample(others, min(len(others), _CONSIDERED)))
    except (UserError, Unsupported):
        return ""


@lru_cache(maxsize=512)
def _graph(json: str) -> tuple[str, str]:
    """(a graph as text, its arguments' names); cached, since the same graph is asked about many times."""
    graph = Graph.model_validate_json(json)
    return to_text(graph), ", ".join(one.name for one in graph.arguments)


@lru_cache(maxsize=512)
def _outline(json: str) -> str:
    return reasoning.outline(Graph.model_validate_json(json))


def _notes(task: Task) -> str:
    """Lines for requirements beyond a task's source: another dtype, gradients, sizes."""
    notes = []
    if cast := precision_of(task).cast:
        notes.append(f"# Parameters and floating-point inputs are cast to {cast}.\n")
    if task.gradients:
        notes.append(
            "# Gradients of inputs and parameters are asked, too: bring a torch.autograd.Function.\n"
        )
    if task.ranges:
        ranges = (f"{name} {least} to {most or 'any'}" for name, (least, most) in task.ranges.items())
        notes.append(f"# It must hold for {', '.join(ranges)}.\n")
    return "".join(notes)


def _check(what: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise UserError(f"unknown {what} {value!r}; valid: {', '.join(valid)}")


def _sheet(target: str) -> str:
    """The figures of a target that matter to a kernel's author, on one line."""
    if not target:
        raise UserError(f"prompt for backend: no target; valid: {', '.join(hardware.TARGETS)}")
    gpu = hardware.target(target)
    return (
        f"{gpu.sms} SMs, warps of {gpu.warp_size}, {gpu.threads_per_sm} threads and "
        f"{gpu.registers_per_sm} registers per SM, {gpu.shared_per_block // 1024} KiB shared memory per block, "
        f"{gpu.l2_bytes // 2**20} MiB L2, {gpu.dram_gb_s:.0f} GB/s, "
        f"{gpu.fp32_tflops:.0f} fp32 / {gpu.tf32_tflops:.0f} tf32 / {gpu.bf16_tflops:.0f} bf16 TFLOPS"
    )


def _fill(name: str, fields: dict[str, object]) -> str:
    return environment(__file__).get_template(f"{name}.jinja").render(fields).strip()
