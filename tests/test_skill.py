"""The skill's example ends in an accepted kernel, and shows its real task and kernel."""

import re
import textwrap
from pathlib import Path

from kernelwright.records import Candidate
from kernelwright.tasks import load_suite, small_shapes
from kernelwright.verify import VerifierPool

TEXT = (Path(__file__).parents[1] / "skills/write-a-triton-kernel/SKILL.md").read_text("utf-8")


def test_the_example_is_accepted(tmp_path: Path) -> None:
    task, kernel = (textwrap.dedent(block) for block in re.findall(r"\n\n((?:        .*\n)+)", TEXT))
    (tmp_path / "task.py").write_text(
        re.sub(r"import torch, torch.nn as nn", "import torch\nimport torch.nn as nn", task)
    )
    with VerifierPool(1, backend="interpret", kept=True) as pool:
        verdict = pool.verify(small_shapes(load_suite(str(tmp_path / "task.py"))[0]), Candidate(code=kernel))
    assert verdict.correct, verdict.detail
