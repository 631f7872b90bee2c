"""The model rung: which agents are asked, what they are shown, and when the rung abstains."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from graph.building import Builder
from search.making import Judge, Says, cannot, graph, kernel

from kernelwright.errors import UserError
from kernelwright.prompts import completion_text
from kernelwright.records import Completion, Prompt, Task
from kernelwright.search.cache import Entry, KernelCache
from kernelwright.search.ladder import Form, Ladder
from kernelwright.search.model import ModelRung, abstains, agents_of, as_kernel

GRAPH = graph()


class Policy:
    """Gives scripted completions in order; records its prompts."""

    def __init__(self, *said: str) -> None:
        self.name, self.said, self.seen = "scripted", list(said), []  # type: ignore[var-annotated]

    def generate(self, prompts: Sequence[Prompt], n: int = 1, **_: Any) -> list[list[Completion]]:
        self.seen.extend(prompts)
        return [[Completion(text=completion_text("p", self.said.pop(0))) for _ in range(n)] for _ in prompts]

    def pieces(self, completion: Completion) -> None:
        return None


def asked(policy: Policy, *before: Any, samples: int = 2) -> Entry:
    rung = ModelRung("scripted", samples=samples, load=lambda spec: policy)
    return Ladder(Judge(), [*before, rung], KernelCache(None)).search(GRAPH)


def test_the_fastest_of_its_answers_is_kept() -> None:
    policy = Policy(kernel(0.4), kernel(0.3), kernel("bad"), kernel("worse"))
    entry = asked(policy)
    assert entry.best is not None
    assert (entry.best.rung, entry.best.ms) == ("model", 0.3)
    assert "relu" in policy.seen[0].messages[-1].content


def test_a_small_model_is_shown_a_modules_graph() -> None:
    policy = Policy(kernel(0.4), kernel(0.3), kernel("bad"), kernel("worse"))
    policy.tokenizer = SimpleNamespace(chat_template=None, init_kwargs={"prompt_style": "compact"})  # type: ignore[attr-defined]
    module = Task(id="file/relu", source="class Model(torch.nn.Module): ...")
    rung = ModelRung("scripted", samples=2, load=lambda spec: policy)
    form = Form(module, lambda code, rung: code)
    assert Ladder(Judge(), [rung], KernelCache(None)).search(GRAPH, form=form).best is not None
    assert "<graph>" in policy.seen[0].messages[-1].content
    assert policy.seen[0].answer == "plan+kernels"


def test_what_was_rejected_is_shown_again_with_the_verdict() -> None:
    policy = Policy(kernel("bad"), kernel("worse"), kernel(0.5), kernel("ill"), kernel("x"), kernel("y"))
    entry = asked(policy)
    assert entry.best is not None
    assert entry.best.ms == 0.5
    assert "no such bad" in policy.seen[1].messages[-1].content


def test_verified_kernels_are_shown_to_the_midend_as_long_as_they_get_faster() -> None:
    policy = Policy(kernel(0.5), kernel("bad"), kernel(0.3), kernel("worse"), kernel("ill"), kernel("none"))
    entry = asked(policy)
    assert entry.best is not None
    assert entry.best.ms == 0.3
    assert "return 0.5" in policy.seen[1].messages[-1].content


def test_its_failure_is_that_of_the_answer_that_came_furthest() -> None:
    entry = asked(Policy(*["not Python ("] * 20))
    assert entry.tried["model:scripted"] == "its answers hold no kernel, or no prompt leaves room for one"
    assert asked(Policy(*[kernel("bad")] * 20)).tried["model:scripted"] == "wrong value: no such bad"


def test_it_adds_to_the_rungs_before_it() -> None:
    slower = [kernel(0.9), kernel(0.8), kernel(0.7), kernel(0.7), kernel(0.7), kernel(0.6)]
    entry = asked(Policy(*slower), Says("compiler", kernel(0.5)))
    assert entry.best is not None
    assert entry.best.rung == "compiler"
    assert "is faster" in entry.tried["model:scripted"]
    entry = asked(Policy(kernel(0.1), kernel(0.2), *[kernel("x")] * 2), Says("compiler", cannot("no")))
    assert entry.best is not None
    assert entry.best.rung == "model"


def folder(path: Path, style: str, operators: str | None) -> str:
    path.mkdir()
    (path / "tokenizer_config.json").write_text(json.dumps({"prompt_style": style}))
    if operators is not None:
        (path / "MODEL_CARD.md").write_text(
            f"# A model\n\n## Operators\n\n{operators}\n\n## Recipe\n\n`softmax`\n"
        )
    return str(path)


def with_weight() -> Any:
    b = Builder()
    return b.graph(b.op("aten.mul.Tensor", b.input(4, 4), b.weight(4)))


def test_it_abstains_where_its_card_does_not_list_the_operators(tmp_path: Path) -> None:
    knows, other = (
        folder(tmp_path / "a", "compact", "`relu`, `mul`"),
        folder(tmp_path / "b", "compact", "`tanh`"),
    )
    assert abstains(GRAPH, knows) == ""
    assert abstains(GRAPH, other) == "its card does not list relu"
    assert abstains(GRAPH, "openai:http://localhost#m") == ""


def test_it_abstains_where_a_graph_has_several_loop_nests(tmp_path: Path) -> None:
    b = Builder()
    x = b.input(8, 8)
    twice = b.graph(b.op("aten.mm.default", b.op("aten.mm.default", x, x), x))
    assert "one loop nest" in abstains(twice, folder(tmp_path / "a", "compact", "`mm`"))


def test_a_model_of_a_style_that_is_gone_abstains(tmp_path: Path) -> None:
    old = folder(tmp_path / "a", "lowered", "`relu`")
    assert "prompts in the style 'lowered'" in abstains(GRAPH, old)
    assert "prompts in the style 'lowered'" in abstains(GRAPH, old, modules=True)


def test_the_packages_own_model_is_not_asked_about_graphs_that_its_card_does_not_list() -> None:
    rung = ModelRung(load=lambda spec: pytest.fail("it was loaded"))
    entry = Ladder(Judge(), [rung], KernelCache(None)).search(with_weight())
    assert entry.best is None


def test_an_answer_without_kernel_is_none() -> None:
    assert as_kernel("def kernel(x): pass") == "def kernel(x): pass"
    assert as_kernel("x = 1") == ""


def test_a_run_folder_answers_with_the_stages_it_trained(tmp_path: Path) -> None:
    for stage in ("sft", "midend"):
        (tmp_path / "stages" / stage / "checkpoint").mkdir(parents=True)
    assert agents_of(str(tmp_path)) == {
        "frontend": str(tmp_path / "stages/sft/checkpoint"),
        "midend": str(tmp_path / "stages/midend/checkpoint"),
    }


def test_a_run_that_trained_nothing_yet_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    with pytest.raises(UserError, match="no finished sft or frontend stage"):
        agents_of(str(tmp_path))


def test_one_model_plays_all_agents_and_the_back_end_for_a_named_target() -> None:
    assert list(agents_of("gold")) == ["frontend", "midend"]
    assert list(agents_of("gold", "a100")) == ["frontend", "midend", "backend"]
