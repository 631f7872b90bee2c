"""The modelled baselines: bytes that eager and torch.compile would move."""

from kernelwright.hardware import TARGETS
from kernelwright.records import Task
from kernelwright.verify.reference.baseline import Baseline, baseline

H200 = TARGETS["h200"]


def of(body: str, inputs: str) -> Baseline:
    source = f"""
import torch
class Model(torch.nn.Module):
    def forward(self, *args):
{body}
def get_inputs():
    return {inputs}
def get_init_inputs():
    return []
"""
    return baseline(Task(id="test/task", source=source, shapes={"small": {}}), {}, H200)


def test_of_a_table_the_rows_that_an_index_names_are_read() -> None:
    found = of(
        "        table, index = args\n        return torch.nn.functional.embedding(index, table)",
        "[torch.rand(50000, 256), torch.randint(0, 50000, (64,))]",
    )
    rows = 4 * 64 * 256
    assert found.min_bytes == 2 * rows + 8 * 64
    assert found.eager.bytes == found.min_bytes


def test_a_run_reads_what_it_does_not_make_and_writes_what_others_read() -> None:
    both = of(
        "        a, b = args\n        return (a.relu() + b).neg()",
        "[torch.rand(8192, 8192), torch.rand(8192, 8192)]",
    )
    one = of("        return args[0].relu().exp().neg()", "[torch.rand(8192, 8192)]")
    assert 1.4 < both.compiled_ms / one.compiled_ms < 1.6


def test_all_wait_for_a_sum_of_everything() -> None:
    found = of("        return args[0] / args[0].sum()", "[torch.rand(8192, 8192)]")
    rows = of("        return args[0] / args[0].sum(1, keepdim=True)", "[torch.rand(8192, 8192)]")
    assert found.compiled_ms > 1.4 * rows.compiled_ms


def test_a_sort_and_a_scatter_are_launches_of_their_own() -> None:
    maps = of("        return (args[0] + 1).neg() * 2", "[torch.rand(8, 64)]")
    sort = of("        return (args[0] + 1).sort().values * 2", "[torch.rand(8, 64)]")
    scatter = of(
        "        return torch.zeros(8, 64).scatter_add(1, args[1], args[0] + 1).neg() * 2",
        "[torch.rand(8, 64), torch.randint(0, 64, (8, 64))]",
    )
    assert 2.9 < sort.compiled_ms / maps.compiled_ms < 3.5
    assert 2.9 < scatter.compiled_ms / maps.compiled_ms < 3.5


def test_a_recurrent_layer_is_one_call_in_eager_and_compiled_whose_steps_wait_for_one_another() -> None:
    layer = "torch.lstm(x, (h, h), [w, u, b, b], True, 1, 0.0, False, False, False)[0]"
    setup = "        x, w, u, b = args\n        h = torch.zeros(1, 32, 64)\n"
    sizes = "[torch.rand({}, 32, 64), torch.rand(256, 64), torch.rand(256, 64), torch.rand(256)]"
    few = of(f"{setup}        return {layer}", sizes.format(8))
    more = of(f"{setup}        return {layer}", sizes.format(40))
    around = of(f"{setup}        return ({layer} + 1).neg()", sizes.format(8))
    assert few.eager.launches == 2  # the state is filled
    assert few.eager.ms == few.compiled_ms
    assert abs(more.compiled_ms - few.compiled_ms - 32 * 2e-6 * H200.latency_ns) < 1e-6
    assert around.eager.launches == 4
    assert around.eager.ms - around.compiled_ms > 1e-3 * H200.launch_us
    assert few.contraction_flops == 2 * 8 * 32 * (256 * 64 + 256 * 64)
