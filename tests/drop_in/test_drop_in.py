"""A drop-in runs its kernels where they were verified, behaves like the original in all else, and says why it falls back."""

import copy
import inspect
import io
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from drop_in import making
from drop_in.making import Block, Config, Several, counted, made, verified
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from kernelwright.drop_in import Optimized, drop_in, loaded
from kernelwright.errors import UserError
from kernelwright.graph.capture import capture
from kernelwright.graph.partition import partition
from kernelwright.graph.stitch import stitch

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """ATen calls replace kernels, so that a CPU can run them."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.fixture
def fast() -> Any:
    return made(Block().requires_grad_(False).eval(), X)


def told(module: Any, *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    """(the result, warnings)."""
    with warnings.catch_warnings(record=True) as judged:
        warnings.simplefilter("always")
        answer = module(*args, **kwargs)
    return answer, [str(one.message) for one in judged]


def test_it_runs_its_kernels_where_they_were_verified(fast: Any) -> None:
    runs = counted(fast)
    for _ in range(3):
        answer, said = told(fast, X)
        torch.testing.assert_close(answer, fast.original(X))
        assert said == []
    assert len(runs) == 3


class Kept(nn.Module):
    """Writes part of a cache, replaces a mean at each call, counts, and halves its input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(6, 8))
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x.mul_(0.5)
        self.cache[1:5] = x
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        self.calls += 1
        return self.cache.sum(0) * self.calls, x + self.mean


def test_buffers_and_inputs_are_written_as_the_module_writes_them() -> None:
    module = Kept()
    fast, other = made(copy.deepcopy(module), X.clone()), copy.deepcopy(module)
    runs, cache, mean = counted(fast), fast.cache, fast.mean
    for step in range(3):
        x, y = X + step, X + step
        answer, said = told(fast, x)
        torch.testing.assert_close(answer, other(y))
        torch.testing.assert_close((x, fast.state_dict()), (y, other.state_dict()))
        assert said == []
    assert (len(runs), fast.cache is cache, fast.mean is mean) == (3, True, False)
    torch.testing.assert_close(mean, torch.zeros(8))  # replaced, not changed in place
    assert copy.deepcopy(fast)(X.clone())[0].equal(fast(X.clone())[0])


def test_kernels_that_write_another_value_are_not_used_and_nothing_is_written_twice() -> None:
    module = Kept()
    code = stitch(partition(capture(module, (X.clone(),)).graph), {}).replace("return (", "return (1 + ")
    fast, other = made(module, X.clone(), code=code), copy.deepcopy(module)
    (answer, said), wanted = told(fast, X.clone()), other(X.clone())
    assert "disagree" in said[0]
    torch.testing.assert_close((answer, fast.state_dict()), (wanted, other.state_dict()))


def test_weights_are_those_of_the_moment(fast: Any) -> None:
    runs = counted(fast)
    fast(X)
    fast.proj.weight.mul_(2)
    fast.proj.bias = nn.Parameter(torch.randn(8), requires_grad=False)
    fast.load_state_dict({**fast.state_dict(), "norm.bias": torch.randn(8)})
    fast.shift.data += 1
    torch.testing.assert_close(fast(X), fast.original(X))
    assert len(runs) == 2


def replace(fast: Any) -> None:
    fast.proj = nn.Linear(8, 8).requires_grad_(False)


