"""The compiler as a policy: it reads the prompt's task, not its text, and answers the same for every sample and seed."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.policy import OnCompletion
from kernelwright.policy.compiler.worker import SECONDS, Compiler, Contractions
from kernelwright.records import Completion, Prompt


class CompilerPolicy:
    """Inductor's kernels for tasks in the KernelBench form. `seconds` is the limit for one task."""

    name = "compiler"

    def __init__(
        self, target: str = "h200", contractions: Contractions = "own", seconds: float = SECONDS
    ) -> None:
        self.target, self.contractions, self.seconds = target, contractions, seconds

    def generate(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
        on_completion: OnCompletion | None = None,
    ) -> list[list[Completion]]:
        """What cannot be compiled gets a completion without code that says why."""
        answers = []
        with Compiler(self.target, self.seconds) as compiler:
            for row, prompt in enumerate(prompts):
                group = [self._answer(compiler, prompt)] * n
                answers.append(group)
                for sample, completion in enumerate(group):
                    if on_completion is not None:
                        on_completion(row, sample, completion)
        return answers

    def pieces(self, completion: Completion) -> tuple[str, ...] | None:
        return None

    def _answer(self, compiler: Compiler, prompt: Prompt) -> Completion:
        from kernelwright import prompts

        if prompt.task is None:
            return Completion(text="No kernel: the prompt came without its task.", policy=self.name)
        found = compiler.module(prompt.task, self.contractions)
        text = prompts.completion_text("", found.code) if found.code else f"No kernel: {found.reason}"
        return Completion(text=text, policy=self.name)
