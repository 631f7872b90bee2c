"""Two machines' emissions: equal bytes are identical, everything planted is named, and nothing else is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.data.inductor.emit import emit
from kernelwright.data.inductor.emitted import Dump, Emission, compare, differences, digest, kernels
from kernelwright.errors import UserError
from kernelwright.records import Task, write_jsonl

KERNEL = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
triton_helpers.set_driver_to_gpu()

@triton_heuristics.pointwise(
    size_hints={'x': 1048576},
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'},
                 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90),
                 'configs': [{(0,): [['tt.divisibility', 16]]}]},
    inductor_meta={'kernel_name': 'triton_poi_fused_relu_0', 'num_load': 1, 'backend_hash': 'AB12', 'min_split': 2},
    min_elem_per_thread=0
)
@triton.jit
def triton_poi_fused_relu_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    BLOCK_M : tl.constexpr = 64
    xoffset = tl.program_id(0).to(tl.int64) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask, eviction_policy='evict_last')
    tmp1 = tl.full([1], 0, tl.int32)
    tmp2 = triton_helpers.maximum(tmp1, tmp0)
    tl.store(out_ptr0 + (x0), tmp2, xmask)
"""
TASK = Task(
    id="t/relu", source="import torch\n\nclass Model(torch.nn.Module): ...\n", shapes={"small": {"N": 8}}
)


def module(*sources: str) -> str:
    lines = [
        f"k{number} = async_compile.triton('k{number}', {source!r}, device_str='cuda')"
        for number, source in enumerate(sources)
    ]
    return "\n".join(["async_compile = AsyncCompile()", *lines, "def call(args):\n    return ()"])


def dump(where: str, *raws: str, torch: str = "2.11.0", code: str = "x = 1") -> Dump:
    tasks = [
        TASK.model_copy(update={"id": f"t/{number}", "source": f"{number}"}) for number in range(len(raws))
    ]
    return Dump(
        where=where,
        machine={"torch": torch, "triton": "3.6.0"},
        emissions=tuple(
            Emission(
                task=task, digest=digest(task), raw=raw, code=code, reason="" if raw else "extern: aten.mm"
            )
            for task, raw in zip(tasks, raws, strict=True)
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("cc=90", "cc=80", {"device properties: triton_meta.device.cc"}),
        ("index=0", "index=1", {"device properties: triton_meta.device.index"}),
        ("AB12", "CD34", {"hashes: inductor_meta.backend_hash"}),
        ("1048576", "2097152", {"autotune hints: size_hints.x"}),
        ("'min_split': 2", "'min_split': 3", {"settings: inductor_meta.min_split"}),
        ("'num_load': 1, ", "", {"autotune hints: inductor_meta.num_load"}),
        ("heuristics.pointwise", "heuristics.reduction", {"heuristic"}),
        ("'xnumel': 'i32'", "'xnumel': 'i64'", {"signature: triton_meta.signature.xnumel"}),
        ("fused_relu_0", "fused_relu_1", {"names: inductor_meta.kernel_name", "names: of the kernel"}),
        ("tmp2", "tmp9", {"names: of temporaries"}),
        ("= 64", "= 128", {"tiles"}),
        ("'evict_last'", "'evict_first'", {"cache hints"}),
        ("tl.int64", "tl.int32", {"index type"}),
        ("    x0 = xindex\n", "    # x0 is the index\n    x0 = xindex\n", {"comments and layout"}),
        ("import triton\n", "import triton\nimport math\n", {"imports"}),
        ("maximum(tmp1, tmp0)", "maximum(tmp0, tmp1)", {"code"}),
    ],
)  # fmt: skip
def test_what_is_planted_is_named(old: str, new: str, kinds: set[str]) -> None:
    assert old in KERNEL
    assert set(differences(KERNEL, KERNEL.replace(old, new))) == kinds


def test_several_causes_are_all_named() -> None:
    other = KERNEL.replace("cc=90", "cc=80").replace("tmp2", "tmp9").replace("= 64", "= 32")
    assert differences(KERNEL, other) == (
        "device properties: triton_meta.device.cc",
        "names: of temporaries",
        "tiles",
    )
    assert differences(KERNEL, KERNEL) == ()


def test_dumps_are_counted_kernel_by_kernel() -> None:
    changed = KERNEL.replace("cc=90", "cc=80")
    left = dump("h200", module(KERNEL, KERNEL), module(KERNEL), "", module(KERNEL))
    right = dump(
        "gpu", module(KERNEL, changed), module(KERNEL), module(KERNEL), module(KERNEL, KERNEL), code="y"
    )
    found = compare(left, right)
    assert (found.tasks, found.kernels, found.identical, found.raw) == (3, 5, 3, 1)
    assert found.missing == ("t/2: nothing by h200: extern: aten.mm",)
    assert found.modules == (0, 3)
    assert found.kinds == {
        "device properties: triton_meta.device.cc": 1,
        "fusion: a kernel that only one has": 1,
    }
    assert "+                 'device': DeviceProperties(" in found.changes[0].diff
    assert list(kernels(module(KERNEL, KERNEL))) == ["k0", "k1"]


def test_dumps_that_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"dumps of torch 2\.11\.0 and 2\.13\.0; compare"):
        compare(dump("h200", module(KERNEL)), dump("gpu", module(KERNEL), torch="2.13.0+cu130"))
    with pytest.raises(UserError, match="no task in common"):
        compare(dump("h200", module(KERNEL)), dump("gpu"))
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(UserError, match="no dump of this version"):
        Dump.read(tmp_path / "x.json")
    with pytest.raises(UserError, match="make it with --dump"):
        Dump.read(tmp_path / "y.json")


def test_there_must_be_a_gpu_to_emit_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match="no GPU here"):
        emit([TASK], "gpu")


@pytest.mark.slow
def test_two_processes_emit_the_same_bytes(tmp_path: Path) -> None:
    from kernelwright.tasks import load_suite

    names = ("layernorm", "linear_bias", "softmax_rows")
    write_jsonl(tmp_path / "tasks.jsonl", [load_suite(f"wright/{name}")[0] for name in names])
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "kernelwright.data.inductor.emit", "h200", "tasks.jsonl", f"{seed}.json"],
            cwd=tmp_path,
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONHASHSEED": seed,
                "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",
            },
            check=True,
        )
    found = compare(*(Dump.read(tmp_path / f"{seed}.json") for seed in ("1", "2")))
    assert found.tasks == found.raw == len(names)
    assert found.changes == ()
    assert found.modules == (len(names), len(names))