class Lora(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.down, self.up = inner, nn.Linear(8, 2), nn.Linear(2, 8)
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Any:
        return self.inner(x) + self.up(self.down(x))


def wrap(fast: Any) -> None:
    fast.inner[0] = Lora(fast.inner[0])


def parametrize(fast: Any) -> None:
    class Double(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * x

    nn.utils.parametrize.register_parametrization(fast.proj, "weight", Double())
    fast.requires_grad_(False)


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "submodule replaced": (replace, "submodule proj was replaced"),
    "submodule wrapped (LoRA)": (wrap, "submodule inner.0 was replaced"),
    "submodule added": (lambda f: f.inner.append(nn.ReLU()), "submodule inner.2 was"),
    "attribute changed": (lambda f: setattr(f, "factor", 3.0), "attribute factor was changed"),
    "attribute of a submodule": (lambda f: setattr(f.norm, "eps", 0.1), "attribute norm.eps was changed"),
    "configuration replaced": (lambda f: setattr(f, "config", Config()), "attribute config was changed"),
    "configuration changed": (lambda f: setattr(f.config, "scale", 3.0), "attribute config was changed"),
    "list in a configuration": (lambda f: f.config.flags[1].update(b=2), "attribute config was changed"),
    "tensor that is no buffer, in place": (lambda f: f.table.add_(1), "attribute table was changed"),
    "tensor that is no buffer, anew": (lambda f: setattr(f, "table", torch.ones(8)), "attribute table was changed"),
    "forward of a submodule patched": (
        lambda f: setattr(f.proj, "forward", lambda x: x * 3), "the forward of proj was replaced",
    ),
    "hook on a submodule": (
        lambda f: f.proj.register_forward_hook(lambda m, a, y: y * 2), "proj has hooks now",
    ),
    "pre-hook on a submodule": (
        lambda f: f.inner[0].register_forward_pre_hook(lambda m, a: (a[0] * 2,)), "inner.0 has hooks now",
    ),
    "parametrization": (parametrize, "the class or forward of proj was changed"),
    "spectral norm": (
        lambda f: nn.utils.spectral_norm(f.proj).requires_grad_(False), "proj",
    ),
    "class of a submodule": (
        lambda f: setattr(f.proj, "__class__", type("Other", (nn.Linear,), {"forward": lambda s, x: x * 2})),
        "the class or forward of proj was changed",
    ),
    "bias removed": (lambda f: setattr(f.proj, "bias", None), "proj.bias has another type"),
    "weight of another shape": (
        lambda f: setattr(f, "shift", torch.ones(1)), "shift has another type, dtype or shape",
    ),
}  # fmt: skip


SAME_VALUES = (
    "spectral norm",
    "list in a configuration",
    "configuration replaced",
    "weight of another shape",
)
"""Changes that happen to leave the result unchanged."""


@pytest.mark.parametrize("change", CHANGES, ids=list(CHANGES))
def test_what_changes_the_module_ends_the_kernels(fast: Any, change: str) -> None:
    runs = counted(fast)
    fast(X)
    before = fast.original(X)
    do, why = CHANGES[change]
    do(fast)
    with torch.no_grad():
        expected = fast.original(X)
        answer, said = told(fast, X)
    torch.testing.assert_close(answer, expected)
    assert len(runs) == 1
    assert len(said) == 1
    assert said[0].startswith("Block runs without its kernel: ")
    assert why in said[0]
    assert told(fast, X)[1] == []
    if change not in SAME_VALUES:
        assert not torch.allclose(before, answer)


def test_a_class_patched_afterwards_ends_the_kernels(fast: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.LayerNorm, "forward", lambda self, x: x * 0)
    answer, said = told(fast, X)
    torch.testing.assert_close(answer, fast.original(X))
    assert "the class or forward of norm was changed" in said[0]


def test_a_value_put_back_brings_the_kernels_back(fast: Any) -> None:
    runs = counted(fast)
    fast.factor = 7.0
    assert told(fast, X)[1]
    fast.factor = 2.0
    assert told(fast, X)[1] == []
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((torch.randn(5, 8),), "is 5 long in dimension 0"),
        ((X.double(),), "is float64, and float32 was verified"),
        ((X.to_sparse(),), "is sparse_coo, not dense"),
        ((X.as_subclass(type("Mine", (Tensor,), {})),), "not a plain tensor"),
    ],
    ids=["shape", "dtype", "layout", "subclass"],
)
def test_calls_that_were_not_verified_run_the_original(fast: Any, args: Any, why: str) -> None:
    runs = counted(fast)
    if args[0].dtype is torch.float64:
        with pytest.raises(RuntimeError, match="dtype"), pytest.warns(RuntimeWarning, match=why):
            fast(*args)
        return
    answer, said = told(fast, *args)
    torch.testing.assert_close(answer, fast.original(*args))
    assert why in said[0]
    assert runs == []


