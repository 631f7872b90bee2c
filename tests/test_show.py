"""Terminal output about a run."""

from kernelwright.cli import show
from kernelwright.search.cache import Row


def line(step: int, plan: float, nats: float | None) -> dict[str, object]:
    said = None if nats is None else {"decision": nats, "plan": 8 * nats, "code_token": 0.0}
    return {
        "stage": "midend",
        "step": step,
        "reward_plan": plan,
        "reward_code": 1.0,
        "nats": said,
        "over_known": 0.8,
    }


def test_rewards_by_segment_and_the_entropy_of_plans_at_first_and_at_last() -> None:
    curves = [{"stage": "sft", "step": 1, "loss": 1.0}, *(line(n, n / 10, 1.0 - n / 10) for n in range(8))]
    assert show.segments(curves) == (
        "midend: plans paid 0.05 to 0.65, code paid 1.00 to 1.00, nats a decision 0.95 to 0.35, "
        "time over the best known 1.25 to 1.25\n"
    )


def test_what_is_not_known_is_left_out() -> None:
    assert show.segments([line(1, 0.5, None)]) == (
        "midend: plans paid 0.50 to 0.50, code paid 1.00 to 1.00, time over the best known 1.25 to 1.25\n"
    )


def test_groups_with_one_reason_share_a_line() -> None:
    why = {
        1: "time ran out",
        2: "",
        3: "wrong value",
        4: "time ran out",
        5: "time ran out",
        6: "time ran out",
    }
    rows = [Row(number=one, operators="mm", count=1, share=0.1, detail=two) for one, two in why.items()]
    console = show.console()
    with console.capture() as shown:
        console.print(show.groups(rows, None))
    assert shown.get().splitlines()[-2:] == ["groups 1, 4 to 6: time ran out", "group 3: wrong value"]


def test_the_time_outside_of_groups_and_kernels_without_figures_are_explained() -> None:
    rows = [
        Row(number=1, operators="mm", count=2, share=0.5, rung="compiler"),
        Row(number=2, operators="add", count=1, share=0.2, rung="library", ms=0.1),
    ]
    console = show.console()
    with console.capture() as shown:
        console.print(show.groups(rows, None))
    *_, rest, note = shown.get().splitlines()
    assert rest.split() == ["other", "operators", "30%", "aten"]
    assert note == "group 1: judged only within the whole"
    with console.capture() as shown:
        console.print(show.groups([rows[1].model_copy(update={"share": 1.0})], None))
    assert "other" not in shown.get()
