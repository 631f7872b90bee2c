"""The doctor: its findings come from trying, missing things come with a fix, and only a failed trial makes it fail."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelwright import hardware
from kernelwright.cli import doctor, main, show
from kernelwright.cli.doctor import Check
from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Verdict
from kernelwright.verify import VerifierPool
from kernelwright.verify.gpu import sanitizer
from kernelwright.verify.sandbox import confine as sandbox

Found = list[tuple[str, Check]]


@pytest.fixture(scope="module")
def found() -> Found:
    """One real examination of this machine."""
    return list(doctor.examine())


def named(found: Found, name: str) -> Check:
    (check,) = [check for _, check in found if check.name == name]
    return check


def said(
    capsys: pytest.CaptureFixture[str], *checks: tuple[str, Check], as_json: bool = False
) -> tuple[int, str]:
    """(exit code, output) of a doctor with these findings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "examine", lambda kernelbench: iter(checks))
        code = doctor.run(show.console(), as_json)
    return code, capsys.readouterr().out


# a real look at this machine


def test_every_section_is_there_in_its_order(found: Found) -> None:
    assert list(dict.fromkeys(title for title, _ in found)) == [
        "Machine",
        "Software",
        "GPUs",
        "Sandbox",
        "Judge",
    ]


def test_what_a_verdict_needs_is_found(found: Found) -> None:
    for name in ("python", "torch", "triton", "numpy", "pydantic", "compiler: sm_90", "compiler: gfx942"):
        assert named(found, name).ok, named(found, name)
    assert metadata.version("torch") in named(found, "torch").found


def test_a_gold_and_a_cheat_are_really_judged(found: Found) -> None:
    assert re.search(r"judged correct by \w+ in \d", named(found, "a gold").found)
    assert re.search(r"judged torch_compute in \d", named(found, "a cheat").found)


def test_a_confined_process_tried_and_was_refused(found: Found) -> None:
    tried = [check for title, check in found if title == "Sandbox" and check.found.endswith("is refused")]
    in_force = all(state == "in force" for state in sandbox.protections().values())
    assert len(tried) == 6 or not in_force


def test_what_is_missing_says_what_to_do(found: Found) -> None:
    assert [check for _, check in found if not check.ok and not check.fix] == []
    assert [check for _, check in found if "\n" in check.found + check.fix] == []


def test_the_trial_leaves_nothing_behind(
    found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.tempfile, "tempdir", str(tmp_path))
    assert all(check.ok for check in doctor.protections())
    assert list(tmp_path.iterdir()) == []


# versions


def test_the_ranges_are_those_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    wanted = {}
    for line in [*project["dependencies"], *project["optional-dependencies"]["train"]]:
        name, version = re.match(r"([\w-]+)(.*)", line).groups()  # type: ignore[union-attr]
        wanted[name] = version
    for name, (least, below) in doctor.SUPPORTED.items():
        range_ = doctor.check_version(name, least, below).found.partition("(")[2].rstrip(")")
        if wanted[name].startswith("=="):
            assert range_.startswith(f">={wanted[name][2:]},")
        else:
            assert sorted(range_.split(",")) == sorted(wanted[name].split(","))
    assert project["requires-python"] == ">={}.{},<{}.{}".format(*doctor.PYTHONS[0], *doctor.PYTHONS[1])


@pytest.mark.parametrize(
    ("version", "inside"),
    [("2.10.1", False), ("2.11.0+cu126", True), ("2.13.0", True), ("2.14.0", False), ("3.0", False)],
)
def test_a_version_is_held_against_its_range(
    version: str, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    check = doctor.check_version("torch", *doctor.SUPPORTED["torch"])
    assert check.ok is inside
    assert check.fix == "pip install 'torch>=2.11,<2.14'"


def test_a_package_for_training_only_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    assert doctor.check_version("trl", *doctor.SUPPORTED["trl"]).optional
    assert not doctor.check_version("triton", *doctor.SUPPORTED["triton"]).optional


# disk and memory


def test_a_folder_that_cannot_be_written_is_missing() -> None:
    check = doctor.folder("cache", Path("/proc/nobody/writes/here"), "set X")
    assert (check.ok, check.fix) == (False, "set X")
    assert "cannot be written" in check.found


def test_a_full_disk_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    assert not doctor.folder("cache", tmp_path / "new", "free some space").ok


def test_memory_is_what_may_be_used() -> None:
    free, total = hardware.memory()
    assert 0 < free <= total


# GPUs


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Check]]:
    """The checks for GPUs with these (free, total) bytes; None for one that does not answer."""

    def look(*memory: tuple[float, float] | None, driver: str = "570.1") -> list[Check]:
        def info(index: int) -> tuple[float, float]:
            found = memory[index]
            if found is None:
                raise RuntimeError("CUDA error: unknown error\nCompile with ...")
            return found

        sheet = SimpleNamespace(name="NVIDIA Test", major=9, minor=0, total_memory=1)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(memory))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(memory))
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: sheet)
        monkeypatch.setattr(torch.cuda, "mem_get_info", info)
        monkeypatch.setattr(doctor, "_driver", lambda: driver)
        return list(doctor.gpus())

    return look