@pytest.mark.parametrize("example", [X, X.t().contiguous().t(), torch.randn(4, 9)[:, :8], X[:1].expand(4, 8)])
@pytest.mark.parametrize("given", [X, X.t().contiguous().t(), torch.randn(4, 9)[:, 1:], X[:1].expand(4, 8)])
def test_kernels_are_handed_memory_as_it_was_verified(example: Tensor, given: Tensor) -> None:
    """Slices and expanded arguments are copied, since no judge draws such; a transposed argument is passed unchanged."""
    fast = made(Block().requires_grad_(False).eval(), example)
    seen: list[tuple[int, ...]] = []
    run = loaded(fast.kernel)
    fast._kernelwright._run = lambda *given: seen.append(given[0].stride()) or run(*given)
    torch.testing.assert_close(fast(given), fast.original(given))
    assert seen == [(1, 4) if example.stride() == (1, 4) else (8, 1)]


def test_another_dtype_of_the_module_runs_the_original(fast: Any) -> None:
    fast.double()
    fast.table = fast.table.double()
    answer, said = told(fast, X.double())
    assert answer.dtype is torch.float64
    assert len(said) == 1


def test_gradients_are_the_originals(fast: Any) -> None:
    runs = counted(fast)
    x = X.clone().requires_grad_()
    answer, said = told(fast, x)
    answer.sum().backward()
    assert x.grad is not None
    assert "gradients are wanted" in said[0]
    with torch.no_grad():
        told(fast, x)
    assert len(runs) == 1
    fast.requires_grad_(True)
    fast(X).sum().backward()
    assert fast.proj.weight.grad is not None


def test_autocast_runs_the_original(fast: Any) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        answer, said = told(fast, X)
        assert answer.dtype == fast.original(X).dtype
    assert "autocast is on" in said[0]


def test_inference_mode_keeps_the_kernels(fast: Any) -> None:
    runs = counted(fast)
    with torch.inference_mode():
        torch.testing.assert_close(fast(X), fast.original(X))
        fast(X.clone())
    assert len(runs) == 2


def test_vmap_runs_the_original(fast: Any) -> None:
    runs = counted(fast)
    batch = torch.randn(3, 4, 8)
    torch.testing.assert_close(
        torch.vmap(fast, in_dims=0)(batch), torch.stack([fast.original(one) for one in batch])
    )
    assert runs == []


def test_functional_call_uses_the_weights_that_it_is_given(fast: Any) -> None:
    weights = {name: torch.randn_like(one) for name, one in fast.named_parameters()}
    with torch.no_grad():
        torch.testing.assert_close(
            torch.func.functional_call(fast, weights, (X,)),
            torch.func.functional_call(fast.original, weights, (X,)),
        )


def test_train_and_eval_matter_only_where_they_make_a_difference(fast: Any) -> None:
    runs = counted(fast)
    fast.train()
    assert fast.original.training
    with torch.no_grad():
        fast(X)
    assert len(runs) == 1
    other = made(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).requires_grad_(False).eval(), X)
    torch.testing.assert_close(other(X), other.original(X))
    other.train()
    assert "training mode" in told(other, X)[1][0]
    other.eval()
    other[1].training = True
    assert "1 is in another mode" in told(other, X)[1][0]


class Drops(nn.Module):
    """Reads its mode in the base class's forward."""

    def forward(self, x: Tensor) -> Tensor:
        return dropped(x, self)


class DropsToo(Drops):
    pass


def dropped(x: Tensor, of: nn.Module) -> Tensor:
    return nn.functional.dropout(x, 0.5, of.training) * 2


@pytest.mark.parametrize(
    "module",
    [DropsToo(), nn.LSTM(8, 8, 2, dropout=0.5), nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))],
    ids=["derived, by a function", "lstm", "spectral norm"],
)
def test_any_part_may_depend_on_the_mode(module: nn.Module) -> None:
    fast = made(nn.Sequential(module).requires_grad_(False).eval(), X)
    assert told(fast, X)[1] == []
    fast.train()
    assert "training mode" in told(fast, X)[1][0]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
        self.out.weight = self.into.weight

    def forward(self, x: Tensor) -> Any:
        return self.out(torch.tanh(self.into(x)))


