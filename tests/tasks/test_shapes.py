"""Small shape sets for tasks that lack them: what is shrunk, what is kept, what counts as running."""

import pytest

from kernelwright.records import Task
from kernelwright.shapes import constants
from kernelwright.tasks import small_shapes
from kernelwright.tasks.probe import NARROW, ReferenceProbe
from kernelwright.tasks.shapes import kind_of

CONV = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, i, o, k, g):
        super().__init__()
        self.conv = nn.Conv2d(i, o, k, groups=g)
    def forward(self, x):
        return self.conv(x)

batch_size = 128
in_channels = 64
out_channels = 128
height, width = 256, 512
kernel_size = 5
groups = 16

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, groups]
"""


def task(source: str) -> Task:
    return Task(id="file/t", source=source)


def always(task: Task, overrides: object) -> bool:
    return True


def shrunk(source: str) -> dict[str, int]:
    return constants(source) | dict(small_shapes(task(source), always).shapes["small"])


def test_windows_and_factors_are_kept():
    sizes = shrunk(CONV)
    assert sizes["kernel_size"] == 5
    assert kind_of("scaling_factor", 16) == kind_of("dilation", 8) == kind_of("dim", 1) == "keep"


def test_channels_keep_their_ratio_and_stay_multiples_of_the_groups():
    sizes = shrunk(CONV)
    assert sizes["out_channels"] == 2 * sizes["in_channels"]
    assert sizes["in_channels"] % sizes["groups"] == 0


def test_extents_stay_wider_than_the_window():
    sizes = shrunk(CONV)
    assert min(sizes["height"], sizes["width"]) > 2 * sizes["kernel_size"]


def test_the_odd_set_differs_in_every_size_that_may():
    shapes = small_shapes(task(CONV), always).shapes
    assert all(shapes["small_odd"][k] % 2 for k in ("batch_size", "height", "width", "in_channels"))
    assert shapes["small_odd"]["height"] != shapes["small_odd"]["width"]


def test_milder_proposals_follow_a_refusal():
    seen = []

    def third(task, overrides):
        seen.append(dict(overrides))
        return len(seen) >= 3

    found = small_shapes(task(CONV), third).shapes["small"]
    assert found == seen[2]
    assert seen[0]["height"] < seen[2]["height"]


def test_a_batch_tied_to_another_size_is_offered_tied():
    source = "batch_size = 32768\nshape = (32768,)\n"

    def equal(task, overrides):
        return overrides.get("batch_size") == overrides.get("shape[0]")

    found = small_shapes(task(source), equal).shapes["small"]
    assert found["batch_size"] == found["shape[0]"] < 256


def test_a_task_with_small_shapes_is_left_alone():
    own = Task(id="a/b", source="N = 9", shapes={"small": {"N": 3}})
    assert small_shapes(own, always) is own


def test_a_task_that_never_runs_gets_no_shapes():
    assert small_shapes(task(CONV), lambda *_: False).shapes == {}


def test_sizes_are_exchanged_where_a_reference_writes_in_no_defined_order():
    def fits(task, overrides):
        return True if overrides["T"] <= overrides["L"] else None

    sizes = small_shapes(task("T = 48\nD = 256\nL = 1000\n"), fits).shapes["small_odd"]
    assert sizes["T"] < sizes["L"]


@pytest.fixture(scope="module")
def runs():
    with ReferenceProbe(max_elements=100_000, seconds=5.0) as probe:
        yield probe


@pytest.fixture(scope="module")
def impatient():
    with ReferenceProbe(seconds=1.0) as probe:
        yield probe


def test_a_convolution_gets_sizes_under_which_it_runs(runs):
    shapes = small_shapes(task(CONV), runs).shapes
    assert all(runs(task(CONV), over) for over in shapes.values())
    assert set(shapes) == {"small", "small_odd"}


def test_full_size_does_not_count_as_running_small(runs):
    assert not runs(task(CONV), {})


def test_a_network_may_have_larger_weights_than_tensors(runs):
    source = """\
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(512, 512)
    def forward(self, x):
        return self.wide(x).relu()
