"""The same example under other names: constructor arguments and attributes, in the lowered reference and the kernels,
where a kernel's parameters that are called like an attribute (`scale`, `scale_ptr`) are exchanged with it; and launches
with their kernels. An attribute that is called like a layer's own (`bias`) has a 2 in the kernels, `bias2`.

A program means what it meant when its names are exchanged consistently, so what was verified stays so. A model that
sees every example under many names has to copy them; one that sees few names learns those by heart, and writes
`self.conv` where the reference says `self.deconv`.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import random
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from kernelwright.parsing import Edit, Span, constructor_of, edited, is_self, parse, spans, words
from kernelwright.records import Example, Task

_TEXT = """
    alpha axis base batch beta bias block body bottom branch cell channels cols conv core count deconv decay delta
    dense depth dim down dropout embed extent factor feature fc filter flow fold frame fuse gain gamma gate group head
    height hidden in inner input kernel last layer left length level linear lower margin mask mat mean mid mix mul n
    norm num offset op order out outer output pad padding part pool post pre proj rank rate ratio reduce region right
    root row scale second seq shape shift side size slope span stage stem step stride sub sum tail target tile top
    total unit up upper value vec weight width window
"""
WORDS = tuple(_TEXT.split())
_OPERATORS = """
    activation act attention avg_pool batch_norm bn clamp conv conv_transpose criterion div dropout embedding fc gelu gn
    group_norm hardswish in_channels in_features instance_norm kernel_size layer_norm leaky_relu linear ln log_softmax
    logsumexp loss loss_fn lstm matmul max_pool min_value max_value mish mlp mul norm num_channels num_classes num_features
    num_groups out_channels out_features padding pool proj relu residual rms_norm scaling_factor sigmoid silu softmax
    softplus stride swish tanh upsample weight_norm
"""
OPERATORS = tuple(_OPERATORS.split())
"""People call a layer after what it does, which is also what operators and launches are called."""
_SIBLINGS = (
    *((("1", "2", "3"), form) for form in ("{stem}{mark}", "{stem}_{mark}", "{stem}{mark}_{other}")),
    *(
        (pair, form)
        for pair in (
            ("min", "max"),
            ("lower", "upper"),
            ("first", "second"),
            ("in", "out"),
            ("left", "right"),
        )
        for form in ("{mark}_{stem}", "{stem}_{mark}")
    ),
)
"""How people call what there is two of: names that differ in one token."""
_OF_MODULES = {
    *(
        "T_destination",
        "apply",
        "buffers",
        "children",
        "compile",
        "cpu",
        "cuda",
        "double",
        "eval",
        "float",
        "forward",
    ),
    *("half", "ipu", "modules", "mtia", "parameters", "to", "train", "training", "type", "xpu"),
}
_TAKEN = frozenset(
    {*keyword.kwlist, *dir(builtins), *_OF_MODULES, "self", "torch", "nn", "tl", "triton", "F"}
)
_CLASSES = {"Model", "ModelNew"}
_OF_LAYERS = ("weight", "bias")
_LIKE_A_LAYERS = 0.2
"""Share of the parameters that are called like a layer's own on purpose: people often do, samplers seldom."""


class _Source:
    """A source, parsed once. Raises what `ast.parse` raises."""

    def __init__(self, text: str) -> None:
        self.text, self.tree = text, parse(text)
        body = self.tree.body
        self.functions = [node for node in body if isinstance(node, ast.FunctionDef)]
        """Those that stand at its top."""
        models = [node for node in body if isinstance(node, ast.ClassDef) and node.name in _CLASSES]
        self.model = models[0] if len(models) == 1 and text.isascii() else None
        """The module's class; None where there is not just one that could be meant."""


def renamed(example: Example, rng: random.Random, pieces: Sequence[str] = ()) -> Example:
    """`example` with other names, or itself where it has none to exchange, is not lowered, cannot be parsed (a mutant
    may not), or is told of one of the names by the verifier. `pieces` are a tokenizer's, to make names of."""
    try:
        head, rest = _halves(example.task.lowered)
        asked, shown = _Source(head), [_Source(text) for text in (example.code, example.kernel)]
        if asked.model is None:
            return example
        old, kept = _arguments(asked.model), _attributes(asked.model)
        if any(re.search(rf"\b{name}\b", example.feedback) for name in (*old, *kept)):
            return example
        everywhere = words(f"{example.task.lowered} {example.code} {example.kernel}")
        anywhere, in_class = _names(rng, everywhere, pieces), _names(rng, words(head), pieces)
        arguments = {name: next(in_class) for name in old}
        of_layers = [name for name in _of_layers(shown) if name not in kept and f"{name}2" not in everywhere]
        attributes: dict[str, str] = {}
        parameters: dict[str, str] = {}
        for name in kept:
            own = _parameter_of(name, kept, shown)
            if own == f"{name}2" and rng.random() < 0.5:
                attributes[name] = name
            elif own and of_layers and f"\nself.{name}: " in rest and rng.random() < _LIKE_A_LAYERS:
                attributes[name] = of_layers.pop()
                parameters[own] = f"{attributes[name]}2"
            else:
                attributes[name] = next(anywhere if own else in_class)
                if own:
                    parameters[own] = attributes[name]
        if len(set(attributes.values())) < len(attributes):
            return example
        code, kernel = (_exchanged(source, arguments, attributes, parameters) for source in shown)
        return example.model_copy(
            update={
                "task": example.task.model_copy(
                    update={"lowered": _told(asked, rest, arguments, attributes)}
                ),
                "plan": re.sub(r"\w+", lambda at: parameters.get(at[0], at[0]), example.plan),
                "code": code,
                "kernel": kernel,
            }
        )
    except (SyntaxError, ValueError, RecursionError):
        return example


