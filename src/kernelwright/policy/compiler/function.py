"""Writes the candidate: the `@triton.jit` functions, then `def kernel(x, weight, ...)`, which launches them.

Pointers are named after their tensors, sizes after the graph's symbols or their role, buffers `out` and `h0`, ..., and a
kernel's values after the operation that made them. Sizes are read from the arguments' shapes, so that the code works for every
shape of its graph.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from kernelwright.graph import public
from kernelwright.graph.sizes import solve
from kernelwright.parsing import names_within, rename_within, substitute
from kernelwright.policy.compiler import helpers, kernels, wrapper
from kernelwright.policy.compiler.lower import Lowered
from kernelwright.policy.compiler.naming import Names, local_names
from kernelwright.policy.compiler.reasons import CannotCompile
from kernelwright.policy.compiler.wrapper import Launch, Library, Tensor, same

WIDTH = 100
_NOISE = re.compile(r"(_to_copy|_unsafe_view|view|expand|clone|permute|transpose|unsqueeze|squeeze|scalar_tensor|"
                    r"convert_element_type|native_|_no_training|legit_|prims|aten|reshape|(?<=_)t(?=_|$))")  # fmt: skip


@dataclass
class _Use:
    """One launch of a kernel: arguments by parameter."""

    kernel: kernels.Kernel
    arguments: dict[str, Any]
    grid: list[ast.expr]


def write(lowered: Lowered) -> str:
    """The candidate's source. Raises CannotCompile."""
    plan = wrapper.read(lowered)
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    parsed: dict[str, kernels.Kernel] = {}
    raw: dict[str, list[str]] = {}
    for launch in launches:
        if launch.kernel not in parsed:
            one = parsed[launch.kernel] = kernels.parse(launch.kernel, plan.kernels[launch.kernel])
            raw[launch.kernel] = [item.arg for item in one.function.args.args if item.annotation is None]
            kernels.plain(one)
    uses = [_use(parsed[launch.kernel], raw[launch.kernel], launch) for launch in launches]
    _merge_sizes(parsed, uses)
    host = _Host(lowered, plan, uses)
    texts: list[str] = []
    used: dict[str, None] = {}
    for one in parsed.values():
        host.name_kernel(one)
        _rename_parameters(one, host.parameter_names(next(use for use in uses if use.kernel is one)))
        used |= one.helpers
        mentioned = names_within(one.function)
        texts += [_function(combine) for combine in one.combines if combine.name in mentioned]
        texts.append(_function(one.function))
    parts = ["import torch\nimport triton\nimport triton.language as tl"]
    if helpers.LIBDEVICE in used:
        parts[0] += "\nfrom triton.language.extra import libdevice"
    parts += [f"@triton.jit\n{helpers.SOURCES[name]}" for name in used if name in helpers.SOURCES]
    parts += [*texts, "\n".join(host.kernel())]
    return "\n\n\n".join(parts) + "\n"


def _use(kernel: kernels.Kernel, names: Sequence[str], launch: Launch) -> _Use:
    values = launch.arguments
    grid: list[ast.expr] = []
    if kernel.grid == "FixedGrid":
        values, grid = values[: len(names)], list(values[len(names) :])
        if len(grid) == 3 and ast.unparse(grid[2]).startswith("max(1, "):
            # The batch size, which the kernel splits up.
            grid = [grid[0], grid[2].args[1].left.right]  # type: ignore[attr-defined]
    if len(values) != len(names):
        raise CannotCompile("unsupported", "a launch whose arguments do not match its kernel")
    arguments = dict(zip(names, values, strict=True))
    for name, expression in kernel.scalars.items():
        arguments[name] = substitute(copy.deepcopy(expression), arguments)
    kept = set(kernel.parameters)
    if not grid:
        grid = _grid(kernel, arguments)
    return _Use(kernel, {name: value for name, value in arguments.items() if name in kept}, grid)


def _grid(kernel: kernels.Kernel, arguments: Mapping[str, Any]) -> list[ast.expr]:
    """Programs per axis: sizes divided by tiles."""
    grid: list[ast.expr] = []
    for axis in kernels.AXES:
        count = arguments.get(f"{axis}numel")
        if count is None:
            continue
        tile = f"{axis.upper()}BLOCK"
        size = kernel.tiles.get(tile, 1)
        grid.append(count if size == 1 else _cdiv(count, ast.Constant(size)))
    if kernel.swapped:
        grid[0], grid[1] = grid[1], grid[0]
    return grid or [ast.Constant(1)]