def test_weights_that_are_no_longer_tied_end_the_kernels() -> None:
    x = torch.tensor([1, 7, 3])
    fast = made(Tied().requires_grad_(False), x)
    fast.load_state_dict(Tied().state_dict())
    fast.into.weight = fast.out.weight = nn.Parameter(torch.randn(8, 4), requires_grad=False)
    torch.testing.assert_close(fast(x), fast.original(x))
    fast.out.weight = nn.Parameter(torch.randn(8, 4), requires_grad=False)
    answer, said = told(fast, x)
    torch.testing.assert_close(answer, fast.original(x))
    assert "out or another part has a weight of its own" in said[0]


class Aliases(nn.Module):
    """`function(module, x)`; with a buffer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("cache", torch.zeros(4, 8))

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: (x * 1, x[1:], x + 1),
        lambda self, x: (x.T, x.T.contiguous()),
        lambda self, x: (lambda y: (y, y.clone(), y[0]))(x * 2),
        lambda self, x: (x * 1, x.mul_(2), x.clone()),
        lambda self, x: (self.cache * 1, self.cache.add_(x), self.cache + 1),
    ],
    ids=["a copy of an input", "in another layout", "of another result", "before a write", "of a buffer"],
)
def test_results_share_memory_only_where_the_module_s_do(function: Callable[..., Any]) -> None:
    fast, other = made(Aliases(function), X.clone()), Aliases(function)
    runs = counted(fast)
    for _ in range(2):
        both = []
        for module in (fast, other):
            x = X.clone()
            one, *others = module(x)
            before = one.clone()
            one += 1  # a caller's own business, unless something else is in the same memory
            both.append((before, one, *others, x, module.cache))
        torch.testing.assert_close(*both)
    assert len(runs) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: (nn.functional.dropout(x, 0.1, False), x * 2),
        lambda self, x: (x.add_(1), x[1:, ::2], x * 2),
        lambda self, x: (x.mul_(2).T, self.cache.add_(x)[0], x * 2),
    ],
    ids=["dropout that does nothing", "rows of what is written", "transposed, and of a buffer"],
)
def test_what_the_module_returns_of_its_arguments_is_theirs(function: Callable[..., Any]) -> None:
    fast, other = made(Aliases(function).eval(), X.clone()), Aliases(function).eval()
    runs = counted(fast)
    for _ in range(3):
        both = []
        for module in (fast, other):
            x = X.clone()
            results = module(x)
            x += 1
            module.cache += 1
            both.append((*results, x, module.cache))
        torch.testing.assert_close(*both)
    assert len(runs) == 3
    torch.testing.assert_close(fast(X.T.contiguous().T), other(X.T.contiguous().T))


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: nn.functional.linear(x, self.cache).T.contiguous(),
        lambda self, x: ((x * 2).T, x + 1),
        lambda self, x: x.expand(2, 3, 4, 8).sqrt().contiguous(memory_format=torch.channels_last),
    ],
    ids=["contiguous", "transposed", "channels last"],
)
def test_results_are_laid_out_as_the_module_s(function: Callable[..., Any]) -> None:
    """A caller's `view` works as it did; under torch.compile results are contiguous, as the operator promises."""
    module = Aliases(function)
    fast, x = made(module, X.abs()), X.abs()
    wanted = pytree.tree_leaves(module(x))
    for _ in range(2):
        assert [one.stride() for one in pytree.tree_leaves(fast(x))] == [one.stride() for one in wanted]
    assert all(one.is_contiguous() for one in fast._kernelwright.flat([x]))


def test_a_cache_that_is_returned_is_the_buffer_itself() -> None:
    fast = made(Aliases(lambda self, x: (self.cache.add_(x), x * 2)), X)
    runs = counted(fast)
    assert fast(X)[0] is fast.cache
    torch.testing.assert_close(fast(X)[0], 2 * X)
    assert len(runs) == 2