def renamed_task(task: Task, rng: random.Random) -> Task:
    """`task` with other names in its source, too, or itself where there are none to exchange or the source goes another way
    about its attributes than the class's own lines."""
    try:
        head, rest = _halves(task.lowered)
        asked, source = _Source(head), _Source(task.source)
        if asked.model is None or source.model is None or "getattr" in task.source:
            return task
        taken = words(f"{task.lowered} {task.source}")
        names = _names(rng, taken)
        arguments = {name: next(names) for name in _arguments(asked.model)}
        attributes = {name: next(names) for name in _attributes(asked.model)}
        return task.model_copy(
            update={
                "source": _exchanged(source, arguments, attributes),
                "lowered": _told(asked, rest, arguments, attributes),
            }
        )
    except (SyntaxError, ValueError, RecursionError):
        return task


def relabelled(example: Example, rng: random.Random) -> Example:
    """`example` with other names for its launches and their kernels, or itself where those mean something else as well or
    the verifier speaks of a launch. What calls a function has to copy its name then; what defines it, from the call."""
    try:
        shown = [_Source(text) for text in (example.code, example.kernel)]
    except (SyntaxError, ValueError, RecursionError):
        return example
    functions = [one for source in shown for one in source.functions]
    defined = {one.name for one in functions}
    bound = {word for source in shown for word in _bound(source)}
    # Not after operators: a launch called after another's would say what it does not do.
    names = _names(rng, words(f"{example.code} {example.kernel} {example.plan}"), operators=False)
    new: dict[str, str] = {}
    for name in dict.fromkeys(one.name for one in functions if not one.decorator_list):
        if name in bound or re.search(rf"\b{name}\b", example.feedback):
            return example
        new[name] = next(names)
        if f"{name}_kernel" in defined - bound:
            new[f"{name}_kernel"] = f"{new[name]}_kernel"
    code, kernel = (_relabelled(source, new) for source in shown)
    plan, feedback = (
        re.sub(r"\w+_kernel\b", lambda at: new.get(at[0], at[0]), text)
        for text in (example.plan, example.feedback)
    )
    return example.model_copy(update={"code": code, "kernel": kernel, "plan": plan, "feedback": feedback})


def _bound(source: _Source) -> Iterator[str]:
    """Names that are arguments, keywords or variables."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _relabelled(source: _Source, new: Mapping[str, str]) -> str:
    if not source.text.strip():
        return source.text
    span = spans(source.text)
    edits: list[Edit] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id in new:
            edits.append((*span(node), new[node.id]))
        elif isinstance(node, ast.FunctionDef) and node.name in new and node in source.functions:
            start = span(node)[0] + len("def ")
            edits.append((start, start + len(node.name), new[node.name]))
    return edited(source.text, edits)


def _halves(lowered: str) -> tuple[str, str]:
    """The constructors, which are Python, and the rest."""
    found = re.search(r"^(?!class |\s)", lowered, re.MULTILINE)
    at = found.start() if found else 0
    return lowered[:at], lowered[at:]


def _told(asked: _Source, rest: str, arguments: Mapping[str, str], attributes: Mapping[str, str]) -> str:
    """Both halves of a lowered reference under the new names."""
    lines = re.sub(r"\bself\.(\w+)", lambda at: f"self.{attributes.get(at[1], at[1])}", rest)
    return _exchanged(asked, arguments, attributes) + lines


def _arguments(tree: ast.ClassDef) -> list[str]:
    function = constructor_of(tree)
    return [one.arg for one in function.args.args[1:]] if function is not None else []


def _attributes(tree: ast.ClassDef) -> list[str]:
    """Names that the constructor assigns to `self`."""
    found: dict[str, None] = {}
    for node in ast.walk(constructor_of(tree) or tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            found[node.attr] = None
    return list(found)


def _names(
    rng: random.Random, taken: set[str], pieces: Sequence[str] = (), operators: bool = True
) -> Iterator[str]:
    """Names that are not `taken`: words, what operators are called, letters that mean nothing, and a tokenizer's pieces.
    The last two make a model copy by token what it never saw in that place. Some are siblings: to write the second
    where the first belongs was a third of what a trained model got wrong at KernelBench's level 2."""
    kinds = {_of_words: 50, _of_operators: 25 * operators, _of_letters: 10, _of_pieces: 15 * bool(pieces)}
    siblings = _siblings(rng) if operators and rng.random() < 0.4 else iter(())
    while True:
        name = next(siblings, "") if rng.random() < 0.6 else ""
        if not name:
            name = rng.choices(list(kinds), list(kinds.values()))[0](rng, pieces)
            if rng.random() < 0.15:
                name += str(rng.randint(1, 64))
        if name.isidentifier() and name not in taken and name not in _TAKEN:
            taken.add(name)
            yield name


