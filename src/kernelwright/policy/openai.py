"""Any OpenAI-compatible chat endpoint as a policy: vLLM, SGLang, llama.cpp, a hosted service.

Only the standard library is used. Busy servers (429, 5xx) and dropped connections are retried with doubling pauses; a refusal
(401, 404, 400) raises a one-line error with the fix. The endpoint's seed is passed on, but the server need not
honour it.
"""

from __future__ import annotations

import json
import math
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernelwright.errors import UserError
from kernelwright.policy.policy import OnCompletion
from kernelwright.records import Completion, Prompt

_BUSY = (408, 409, 425, 429, 500, 502, 503, 504)


class OpenAIPolicy:
    """Chat completions of `model` from `base_url`, which ends in `/v1`."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout: float = 600.0,
        retries: int = 5,
        pause: float = 1.0,
        parallel: int = 16,
    ) -> None:
        """`timeout` and `pause` are in seconds; the n-th retry waits `pause * 2**n`."""
        self.base_url, self.model = base_url.rstrip("/"), model
        self.name = f"openai:{self.base_url}#{model}"
        self._key = os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key
        self._timeout, self._retries, self._pause, self._parallel = timeout, retries, pause, parallel

    @classmethod
    def from_spec(cls, spec: str, **options: Any) -> OpenAIPolicy:
        """From `openai:BASE_URL#MODEL`."""
        base_url, sharp, model = spec.removeprefix("openai:").rpartition("#")
        if not sharp or not model or not base_url.startswith(("http://", "https://")):
            raise UserError(
                f"{spec!r} is not openai:BASE_URL#MODEL, such as openai:http://localhost:8000/v1#qwen3"
            )
        return cls(base_url, model, **options)

    def generate(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
        on_completion: OnCompletion | None = None,
        until: float = math.inf,
    ) -> list[list[Completion]]:
        def one(job: tuple[int, int]) -> Completion:
            if time.monotonic() >= until:
                raise TimeoutError("the samples did not end in time")
            row, sample = job
            prompt = prompts[row]
            body = {
                "model": self.model,
                "messages": [{"role": m.role, "content": m.content} for m in prompt.messages],
                "max_tokens": prompt.max_tokens,
                "temperature": temperature,
                "top_p": top_p,
                "seed": (seed * 1_000_003 + row * 1_009 + sample) % (1 << 31),
            }
            completion = self._ask(body)
            if on_completion is not None:
                on_completion(row, sample, completion)
            return completion

        jobs = [(row, sample) for row in range(len(prompts)) for sample in range(n)]
        with ThreadPoolExecutor(max_workers=self._parallel) as threads:
            try:
                answers = list(threads.map(one, jobs))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return [answers[row * n : (row + 1) * n] for row in range(len(prompts))]

    def pieces(self, completion: Completion) -> tuple[str, ...] | None:
        return None

    def _ask(self, body: dict[str, Any]) -> Completion:
        """One request, with retries. Raises UserError if the endpoint refuses or does not answer."""
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(
            f"{self.base_url}/chat/completions", data=json.dumps(body).encode(), headers=headers
        )
        trouble = ""
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(self._pause * 2 ** (attempt - 1))
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                    return self._read(json.loads(answer.read()))
            except urllib.error.HTTPError as error:
                trouble = f"HTTP {error.code}"
                if error.code not in _BUSY:
                    raise UserError(f"{self.name}: {trouble}, {_fix(error)}") from None
            except (OSError, json.JSONDecodeError) as error:
                trouble = str(getattr(error, "reason", error)) or type(error).__name__
        raise UserError(
            f"{self.name}: no answer after {self._retries + 1} tries ({trouble}); is the server up at that address?"
        )

    def _read(self, answer: Any) -> Completion:
        try:
            choice = answer["choices"][0]
            text = choice["message"].get("content") or ""
            thought = choice["message"].get("reasoning_content") or ""
            reason = choice.get("finish_reason")
        except (KeyError, IndexError, TypeError, AttributeError):
            raise UserError(
                f"{self.name}: the answer is not a chat completion; is the address its /v1?"
            ) from None
        if thought and "<think>" not in text:
            text = f"<think>{thought}</think>{text}"
        return Completion(
            text=text, finish_reason="length" if reason == "length" else "stop", policy=self.name
        )


def _fix(error: urllib.error.HTTPError) -> str:
    hints = {
        401: "set OPENAI_API_KEY",
        403: "set OPENAI_API_KEY",
        404: "check the address and the model's name",
    }
    if error.code in hints:
        return hints[error.code]
    try:
        reason = " ".join(error.read(300).decode("utf-8", "replace").split())
    except OSError:
        reason = ""
    return f"the server refused the request: {reason}" if reason else "the server refused the request"