def test_every_gpu_is_told_with_its_memory(gpus: Callable[..., list[Check]]) -> None:
    checks = {check.name: check for check in gpus((140e9, 150e9), (1e9, 150e9), None)}
    assert checks["GPU 0"].found == "NVIDIA Test, sm_90, 140 GB free of 150 GB"
    assert checks["GPU 0"].ok
    assert not checks["GPU 1"].ok
    assert not checks["GPU 2"].ok
    assert "does not answer: CUDA error: unknown error" in checks["GPU 2"].found
    assert "570.1" in checks["driver"].found


def test_no_gpu_is_no_fault_unless_its_driver_is_there(gpus: Callable[..., list[Check]]) -> None:
    assert gpus(driver="")[0].ok
    check = gpus(driver="570.1")[0]
    assert not check.ok
    assert "driver 570.1, but torch" in check.found


def test_the_sanitizer_is_told(gpus: Callable[..., list[Check]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizer, "find", lambda: None)
    assert not gpus()[-1].ok
    assert gpus()[-1].optional
    monkeypatch.setattr(sanitizer, "find", lambda: Path("/bin/true"))
    assert gpus()[-1].ok


# KernelBench


def test_a_checkout_of_kernelbench_is_counted(tmp_path: Path) -> None:
    level = tmp_path / "level1"
    level.mkdir()
    source = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x\n"
    source += "def get_inputs(): return [torch.rand(4)]\ndef get_init_inputs(): return []\n"
    (level / "1_identity.py").write_text(source)
    (check,) = doctor.benchmark(str(tmp_path))
    assert check.found.endswith(": 1 tasks")
    (check,) = doctor.benchmark(str(tmp_path / "nowhere"))
    assert not check.ok


# what is printed, and the exit code

GOOD = ("Judge", Check("a gold", "is judged correct"))


def test_a_missing_protection_is_told_and_does_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    lost = ("Sandbox", Check("landlock", "not available here", False, "use Linux 5.13"))
    code, out = said(capsys, lost, GOOD)
    assert code == 0
    assert re.search(r"missing\s+landlock\s+not available here: use Linux 5.13", out)
    assert "Verdicts can be made here. Missing: landlock." in out


def test_a_failed_trial_fails(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = said(capsys, GOOD, ("Judge", Check("a cheat", "is judged correct", False, "look")))
    assert code == 3
    assert "No verdict can be made here." in out


def test_optional_things_are_not_called_missing_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = said(
        capsys, ("Software", Check("vllm", "not installed", False, "pip install", optional=True)), GOOD
    )
    assert "Missing" not in out


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = said(
        capsys, ("Sandbox", Check("seccomp", "not available here", False, "x")), GOOD, as_json=True
    )
    report = json.loads(out)
    assert code == 0
    assert report["verdicts_can_be_made"] is True
    assert [check["ok"] for check in report["checks"]] == [False, True]
    assert report["checks"][0]["section"] == "Sandbox"


def test_looking_that_fails_is_a_line_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterator[Check]:
        yield Check("first", "there")
        raise OSError(5, "Input/output error\nagain")

    monkeypatch.setattr(doctor, "SECTIONS", (("Machine", broken), ("Judge", lambda: iter([GOOD[1]]))))
    checks = [check for _, check in doctor.examine()]
    assert [check.ok for check in checks] == [True, False, True]
    assert "could not be looked at: OSError" in checks[1].found
    assert "\n" not in checks[1].found


@pytest.mark.parametrize(
    "answer", [Outcome.CORRECT, Outcome.INFRASTRUCTURE_ERROR, InfrastructureError("no zygote")]
)
def test_a_judge_that_takes_everything_or_nothing_fails(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(pool: Any, task: Any, candidate: Any) -> Verdict:
        if isinstance(answer, Exception):
            raise answer
        return Verdict(task_id=task.id, outcome=answer, gate=Gate.LOAD, detail="why")

    monkeypatch.setattr(VerifierPool, "verify", verify)
    monkeypatch.setattr(doctor, "SECTIONS", [("Judge", doctor.trial)])
    assert doctor.run(show.console()) == 3


def test_the_command_takes_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SECTIONS", [("Judge", lambda: iter([GOOD[1]]))])
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checks"]


def test_the_drivers_version_is_asked_for_where_no_module_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: Any) -> Any:
        assert command[0] == "nvidia-smi"
        return SimpleNamespace(stdout="580.2\n580.2\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert doctor._driver()