def _merge_sizes(parsed: Mapping[str, kernels.Kernel], uses: Sequence[_Use]) -> None:
    """Merge two parameters that have the same size at every launch."""
    for kernel in parsed.values():
        own = [use for use in uses if use.kernel is kernel]
        sizes = [name for name, value in own[0].arguments.items() if isinstance(value, ast.expr)]
        for place, name in enumerate(sizes):
            for other in sizes[:place]:
                if other in own[0].arguments and all(
                    same(use.arguments[name], use.arguments[other]) for use in own
                ):
                    keep, drop = (name, other) if name.endswith("numel") else (other, name)
                    rename_within(kernel.function, {drop: keep})
                    arguments = kernel.function.args
                    arguments.args = [argument for argument in arguments.args if argument.arg != drop]
                    for use in own:
                        del use.arguments[drop]
                    break


class _Host:
    """Names for everything in `kernel`, and its lines."""

    def __init__(self, lowered: Lowered, plan: wrapper.Plan, uses: Sequence[_Use]) -> None:
        self.lowered, self.plan, self.uses = lowered, plan, uses
        self.names = Names({"kernel", "torch", "triton", "tl", *lowered.parameters})
        numbers = set(lowered.parameters)
        self.symbols = {
            symbol: symbol if symbol in numbers else self.names.fresh(symbol) for symbol in lowered.symbols
        }
        self.tensors: dict[str, str] = {}
        outputs = {output.base.name for output in plan.outputs if output.base.kind == "buffer"}
        for step in plan.steps:
            made = [step] if isinstance(step, Tensor) else []
            if isinstance(step, Library) and not step.given:
                made = [one for one in step.results if one is not None]
            for one in made:
                self.tensors[one.name] = self.names.fresh("out" if one.name in outputs else "h0")
        self.kernels: dict[str, str] = {}

    # -- kernels -----------------------------------------------------------------------------------------------

    def name_kernel(self, kernel: kernels.Kernel) -> None:
        text = re.sub(r"^triton_[a-z]+_fused_|_\d+$", "", kernel.name)
        text = re.sub(r"_+", "_", _NOISE.sub("", text)).strip("_")
        words = list(dict.fromkeys(text.split("_")))[:5]
        kernel.function.name = self.kernels[kernel.name] = self.names.fresh(
            f"{'_'.join(words) or 'copy'}_kernel"
        )

    def parameter_names(self, use: _Use) -> dict[str, str]:
        """New names of parameters and tiles, by old name."""
        kernel = use.kernel
        reduces = "reduction" in kernel.kind
        names = Names(
            set(helpers.SOURCES) | {helpers.LIBDEVICE, "tl", "triton", "min", "max", "range", "float"}
        )
        found: dict[str, str] = {}
        for name, value in use.arguments.items():
            if isinstance(value, Tensor):
                found[name] = names.fresh(f"{self._base(value)}_ptr")
            elif name in kernel.scalars:
                found[name] = names.fresh("scale")
            elif name.endswith("numel"):
                role = {"x": "n_rows" if reduces else "n_elements", "y": "n_y", "z": "n_z"}.get(
                    name[0], "n_cols"
                )
                if name[0] == "x" and "ynumel" in use.arguments:
                    role = "n_x"
                found[name] = names.fresh(role)
            elif isinstance(value, ast.Name):
                found[name] = names.fresh(self.symbols.get(value.id, "size"))
            else:
                found[name] = names.fresh("size")
        spaces = [name for name in kernel.tiles if not name.startswith("R")]
        for name in kernel.tiles:
            new = name
            if name.endswith("BLOCK"):
                if name.startswith("R"):
                    new = "BLOCK_N" if spaces else "BLOCK"
                elif reduces:
                    new = {"XBLOCK": "BLOCK_M"}.get(name, f"BLOCK_{name[0]}")
                else:
                    new = "BLOCK" if len(spaces) == 1 else f"BLOCK_{name[0]}"
            found[name] = names.fresh(new)
        return found

    # -- the function ------------------------------------------------------------------------------------------

    def kernel(self) -> list[str]:
        """The lines of `def kernel`."""
        body: list[str] = []
        for step, use in self._steps():
            if isinstance(step, Tensor):
                body.append(f"{self.tensors[step.name]} = {self._allocation(step)}")
            elif isinstance(step, Library):
                body += self._library(step)
            else:
                assert use is not None
                body += self._launch(use)
        results = [self._output(tensor) for tensor in self.plan.outputs]
        body.append(f"return {', '.join(results)}")
        text = "\n".join(body)
        whole = [f"{name} = {name}.contiguous()" for name in self.lowered.arguments if self._reads(name)]
        head = _wrap("def kernel(", list(self.lowered.parameters), "):", WIDTH)
        return [*head, *(f"    {line}" for line in [*self._sizes(text), *whole, *body])]

    def _reads(self, name: str) -> bool:
        """Whether a kernel or a view uses the argument of that name and expects it to be contiguous."""
        used: list[Iterable[Any]] = [use.arguments.values() for use in self.uses]
        used += [step.arguments for step in self.plan.steps if isinstance(step, Library)]
        given = (value for values in used for value in values if isinstance(value, Tensor))
        return self.lowered.types[name].strides is None and any(
            value.base.kind == "input" and value.base.name == name for value in given
        )

    def _library(self, step: Library) -> list[str]:
        """The lines of a call that stays with ATen."""
        given = [self._operand(value) for value in step.arguments]
        options = {name: self._operand(value) for name, value in step.options.items()}
        if step.function.startswith("aten."):
            return self._operator(step, given, options)
        if step.function.endswith("attention"):
            names = ("attn_mask", "is_causal", "scale", "enable_gqa")
            options = {
                name: text
                for name, text in zip(names, given[3:], strict=False)
                if text not in ("None", "False")
            }
            given = given[:3]
        (result,) = step.results
        assert result is not None
        if step.given and not step.function.endswith("_"):
            options["out"] = self._output(result)
        texts = [*given, *(f"{name}={text}" for name, text in options.items())]
        call = f"{step.function}({', '.join(texts)})"
        if step.given:
            return [call]
        whole = ".contiguous()" if step.contiguous else ""
        return [f"{self.tensors[result.name]} = {call}{whole}"]

    def _operator(self, step: Library, given: list[str], options: dict[str, str]) -> list[str]:
        """The operator's call, with results in the strides that the kernels expect."""
        names = ["_" if one is None else self.tensors[one.name] for one in step.results]
        line = public.statement(step.function, given, options, names)
        made = [one for one in step.results if one is not None]
        if "torch.ops." in line:
            raise CannotCompile("extern", step.function.rpartition(".")[0])
        dense = [self.tensors[one.name] for one in made if wrapper.dense(one.size, one.stride)]
        return [line, *(f"{name} = {name}.contiguous()" for name in dense)]

    def _operand(self, value: Any) -> str:
        return self._output(value) if isinstance(value, Tensor) else self.text(value)

    def _steps(self) -> Iterable[tuple[Tensor | Launch | Library, _Use | None]]:
        uses = iter(self.uses)
        for step in self.plan.steps:
            yield step, next(uses) if isinstance(step, Launch) else None

    def _allocation(self, tensor: Tensor) -> str:
        made = "zeros" if tensor.zeroed else "empty"
        device = f"{self.lowered.arguments[0]}.device" if self.lowered.arguments else "'cuda'"
        contiguous = wrapper.dense(tensor.size, tensor.stride)
        if contiguous and not tensor.zeroed:
            for name in self.lowered.inputs:
                kind = self.lowered.types[name]
                same_type = kind.strides is None and f"torch.{kind.dtype}" == tensor.dtype
                if same_type and wrapper.all_same(wrapper.dims(kind.shape), tensor.size):
                    return f"torch.empty_like({name})"
        size = self._tuple(tensor.size)
        if contiguous:
            return f"torch.{made}({size}, device={device}, dtype={tensor.dtype})"
        if tensor.zeroed:
            raise CannotCompile("unsupported", "a zeroed buffer with strides")
        return f"torch.empty_strided({size}, {self._tuple(tensor.stride)}, device={device}, dtype={tensor.dtype})"

    def _tuple(self, items: Sequence[ast.expr]) -> str:
        texts = [self.text(item) for item in items]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    def _launch(self, use: _Use) -> list[str]:
        kernel = use.kernel
        lines: list[str] = []
        counted: dict[str, str] = {}
        mentioned = [value for value in [*use.arguments.values(), *use.grid] if isinstance(value, ast.expr)]
        for name, value in use.arguments.items():
            if not isinstance(value, ast.expr) or isinstance(value, (ast.Name, ast.Constant)):
                continue
            text = ast.unparse(value)
            if name in kernel.scalars:
                continue
            if sum(text in ast.unparse(other) for other in mentioned) > 1 and text not in counted:
                role = {"x": "n", "r": "n_cols", "y": "n_y"}.get(name[0], "size")
                counted[text] = self.names.fresh(role)
                lines.append(f"{counted[text]} = {self.text(value)}")
        arguments = []
        for value in use.arguments.values():
            if isinstance(value, Tensor):
                arguments.append(self.tensor(value))
            else:
                arguments.append(counted.get(ast.unparse(value)) or self.text(value))
        names = self.parameter_names(use)
        for tile, size in kernel.tiles.items():
            arguments.append(f"{names[tile]}={self._tile(use, tile, size, counted)}")
        arguments.append(f"num_warps={kernel.warps}")
        if kernel.stages:
            arguments.append(f"num_stages={kernel.stages}")
        grid = [self.text(_shorten(item, counted)) for item in use.grid]
        while len(grid) > 1 and grid[-1] == "1":
            grid.pop()
        head = f"{self.kernels[kernel.name]}[({', '.join(grid)}{',' if len(grid) == 1 else ''})]("
        return [*lines, *_wrap(head, arguments, ")", WIDTH - 8)]

    def _tile(self, use: _Use, tile: str, size: int | None, counted: Mapping[str, str]) -> str:
        if size is not None:
            return str(size)
        count = use.arguments[f"{tile[:2].lower()}_numel"]
        assert isinstance(count, ast.expr)
        text = counted.get(ast.unparse(count)) or self.text(count)
        # What a slice leaves of a size may be nothing.
        less = any(isinstance(one, ast.Sub | ast.USub) for one in ast.walk(count))
        return f"triton.next_power_of_2({f'max({text}, 1)' if less else text})"

    def tensor(self, tensor: Tensor) -> str:
        """A tensor as a launch argument; for a view, only its start matters."""
        if tensor.start is None:
            return self._base(tensor)
        if not wrapper.dense(tensor.base.size, tensor.base.stride):
            raise CannotCompile("unsupported", "a view with an offset")
        return f"{self._base(tensor)}.view(-1)[{self.text(tensor.start)}:]"

    def _base(self, tensor: Tensor) -> str:
        """The name of the tensor itself or, for a view, of the whole."""
        base = tensor.base
        return self.tensors[base.name] if base.kind == "buffer" else base.name

    def _output(self, tensor: Tensor) -> str:
        name, base = self.tensor(tensor), tensor.base
        strided = f"{name}.as_strided({self._tuple(tensor.size)}, {self._tuple(tensor.stride)})"
        if tensor.start is not None:
            # An offset of as_strided counts from the start of the storage, but an argument may begin anywhere in its own.
            return strided
        if tensor is base or (
            wrapper.all_same(tensor.size, base.size) and wrapper.all_same(tensor.stride, base.stride)
        ):
            return name
        plain = wrapper.dense(tensor.size, tensor.stride)
        if plain and wrapper.dense(base.size, base.stride) and same(_count(tensor.size), _count(base.size)):
            return f"{name}.view({', '.join(self.text(side) for side in tensor.size)})"
        return strided

    # -- sizes -------------------------------------------------------------------------------------------------

    def text(self, expression: ast.expr) -> str:
        """An expression in the function's names."""
        tree = copy.deepcopy(expression)
        rename_within(tree, self.symbols)
        return ast.unparse(_Tidy().visit(tree))

    def _sizes(self, body: str) -> list[str]:
        """Lines that read every used symbol from a shape. Raises CannotCompile for one that is in no shape."""
        used = set(re.findall(r"[A-Za-z_]\w*", body))
        wanted = [symbol for symbol, name in self.symbols.items() if name in used]
        known = set(self.lowered.symbols) & set(self.lowered.parameters)
        lines: list[str] = []
        for label, kind in self.lowered.types.items():
            shape = [str(dim) for dim in kind.shape]
            new = [text for text in dict.fromkeys(shape) if text in wanted and text not in known]
            if not new:
                continue
            seen: set[str] = set()
            targets = []
            for text in shape:
                take = text in new and text not in seen
                seen.add(text)
                targets.append(self.symbols[text] if take else "_")
            if len(new) == 1 and len(shape) > 1:
                lines.append(f"{self.symbols[new[0]]} = {label}.shape[{shape.index(new[0])}]")
            else:
                lines.append(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {label}.shape")
            known |= set(new)
        solved: dict[str, str] = {}
        while missing := [one for one in wanted if one not in known]:
            unknown = [one for one in (*missing, *self.symbols) if one not in known]
            solution = next(((one, text) for one in unknown if (text := self._solve(one, known))), None)
            if solution is None:
                raise CannotCompile("size", f"{missing[0]} cannot be told from any shape")
            solved[solution[0]] = solution[1]
            known.add(solution[0])
        needed = [one for one in solved if one in wanted]
        for one in reversed(solved):  # symbols needed to solve others come before them
            read = re.findall(r"\w+", " ".join(solved[other] for other in needed))
            needed += [one] if one not in needed and self.symbols[one] in read else []
        return lines + [f"{self.symbols[one]} = {solved[one]}" for one in solved if one in needed]

    def _solve(self, symbol: str, known: set[str]) -> str:
        """Solve for the symbol from a size that is a formula over it and known symbols; "" if there is none."""
        for label, kind in self.lowered.types.items():
            for axis, dim in enumerate(kind.shape):
                found = solve(str(dim), symbol, f"{label}.shape[{axis}]", known)
                if found is not None:
                    return self.text(ast.parse(found, mode="eval").body)
        return ""


def _count(size: Sequence[ast.expr]) -> ast.expr:
    """Number of elements of a tensor."""
    return wrapper.contiguous_strides([ast.Constant(1), *size])[0]


class _Tidy(ast.NodeTransformer):
    """`(31 + n) // 32` as `triton.cdiv(n, 32)`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.FloorDiv) and isinstance(node.right, ast.Constant):
            top, tile = node.left, ast.literal_eval(node.right)
            if isinstance(top, ast.BinOp) and isinstance(top.op, ast.Add):
                for part, rest in ((top.left, top.right), (top.right, top.left)):
                    if isinstance(part, ast.Constant) and part.value == tile - 1:
                        return _cdiv(rest, node.right)
        return node


def _cdiv(count: ast.expr, tile: ast.expr) -> ast.expr:
    return ast.Call(ast.parse("triton.cdiv", mode="eval").body, [count, tile], [])


def _shorten(expression: ast.expr, names: Mapping[str, str]) -> ast.expr:
    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            if isinstance(node, ast.expr) and ast.unparse(node) in names:
                return ast.Name(names[ast.unparse(node)], ast.Load())
            return super().visit(node)

    return cast(ast.expr, Put().visit(copy.deepcopy(expression)))


def _rename_parameters(kernel: kernels.Kernel, names: Mapping[str, str]) -> None:
    function = kernel.function
    new = dict(names) | local_names(kernel, names)
    rename_within(function, new)
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            node.arg = new.get(node.arg, node.arg)


def _function(function: ast.FunctionDef) -> str:
    """The source of a function with its decorator; a long signature is split over several lines."""
    function = copy.deepcopy(function)
    items = [ast.unparse(argument) for argument in function.args.args]
    body = "\n".join(f"    {line}" for part in function.body for line in ast.unparse(part).splitlines())
    return "\n".join(["@triton.jit", *_wrap(f"def {function.name}(", items, "):", WIDTH), body])


def _wrap(head: str, items: Sequence[str], tail: str, width: int) -> list[str]:
    line = f"{head}{', '.join(items)}{tail}"
    if len(line) <= width:
        return [line]
    lines, current = [head], ""
    for item in items:
        if current and len(current) + len(item) + 6 > width:
            lines.append(f"    {current.rstrip()}")
            current = ""
        current += f"{item}, "
    return [*lines, f"    {current.rstrip()}", tail]
