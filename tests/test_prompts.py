"""Prompts tell every agent what it needs and nothing of the judge's secrets; verdicts become short messages."""

import ast

import pytest
from functions import improving, pair, softmax_task

from kernelwright import hardware
from kernelwright.candidates import parse
from kernelwright.errors import UserError
from kernelwright.graph.types import Graph
from kernelwright.outcomes import Gate, Outcome
from kernelwright.prompts import (
    completion_text,
    contrast,
    example_pair,
    feedback,
    profile,
    render,
    until_kernels,
)
from kernelwright.prompts.feedback import LIMIT
from kernelwright.prompts.host_first import host_first
from kernelwright.records import Binary, Cost, Evidence, Mismatch, Prompt, Task, Timing, Verdict
from kernelwright.synth.library import program_of_plan
from kernelwright.synth.to_triton import print_triton

TASK = Task(id="made/up", source="import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n")
KERNEL = "import triton\n\n\nclass ModelNew:\n    pass\n"
STYLES = ("chat", "compact")


def text(prompt: Prompt) -> str:
    return "\n\n".join(message.content for message in prompt.messages)


def ask(agent: str, style: str = "chat", task: Task = TASK, **more: str) -> Prompt:
    if agent != "frontend":
        more = {"kernel": KERNEL, "target": "h200", **more}
    return render(agent, task, style=style, **more)  # type: ignore[arg-type]


# -- what is asked


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("agent", ["frontend", "midend", "backend"])
def test_every_agent_is_shown_the_reference(agent: str, style: str) -> None:
    prompt = ask(agent, style)
    assert TASK.source.strip() in text(prompt)
    assert (prompt.task_id, prompt.agent, prompt.max_tokens) == ("made/up", agent, 1024)
    assert prompt == ask(agent, style)
    assert "{{" not in text(prompt)
    assert "{%" not in text(prompt)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("agent", ["midend", "backend"])
def test_the_later_agents_are_shown_the_verified_kernel_and_its_profile(agent: str, style: str) -> None:
    said = text(ask(agent, style, profile="time: 1 ms", feedback="no_code: none"))
    assert KERNEL.strip() in said
    assert "time: 1 ms" in said
    assert "no_code: none" in said


@pytest.mark.parametrize("style", STYLES)
def test_a_repair_shows_the_rejected_kernel_and_what_was_said_of_it(style: str) -> None:
    said = text(ask("frontend", style, kernel=KERNEL, feedback="wrong_value: off by one"))
    assert KERNEL.strip() in said
    assert "wrong_value: off by one" in said


@pytest.mark.parametrize("style", STYLES)
def test_a_repair_of_an_answer_without_code_shows_what_was_said_of_it(style: str) -> None:
    assert "no_code: none" in text(ask("frontend", style, feedback="no_code: none"))


@pytest.mark.parametrize("style", STYLES)
def test_only_the_back_end_is_told_the_target(style: str) -> None:
    assert "h200" in text(ask("backend", style))
    assert "h200" not in text(ask("midend", style))


@pytest.mark.parametrize("target", hardware.TARGETS)
def test_the_back_end_is_told_the_targets_figures(target: str) -> None:
    sheet = hardware.target(target)
    said = text(ask("backend", target=target))
    assert f"{sheet.sms} SMs" in said
    assert f"{sheet.dram_gb_s:.0f} GB/s" in said


def test_chat_has_a_system_message_and_compact_is_one_message() -> None:
    assert [message.role for message in ask("frontend").messages] == ["system", "user"]
    assert [message.role for message in ask("frontend", "compact").messages] == ["user"]


def test_compact_is_short() -> None:
    assert len(text(ask("frontend", "compact"))) <= len(TASK.source) + 20
    assert text(ask("frontend", "compact")).endswith("</task>\n")


def test_what_compute_is_allowed_follows_the_tasks_policy() -> None:
    partial = TASK.model_copy(update={"policy": "partial", "min_share": 0.6})
    assert "do all the computing" in text(ask("frontend"))
    assert "at least 60 % of the work" in text(ask("frontend", task=partial))


def test_sections_of_the_system_message_stand_apart() -> None:
    system = ask("frontend").messages[0].content
    assert "\n\nRules\n" in system
    assert "\n\nAnswer in exactly this form" in system
    assert "\n\nExample\n" in system
    assert "\n\n\n\n" not in system


def test_the_example_answer_is_in_the_canonical_form() -> None:
    answer = ask("frontend").messages[0].content.split("Answer:\n")[1]
    candidate = parse(answer)
    assert candidate.problem is None
    assert answer == completion_text(candidate.plan, candidate.code)
    ast.parse(candidate.code)


def test_braces_in_a_task_or_a_kernel_are_text() -> None:
    task = TASK.model_copy(update={"source": "x = {{ 7 * 7 }} {% raw %}"})
    assert "{{ 7 * 7 }} {% raw %}" in text(render("frontend", task))


