"""Pairs made from the golds of the built-in suite: same task and kernel under other names, tiles, warps and sizes.

Comments and docstrings go: what is left is what a small model can learn. The sizes that the suite itself is judged at
never occur, and of its tasks a share, by digest, is left out altogether. Every distinct kernel is a draft like any
other: the verifier decides whether an edit kept it right.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelwright import shapes, tasks
from kernelwright.data import edits, pairs, plans
from kernelwright.data.config import CorpusConfig
from kernelwright.data.graphs import Graph, Step
from kernelwright.data.launches import is_kernel, launches
from kernelwright.records import Example, Task

EQUAL: Mapping[str, tuple[Step, ...]] = {
    "add_relu": (Step("add", "input"), Step("relu")),
    "bias_gelu_residual": (Step("add", "parameter"), Step("gelu"), Step("add", "input")),
    "elu": (Step("elu"),),
    "gelu_tanh": (Step("gelu_tanh"),),
    "l2_normalize": (Step("l2norm"),),
    "layernorm": (Step("layernorm"), Step("mul", "parameter"), Step("add", "parameter")),
    "log_softmax": (Step("log_softmax"),),
    "logsumexp_rows": (Step("logsumexp"),),
    "max_rows": (Step("max"),),
    "relu": (Step("relu"),),
    "residual_rmsnorm": (Step("add", "input"), Step("rmsnorm"), Step("mul", "parameter")),
    "rmsnorm": (Step("rmsnorm"), Step("mul", "parameter")),
    "scale_shift_tanh": (Step("mul", "parameter"), Step("add", "parameter"), Step("tanh")),
    "silu": (Step("silu"),),
    "softmax_rows": (Step("softmax"),),
    "softplus": (Step("softplus"),),
    "swiglu": (Step("silu"), Step("mul", "input")),
}
"""Golds whose function the sampler can draw too: they share its digest, so that both end in one split."""

SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("n_elements", "numel", "size", "n", "count"),
    ("offsets", "offs", "idx", "xindex"),
    ("mask", "ok", "in_bounds", "xmask"),
    ("out", "y", "output"),
    ("out_ptr", "y_ptr", "output_ptr"),
    ("x_ptr", "in_ptr", "input_ptr"),
    ("BLOCK", "BLOCK_SIZE", "XBLOCK"),
    ("cols", "col", "col_offsets"),
    ("n_cols", "width", "row_length"),
)
"""Names that mean the same; a renaming takes one of each."""
SCALES = (0.25, 0.375, 0.5, 0.625, 0.75, 1.25, 1.5, 2.0)
"""By which the first size of a task is multiplied."""
_TILES = (128, 4096)


@dataclass(frozen=True)
class Gold:
    """A built-in task and its kernel, both without comments and docstrings."""

    task: Task
    source: str
    code: str
    graph: str

    @property
    def name(self) -> str:
        return self.task.id.partition("/")[2]


@functools.lru_cache(maxsize=8)
def chosen(config: CorpusConfig) -> tuple[Gold, ...]:
    """The golds to make pairs of: of those that belong to training, the shortest."""
    found = []
    for task in tasks.load_suite("wright") if config.golds else ():
        name = task.id.partition("/")[2]
        steps = EQUAL.get(name)
        graph = Graph(steps).digest if steps else hashlib.sha256(task.id.encode()).hexdigest()[:16]
        if pairs.split_of(graph, len(steps or (1, 1)), config) == "train":
            found.append(Gold(task, edits.bare(task.source), edits.bare(tasks.gold(task.id)), graph))
    found.sort(key=lambda gold: (len(gold.source) + len(gold.code), gold.name))
    return tuple(found[: config.golds])


def gold_graphs(config: CorpusConfig) -> set[str]:
    """Digests of the operator graphs that the chosen golds train on."""
    return {gold.graph for gold in chosen(config)}


def gold_examples(config: CorpusConfig) -> Iterator[Example]:
    """The drafts of every chosen gold, `config.variants` each, the gold under its own names first."""
    for gold in chosen(config):
        rng = random.Random(f"{config.seed}:gold:{gold.name}")
        for number in range(config.variants):
            code, task = gold.code, resized(gold, rng)
            if number:
                code = vary(code, rng)
            if number % 2:
                code = edits.untyped(code)
                task = task.model_copy(update={"source": edits.untyped(task.source)})
            yield Example(
                task=task, plan=plans.plan(code), code=code, teacher="gold", split="train", graph=gold.graph
            )


def resized(gold: Gold, rng: random.Random) -> Task:
    """The task with its first size scaled to one that is neither the suite's own nor held out."""
    sizes = shapes.constants(gold.source)
    first = next(name for name in sizes if name in gold.task.shapes["small"])
    scaled = [{**sizes, first: int(sizes[first] * scale)} for scale in SCALES]
    free = [new for new in scaled if not pairs.shape_is_heldout(list(new.values()))]
    source = shapes.apply_shape(gold.source, {first: rng.choice(free)[first]})
    small = {name: over for name, over in gold.task.shapes.items() if name.startswith("small")}
    digest = hashlib.sha256(source.encode()).hexdigest()[:8]
    return gold.task.model_copy(
        update={"id": f"gold/{gold.name}-{digest}", "suite": "gold", "source": source, "shapes": small}
    )


def vary(code: str, rng: random.Random) -> str:
    """Other names throughout, and by chance another tile and another number of warps."""
    tile = _tile(code)
    if tile and rng.random() < 0.5:
        code = edits.replace_integers(code, _on_host, tile, rng.choice([tile // 2, tile * 2]))
    if "tl.dot" not in code:
        code = edits.set_launch_keyword(code, "num_warps", rng.choice((2, 4, 8)))
    return edits.rename(code, edits.synonyms(code, SYNONYMS, rng))


def _tile(code: str) -> int:
    """The one tile size that launches pass as a literal or through a constant; 0 where there is none or several."""
    sizes = {value for launch in launches(code) for _, value in launch.tiles}
    low, high = _TILES
    return next(iter(sizes)) if len(sizes) == 1 and all(low <= size <= high for size in sizes) else 0


def _on_host(statement: ast.AST) -> bool:
    return not (isinstance(statement, ast.FunctionDef) and is_kernel(statement))