def _siblings(rng: random.Random) -> Iterator[str]:
    """Two or three names that differ in one place."""
    marks, form = rng.choice(_SIBLINGS)
    stem, other = _of_operators(rng, ()) if rng.random() < 0.5 else rng.choice(WORDS), rng.choice(WORDS)
    return (form.format(stem=stem, mark=mark, other=other) for mark in marks)


def _of_words(rng: random.Random, _: Sequence[str]) -> str:
    return "_".join(rng.sample(WORDS, rng.choice((1, 1, 2, 2, 2, 3))))


def _of_operators(rng: random.Random, _: Sequence[str]) -> str:
    name = rng.choice(OPERATORS) + rng.choice(("", "", "", "1d", "2d", "3d"))
    return f"{rng.choice(WORDS)}_{name}" if rng.random() < 0.25 else name


def _of_letters(rng: random.Random, _: Sequence[str]) -> str:
    parts = (
        "".join(rng.choices(string.ascii_lowercase, k=rng.randint(1, 5)))
        for _ in range(rng.choice((1, 1, 2)))
    )
    name = "_".join(parts)
    return name.upper() if rng.random() < 0.2 else name


def _of_pieces(rng: random.Random, pieces: Sequence[str]) -> str:
    return rng.choice(("", "", "_")).join(rng.choices(pieces, k=rng.choice((1, 2, 2, 3))))


def _of_layers(sources: Iterable[_Source]) -> list[str]:
    """Names of layers' own tensors that functions of the sources have as parameters."""
    given = {one.arg for source in sources for function in source.functions for one in function.args.args}
    return [name for name in _OF_LAYERS if name in given]


def _parameter_of(name: str, attributes: Sequence[str], sources: Sequence[_Source]) -> str:
    """What the kernels call what is given to them as `self.NAME`: the same, or `bias2` where `bias` is a layer's; empty
    where neither is sure."""
    if _is_parameter(name, sources):
        return name
    second = f"{name}2"
    there = second not in attributes and any(second in source.text for source in sources)
    return second if there and _is_parameter(second, sources) else ""


def _is_parameter(name: str, sources: Iterable[_Source]) -> bool:
    """Whether `name` means a parameter, or what was loaded from one, wherever a function of the sources has it; and not a
    layer's, as `bias` does where there is `bias2`, too."""
    found = False
    for source in sources:
        if re.search(rf"\b(tl\.|def ){name}\b|\b{name}2\b", source.text):
            return False
        for function in source.functions:
            given = {one.arg for one in function.args.args} & {name, f"{name}_ptr"}
            found = found or bool(given)
            if not given and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(function)):
                return False
    return found


def _exchanged(
    source: _Source,
    arguments: Mapping[str, str],
    attributes: Mapping[str, str],
    parameters: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """`source` with the arguments of its module's constructor, the attributes of `self` and the parameters of its
    functions under their new names."""
    if not source.text.strip():
        return source.text
    tree = source.model
    if tree is None:
        raise ValueError("no module's class")
    span = spans(source.text)
    edits: list[Edit] = []
    function = constructor_of(tree)
    if function is not None:
        for node in ast.walk(function):
            if isinstance(node, ast.arg) and node.arg in arguments:
                start, _ = span(node)
                edits.append((start, start + len(node.arg), arguments[node.arg]))
            elif isinstance(node, ast.Name) and node.id in arguments:
                edits.append((*span(node), arguments[node.id]))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_self(node.value) and node.attr in attributes:
            _, end = span(node)
            edits.append((end - len(node.attr), end, attributes[node.attr]))
    return edited(source.text, [*edits, *_in_functions(source.functions, span, parameters)])


def _in_functions(
    functions: Sequence[ast.FunctionDef], span: Callable[[ast.AST], Span], parameters: Mapping[str, str]
) -> Iterator[Edit]:
    new = {**parameters, **{f"{name}_ptr": f"{other}_ptr" for name, other in parameters.items()}}
    own = {function.name for function in functions}
    for node in (node for function in functions for node in ast.walk(function)):
        named: list[tuple[ast.AST, str]] = []
        if isinstance(node, ast.arg):
            named = [(node, node.arg)]
        elif isinstance(node, ast.Name):
            named = [(node, node.id)]
        elif isinstance(node, ast.Call):
            called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            if getattr(called, "id", "") in own:
                named = [(word, word.arg or "") for word in node.keywords]
        for place, name in named:
            if name in new:
                start, _ = span(place)
                yield start, start + len(name), new[name]