# -- errors of the user


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"agent": "middleend"}, "unknown agent 'middleend'; valid: frontend, midend, backend"),
        ({"agent": "frontend", "style": "short"}, "unknown style 'short'; valid: chat, compact"),
        ({"agent": "midend"}, "prompt for midend: no kernel"),
        ({"agent": "backend", "target": "h200"}, "prompt for backend: no kernel"),
        ({"agent": "backend", "kernel": KERNEL}, "prompt for backend: no target; valid: h200"),
        ({"agent": "backend", "kernel": KERNEL, "target": "h900"}, "h900"),
        ({"agent": "frontend", "max_tokens": 0}, "max_tokens is 0; valid: 1 or more"),
    ],
)
def test_what_the_user_can_fix_is_one_line(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        render(task=TASK, **arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# -- completions


def test_the_canonical_completion() -> None:
    assert (
        completion_text(" a\nb ", "\nimport torch\n\n")
        == "<plan>\na\nb\n</plan>\n```python\nimport torch\n```"
    )
    assert completion_text(" ", "import torch") == "```python\nimport torch\n```"


# -- feedback


def verdict(outcome: Outcome, detail: str = "", **evidence: object) -> Verdict:
    return Verdict(
        task_id="t",
        outcome=outcome,
        gate=Gate.SMALL,
        detail=detail,
        evidence=Evidence.model_validate(evidence),
    )


@pytest.mark.parametrize("outcome", [o for o in Outcome if o.judged and not o.accepted])
def test_every_failure_is_named_with_a_hint(outcome: Outcome) -> None:
    lines = feedback(verdict(outcome, "line 3: no")).splitlines()
    assert lines[0] == f"{outcome.value}: line 3: no"
    assert lines[-1].startswith("fix: ")
    assert feedback(verdict(outcome)).splitlines()[0] == outcome.value


@pytest.mark.parametrize("outcome", [o for o in Outcome if not o.judged or o.accepted])
def test_there_is_no_feedback_on_success_or_an_unfair_verdict(outcome: Outcome) -> None:
    assert feedback(verdict(outcome, "whatever")) == ""


def test_a_wrong_value_is_shown_with_its_place() -> None:
    wrong = Mismatch(output=0, index=(3, 17), got=0.25, expected=-1.125, allowed=1e-5, wrong_share=0.004)
    said = feedback(verdict(Outcome.WRONG_VALUE, mismatch=wrong, where="small_odd, x-1"))
    assert "output 0 at [3, 17]: got 0.25, expected -1.125; 0.4 % of its elements are wrong" in said
    assert "case: small_odd, x-1" in said


def test_what_the_detail_says_is_not_said_twice() -> None:
    wrong = Mismatch(output=0, index=(3,), got=0.25, expected=-1.125, allowed=1e-5, wrong_share=0.5)
    said = feedback(
        verdict(Outcome.WRONG_VALUE, "small: got 0.25, expected -1.125", mismatch=wrong, where="small")
    )
    assert said.count("expected") == 1
    assert "case:" not in said


@pytest.mark.parametrize("detail", ["x" * 10_000, "word " * 5_000, "\n\n line\n \n" * 2_000, "{{ 1 }}"])
def test_feedback_is_bounded_and_keeps_its_hint(detail: str) -> None:
    wrong = Mismatch(output=0, index=(1,) * 200, got=0.5, expected=1.5, allowed=1e-5, wrong_share=0.5)
    said = feedback(verdict(Outcome.LOW_PRECISION, detail, mismatch=wrong, where="w" * 2_000))
    assert len(said) <= LIMIT
    assert said.splitlines()[-1].startswith("fix: ")
    assert "\n\n" not in said


# -- profiles


def accepted(**evidence: object) -> Verdict:
    return Verdict(
        task_id="t",
        outcome=Outcome.CORRECT,
        gate=Gate.TIMING,
        timing=Timing(
            kind="modelled",
            target="h200",
            candidate_ms=0.02,
            candidate_ci=(0.019, 0.021),
            baseline_ms={"eager": 0.05, "compile": 0.03},
            speedup_ci={"eager": (2.3, 2.7), "compile": (1.4, 1.6)},
            roofline_fraction=0.35,
        ),
        evidence=Evidence.model_validate(evidence),
    )


def test_a_profile_says_where_the_time_goes() -> None:
    cost = Cost(target="h200", bytes=3.3e7, l2_bytes=3.3e7, flops=8e6, launches=1, ms=0.02, roofline_ms=0.007)
    binary = Binary(
        kernel="k", target="h200", registers=32, spills=8, shared_bytes=2048, num_warps=4, occupancy=0.75
    )
    said = profile(
        accepted(
            cost=cost,
            reference_cost=cost.model_copy(update={"bytes": 6.6e9, "launches": 4}),
            binaries=(binary,),
        )
    )
    assert said.splitlines() == [
        "time: 0.02 ms modelled on h200; 1.50x compile, 2.50x eager; 35% of the roofline",
        "moved: 33 MB in 1 launch (reference: 6.6 GB in 4)",
        "k: 4 warps, 32 registers, 8 B spilled, 2.05 KB shared, occupancy 0.75",
    ]


def test_a_profile_is_bounded() -> None:
    binary = Binary(
        kernel="k" * 500, target="h200", registers=32, spills=8, shared_bytes=1, num_warps=4, occupancy=0.75
    )
    assert len(profile(accepted(binaries=(binary,) * 9))) <= LIMIT


def test_there_is_no_profile_of_a_failure_or_of_nothing() -> None:
    assert profile(verdict(Outcome.WRONG_VALUE)) == ""
    assert profile(accepted().model_copy(update={"timing": None})) == ""


# -- function form


@pytest.mark.parametrize("style", ["chat", "compact"])
def test_a_graph_is_shown_as_it_is_printed_and_no_module_is_asked_for(style: str) -> None:
    said = text(ask("frontend", style, softmax_task()))
    assert "x: f32[64,256]" in said
    assert "= softmax(x, -1)" in said
    assert "ModelNew" not in said
    assert "torch.ops" not in said


def test_a_chat_prompt_names_the_function_with_its_arguments() -> None:
    assert "def kernel(x)" in text(ask("frontend", "chat", softmax_task()))


def test_a_graphs_precision_is_said() -> None:
    assert "precision bf16" in text(ask("frontend", "compact", softmax_task(), precision="bf16"))


def test_a_compact_prompt_shows_a_verified_kernel_by_its_plan_and_a_broken_one_by_its_code() -> None:
    better = text(ask("midend", "compact", softmax_task(), plan="g1: softmax  nest row"))
    assert "nest row" in better
    assert KERNEL.strip() not in better
    broken = text(
        ask("frontend", "compact", softmax_task(), kernel=KERNEL, plan="g1: softmax", feedback="wrong")
    )
    assert KERNEL.strip() in broken


@pytest.mark.parametrize("style", ["chat", "compact"])
def test_several_kernels_of_a_graph_are_shown_with_their_times(style: str) -> None:
    known = [
        contrast("g1: softmax  nest row  warps 1", "", 8.0),
        contrast("g1: softmax  nest row  warps 8", "", 2.5),
    ]
    said = text(ask("midend", style, softmax_task(), others=known))
    assert "8 us modelled\ng1: softmax  nest row  warps 1" in said
    assert "2.5 us modelled" in said


def test_a_pair_becomes_the_prompt_of_its_kind_and_the_answer_in_canonical_form() -> None:
    prompt, answer = example_pair(pair(), "compact")
    assert prompt.agent == "frontend"
    assert answer == completion_text(pair().plan, host_first(pair().code))
    assert answer.index("def kernel(") < answer.index("@triton.jit")
    prompt, _ = example_pair(improving(), "compact")
    assert prompt.agent == "midend"
    assert "time: 0.008 ms modelled" in text(prompt)
    assert "warps 1" in text(prompt)
    blind, _ = example_pair(improving(), "compact", profile=False)
    assert "time: 0.008 ms modelled" not in text(blind)


def test_the_printed_host_function_begins_the_answer_that_the_model_learns() -> None:
    begun = until_kernels(pair().task.graph, pair().plan)
    program = program_of_plan(Graph.model_validate_json(pair().task.graph), pair().plan)
    code = print_triton(program, program.schedule.nest)
    _, answer = example_pair(pair().model_copy(update={"code": code}), "compact")
    assert answer.startswith(f"{begun}@triton.jit")
    assert begun.count("def ") == 1
    assert until_kernels(pair().task.graph, "no plan") == ""


def test_functions_change_places_with_their_decorators() -> None:
    code = "X = 1\n\n\n@tune(\n    1)\n@jit\ndef one(\n    x):\n    pass\n\n\ndef kernel(x):\n    one(x)\n\n\ndef two():\n    pass"
    found = host_first(code)
    assert found.startswith("X = 1\n\n\ndef kernel(x):\n    one(x)\n\n\n@tune(\n    1)\n@jit\ndef one(")
    assert host_first(found) == found
    assert host_first("x = 1") == "x = 1"


def test_what_is_said_in_function_form_is_parsed_back() -> None:
    found = parse(completion_text(pair().plan, pair().code))
    assert (found.plan, found.code.strip(), found.problem) == (pair().plan, pair().code.strip(), None)


def test_an_example_of_plans_alone_says_the_plan_alone() -> None:
    prompt, answer = example_pair(pair(), "compact", "plan")
    assert (prompt.answer, answer) == ("plan", f"<plan>\n{pair().plan}\n</plan>")


def test_what_is_asked_beyond_the_source_is_said() -> None:
    task = TASK.model_copy(update={"precision": "bf16", "gradients": True, "ranges": {"N": (1, None)}})
    said = text(ask("frontend", "compact", task))
    assert "cast to bfloat16" in said
    assert "torch.autograd.Function" in said
    assert "N 1 to any" in said
