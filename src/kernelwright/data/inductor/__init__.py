"""The Inductor teacher: what torch's compiler emits for a GPU, rewritten into stand-alone modules; no GPU needed.

    Task -> sizes.py (builds, formulas) -> trace.py (symbolic aten graph, Inductor's text; offline.py is its GPU)
         -> wrapper.py (buffers, launches) + kernels.py, simplify.py, helpers.py, naming.py (plain kernels)
         -> constructor.py, module.py (the module) -> worker.py (one limited process a task) -> teach.py (drafts)

What it cannot rewrite it leaves, with a counted reason (`reasons.py`). It does not guarantee that a module is right:
the judge says that.
"""

from kernelwright.data.inductor.teach import Skipped, draft, teach
from kernelwright.data.inductor.worker import Lesson, Workers

__all__ = ["Lesson", "Skipped", "Workers", "draft", "teach"]