rows = 4096
def get_inputs():
    return [torch.rand(rows, 512)]
def get_init_inputs():
    return []
"""
    assert not runs(task(source), {})
    assert runs(task(source), {"rows": 4})
    assert not runs(task(source.replace("512", "4096")), {"rows": 4})


STRIDED = """\
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        steps = (torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.MaxPool2d(2), torch.nn.Conv2d(4, 4, 3, 2, 1), torch.nn.AvgPool2d(2))
        self.steps = torch.nn.Sequential(*steps)
    def forward(self, x):
        return self.steps(x).relu()
batch, height, width = 8, 224, 224
def get_inputs():
    return [torch.rand(batch, 3, height, width)]
def get_init_inputs():
    return []
"""


def test_windows_leave_more_than_one_element_if_they_can(runs):
    for over in small_shapes(task(STRIDED), runs).shapes.values():
        assert 32 <= min(over["height"], over["width"]) < 64
    fixed = STRIDED.replace("height, width = 8, 224, 224", "height = 8, 224").replace(
        "height, width)", "height, 16)"
    )
    assert runs(task(fixed), {"height": 16}) == NARROW
    assert set(small_shapes(task(fixed), runs).shapes) == {"small", "small_odd"}


def test_a_number_of_layers_is_no_size(runs):
    source = """\
import torch
class Model(torch.nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(dim, dim) for _ in range(depth)))
    def forward(self, x):
        return self.layers(x)
batch = 64
dim = 256
depth = 12
def get_inputs(): return [torch.rand(batch, dim)]
def get_init_inputs(): return [dim, depth]
"""
    shapes = small_shapes(task(source), runs).shapes
    assert set(shapes) == {"small", "small_odd"}
    assert not any("depth" in over for over in shapes.values())


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError",
        "return x / 0 * 0",
        "return x[:0]",
        "return None",
        "import os; os._exit(3)",
        "print('true'); raise SystemExit",
        "while True: pass",
    ],
)
def test_a_reference_that_fails_does_not_run(impatient, body):
    source = f"""\
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        {body}
def get_inputs(): return [torch.zeros(4)]
def get_init_inputs(): return []
"""
    assert not impatient(task(source), {})


def test_what_the_model_itself_reads_is_kept():
    source = CONV.replace("self.conv(x)", "self.conv(x) / twice").replace(
        "groups = 16", "groups = 16\ntwice = 2 * groups"
    )
    sizes = shrunk(source)
    assert sizes["groups"] == 16
    assert sizes["batch_size"] < 128


def test_what_the_model_reads_gives_way_where_nothing_else_runs():
    source = CONV.replace("self.conv(x)", "self.conv(x) / groups")
    found = small_shapes(task(source), lambda task, over: over.get("groups", 16) < 16).shapes["small"]
    assert found["groups"] < 16


def test_sizes_written_out_where_inputs_are_drawn_become_constants(runs):
    source = """\
import torch
class Model(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = torch.nn.LayerNorm(d // 2)
    def forward(self, x):
        a, b = x.chunk(2, -1)
        return self.norm(torch.sigmoid(a) * b)
def get_inputs(): return [torch.randn(64, 128, 2 * 1024)]
def get_init_inputs(): return [2048]
"""
    sized = small_shapes(task(source), runs)
    assert constants(sized.source) == {"SIZE_64": 64, "SIZE_128": 128, "SIZE_2048": 2048}
    assert set(sized.shapes) == {"small", "small_odd"}
    assert [sized.shapes["small_odd"][name] % 2 for name in constants(sized.source)] == [1, 1, 0]


def test_a_source_without_small_sizes_stays_as_it_is():
    source = "def get_inputs(): return [torch.rand(64)]"
    assert small_shapes(task(source), lambda task, over: False).source == source