def test_arguments_that_overlap_what_is_written_take_the_module_s_own_path() -> None:
    class Adds(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x.add_(1) * y

    fast, long = made(Adds(), X.clone(), X.clone()), torch.arange(40.0)
    runs = counted(fast)
    fast(X.clone(), X.clone())
    for start in (0, 8):
        a, b = long.clone(), long.clone()
        answer, said = told(fast, a[:32].view(4, 8), a[start : start + 32].view(4, 8))
        wanted = Adds()(b[:32].view(4, 8), b[start : start + 32].view(4, 8))
        torch.testing.assert_close((answer, a), (wanted, b))
        assert said == ["Adds runs without its kernel: the call writes to memory that y shares"] * (not start)
    assert len(runs) == 1


def test_conjugates_and_negatives_that_torch_has_put_off_are_carried_out() -> None:
    z = torch.randn(4, 8, dtype=torch.complex64)
    fast = made(Aliases(lambda self, x: torch.view_as_real(x * 2).sum(-1)), z)
    code = "def run(x1):\n    assert not x1.is_neg() and not x1.is_conj()\n    return (x1 * 2,)\n"
    real = made(Aliases(lambda self, x: x * 2), X, code=code)
    for module, given in ((fast, z.conj()), (real, z.conj().imag)):
        answer, said = told(module, given)
        torch.testing.assert_close(answer, module.original(given.resolve_conj()))
        assert said == []


def test_it_is_the_original_in_all_but_its_forward(fast: Any) -> None:
    original = fast.original
    assert isinstance(fast, Block)
    assert isinstance(fast, Optimized)
    assert list(fast.state_dict()) == list(original.state_dict())
    assert dict(fast.named_parameters()).keys() == dict(original.named_parameters()).keys()
    assert all(one is other for one, other in zip(fast.parameters(), original.parameters(), strict=True))
    assert fast.factor == 2.0
    assert "Optimized(Block(" in repr(fast)
    assert "def run(" in fast.kernel
    assert fast.verdict.correct
    with pytest.raises(AttributeError):
        _ = fast.nothing
    assert not isinstance(original, Optimized)


def test_hooks_of_the_module_itself_run(fast: Any) -> None:
    runs, seen = counted(fast), []
    fast.register_forward_hook(lambda module, args, output: seen.append(module) or output * 2)
    torch.testing.assert_close(fast(X), 2 * fast.original.forward(X))
    assert seen == [fast]
    assert len(runs) == 1


@pytest.mark.parametrize("of", ["drop_in", "original"])
def test_a_forward_put_in_its_place_is_what_runs(fast: Any, of: str) -> None:
    runs = counted(fast)
    patched = fast if of == "drop_in" else fast.original
    patched.forward = lambda x: x * 3
    torch.testing.assert_close(fast(X), X * 3)
    torch.testing.assert_close(copy.deepcopy(fast)(X), X * 3)
    assert not runs


def test_a_forward_put_around_its_own_finds_the_kernels_inside(fast: Any) -> None:
    """As with accelerate's hooks and mixed precision."""
    runs, own = counted(fast), fast.forward
    fast.forward = lambda x: own(x) * 2
    answer, said = told(fast, X)
    torch.testing.assert_close(answer, 2 * Block.forward(fast.original, X))
    assert (len(runs), said) == (1, [])


def test_a_module_parametrized_itself_runs_the_original() -> None:
    layer = nn.Linear(8, 8).requires_grad_(False)
    fast = made(layer, X)
    runs = counted(fast)
    nn.utils.parametrize.register_parametrization(fast, "bias", Tripled())
    own = fast.parametrizations.bias.original
    torch.testing.assert_close(fast(X), nn.functional.linear(X, fast.weight, 3 * own))
    assert not runs


class Tripled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 3 * x


def test_its_forward_has_the_signature_of_the_modules(fast: Any) -> None:
    assert inspect.signature(fast.forward) == inspect.signature(fast.original.forward)
    assert fast.forward.__name__ == "forward"


def test_it_is_exported_as_the_module(fast: Any) -> None:
    program = torch.export.export(fast, (X,))
    torch.testing.assert_close(program.module()(X), fast.original(X))
    assert "kernelwright" not in str(program.graph)


def test_a_deep_copy_is_a_drop_in_of_a_copy(fast: Any) -> None:
    other = copy.deepcopy(fast)
    runs = counted(other)
    assert isinstance(other, Block)
    assert other.original is not fast.original
    other.proj.weight.zero_()
    torch.testing.assert_close(other(X), other.original(X))
    assert not torch.allclose(other(X), fast(X))
    assert len(runs) == 2


@pytest.mark.filterwarnings("error::UserWarning", "error::FutureWarning")
@pytest.mark.parametrize("by_torch", [False, True], ids=["pickle", "torch.save"])
def test_it_survives_pickling(fast: Any, by_torch: bool) -> None:
    if by_torch:
        file = io.BytesIO()
        torch.save(fast, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    else:
        other = pickle.loads(pickle.dumps(fast))
    runs = counted(other)
    torch.testing.assert_close(other(X), fast.original(X))
    assert len(runs) == 1


def test_a_copy_of_an_invalidated_one_stays_so(fast: Any) -> None:
    fast.factor = 5.0
    other = copy.deepcopy(fast)
    answer, said = told(other, X)
    torch.testing.assert_close(answer, fast.original(X))
    assert "attribute factor was changed" in said[0]


def test_keywords_and_nested_outputs_keep_their_form() -> None:
    fast = made(Several(), X, y=X + 1)
    runs = counted(fast)
    answer, wanted = fast(X, y=X), fast.original(X, y=X)
    torch.testing.assert_close(answer, wanted)
    assert len(runs) == 1
    answer, said = told(fast, X, y=X, add=2.0)
    assert answer["sum"].equal(X + 2)
    assert (
        "has another form than the captured one: 1 arguments by place and ['y', 'add'] by name, not 1 and ['y']"
        in said[0]
    )
    assert len(runs) == 1


def test_a_tensor_where_none_was_captured_runs_the_original() -> None:
    """A mask where there was none: the kernels do not know it."""
    fast = made(Several(), X, y=None)
    runs = counted(fast)
    answer, said = told(fast, X, y=X)
    torch.testing.assert_close(answer, fast.original(X, y=X))
    assert "is a tensor where the graph was captured for None" in said[0]
    assert not runs


@pytest.mark.parametrize("call", [((X,), {}), ((), {"x": X}), ((X, None), {}), ((), {"mask": None, "x": X})])
@pytest.mark.parametrize("known", [((X,), {}), ((), {"x": X}), ((X,), {"mask": None})])
def test_arguments_by_place_and_by_name_are_one_call(known: Any, call: Any) -> None:
    fast = made(Masked(), *known[0], **known[1])
    runs = counted(fast)
    answer, said = told(fast, *call[0], **call[1])
    torch.testing.assert_close(answer, X + 1)
    assert (len(runs), said) == (1, [])


class Masked(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x + 1 if mask is None else x * mask


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def run(*given):\n    raise ValueError('bad')", "the kernel raised ValueError: bad"),
        ("def run(*given):\n    return (given[-1] * 0,)", "the kernels disagree with the module"),
        ("1 +", "the kernel raised SyntaxError"),
    ],
    ids=["raises", "disagrees", "no Python"],
)
def test_kernels_that_fail_are_never_used_again(code: str, why: str) -> None:
    fast = made(Block().requires_grad_(False).eval(), X, code=code)
    answer, said = told(fast, X)
    torch.testing.assert_close(answer, fast.original(X))
    assert why in said[0]
    assert told(fast, X)[1] == []


class Mixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x.bfloat16() * 1.7).float()


