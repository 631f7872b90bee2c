"""Six hundred small modules as people write them, to harvest graphs of many different operator sequences from.

    kernelwright data harvest recipes/everyday_modules.py:models -o graphs.jsonl

Published models repeat a few sequences many times; these repeat none on purpose. They are in the folder `everyday`, a file for each
field. Functions take their weights as arguments, so that their dtype holds; classes have parameters, in float32. Each is spelt
differently from its neighbours, not in the shortest or the stablest way: they are training material, not a library.
"""

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from everyday.register import MODELS  # it is found by the line above

for field in ("attention", "elementwise", "layers", "objectives", "sciences", "sequences"):
    importlib.import_module(f"everyday.{field}")


def models():
    """Yields (name, build) of each module, where build() is (module, args, kwargs)."""
    yield from MODELS.items()
