"""Models to harvest graphs from: those of the field suite's packages that may be read, and recipes/everyday_modules.py.

    PYTHONPATH=FOLDER kernelwright data harvest benchmarks/open_models.py:models -o graphs.jsonl --jobs 16

FOLDER is where the packages are installed (the command is in benchmarks/field/__init__.py); one that is missing is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "recipes")]

import everyday_modules  # noqa: E402  # it is found by the line above
from field.sources import MEASUREMENT_ONLY, PACKAGES, Build, sources  # noqa: E402

from kernelwright.errors import UserError  # noqa: E402


def models() -> Iterator[tuple[str, Build]]:
    """(package/name, build) of each model."""
    for package in sorted(set(PACKAGES) - set(MEASUREMENT_ONLY)):
        try:
            found = sources(package)
        except UserError as error:
            print(error, file=sys.stderr)
            continue
        for name, source in found.items():
            yield f"{package}/{name}", source.build
    for name, build in everyday_modules.models():
        yield f"everyday/{name}", build