@pytest.mark.parametrize(("factor", "used"), [(1.7, True), (1.8, False)])
def test_half_precision_on_the_way_may_round_a_float32_answer(factor: float, used: bool) -> None:
    fast = made(Mixed(), X, code=f"def run(x):\n    return (x * {factor},)")
    answer, said = told(fast, X)
    assert (said == []) == used
    torch.testing.assert_close(answer, X * factor if used else Mixed()(X))


def test_on_a_cpu_it_answers_as_the_original_and_says_so_once(
    fast: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET")
    answer, said = told(fast, X)
    assert torch.equal(answer, fast.original(X))
    assert said == ["Block runs without its kernel: inputs are on the cpu, and a Triton kernel runs on a GPU"]
    assert told(fast, X)[1] == []


def test_other_versions_run_the_original(fast: Any) -> None:
    fast._kernelwright.verified = fast.verified.model_copy(update={"versions": {"torch": "1.0"}})
    assert "torch 1.0" in told(fast, X)[1][0]


def test_a_scripted_module_is_refused() -> None:
    module = nn.Linear(8, 8)
    fast = made(module, X)
    scripted = torch.jit.script(module)
    with pytest.raises(UserError, match="TorchScript"):
        drop_in(scripted, fast.verified, fast._kernelwright.call)


SCALE, SETTINGS = 2.0, {"shift": 1.0}
TABLE = torch.linspace(0, 1, 8)


def scaled(x: Tensor) -> Tensor:
    return x * SCALE


class Reads(nn.Module):
    """Reads globals directly, through a function and through a method."""

    def forward(self, x: Tensor) -> Tensor:
        return self.shifted(scaled(x)) + TABLE

    def shifted(self, x: Tensor) -> Tensor:
        return x + SETTINGS["shift"] + making.OFFSET


def closing(factor: float) -> tuple[nn.Module, Callable[[float], None]]:
    def to(value: float) -> None:
        nonlocal factor
        factor = value

    class Closing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * factor

    return Closing(), to


READ: dict[str, tuple[Callable[[pytest.MonkeyPatch], Any], str]] = {
    "a global": (lambda m: m.setattr(sys.modules[__name__], "SCALE", 3.0), "SCALE, which a forward reads"),
    "a global's contents": (lambda m: m.setitem(SETTINGS, "shift", 5.0), "SETTINGS, which a forward reads"),
    "a global tensor": (lambda m: m.setattr(sys.modules[__name__], "TABLE", torch.ones(8)), "TABLE, which"),
    "a global tensor in place": (lambda m: TABLE.mul_(2), "TABLE, which a forward reads"),
    "a function": (lambda m: m.setattr(sys.modules[__name__], "scaled", lambda x: x), "scaled, which a forward reads"),
    "another module's global": (lambda m: m.setattr(making, "OFFSET", 4.0), "making.OFFSET, which a forward reads"),
}  # fmt: skip


@pytest.mark.parametrize("change", READ, ids=list(READ))
def test_globals_that_a_forward_reads_end_the_kernels(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = made(Reads(), X)
    runs = counted(fast)
    before, said = told(fast, X)
    assert said == []
    do, why = READ[change]
    do(monkeypatch)
    answer, said = told(fast, X)
    torch.testing.assert_close(answer, fast.original(X))
    assert not torch.allclose(before, answer)
    assert why in said[0]
    assert len(runs) == 1


def test_closures_that_a_forward_reads_end_the_kernels() -> None:
    module, to = closing(2.0)
    fast = made(module, X)
    torch.testing.assert_close(fast(X), X * 2)
    to(3.0)
    answer, said = told(fast, X)
    torch.testing.assert_close(answer, X * 3)
    assert "factor, which a forward reads, was changed" in said[0]


def test_a_method_patched_on_the_class_ends_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = made(Reads(), X)
    fast(X)
    monkeypatch.setattr(Reads, "shifted", lambda self, x: x * 0)
    answer, said = told(fast, X)
    torch.testing.assert_close(answer, fast.original(X))
    assert "shifted" in said[0]


def test_kernels_run_at_the_sizes_that_their_verdict_holds_for() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x) * 2.0

    module = Scaled()
    captured = capture(module, (torch.randn(6, 8),), dynamic=True)
    names = [one.name for one in captured.graph.symbols]
    assert names
    known = verified(module, captured)
    verdict = known.verdict.model_copy(update={"sizes": {name.upper(): (2, 8) for name in names}})
    fast = drop_in(module, known.model_copy(update={"verdict": verdict}), captured.part.call, {})
    runs = counted(fast)
    with torch.no_grad():
        fast(torch.randn(3, 5))
        assert len(runs) == 1
        with pytest.warns(RuntimeWarning, match="size .* is 9, and 2 to 8 were verified"):
            fast(torch.randn(9, 5))
    assert len(runs) == 1
