"""Shared by all worker processes: the loop that answers the judge's commands, and failures with an outcome."""

from __future__ import annotations

import socket
from typing import Any

import torch

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Outcome
from kernelwright.verify.sandbox import channel


class Failure(Exception):
    """A step ended the candidate's verification."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(detail)
        self.outcome, self.detail = outcome, detail[:600]


class Service:
    """Answers commands; the judge checks the answers."""

    def answer(
        self, body: dict[str, Any], tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        """Carry out one command; tensors to send back are appended to `outputs`. Raises Failure."""
        raise NotImplementedError


def serve(sock: socket.socket, service: Service) -> None:
    """Answer commands until the judge closes the connection."""
    while True:
        try:
            body, tensors = channel.receive(sock)
        except channel.ChannelClosed:
            return
        outputs: list[torch.Tensor] = []
        try:
            answer = service.answer(body, tensors, outputs)
        except Failure as failure:
            answer, outputs = {"outcome": str(failure.outcome), "detail": failure.detail}, []
        except InfrastructureError as error:
            answer, outputs = {"outcome": str(Outcome.INFRASTRUCTURE_ERROR), "detail": str(error)[:600]}, []
        except MemoryError:
            answer, outputs = {"outcome": str(Outcome.OUT_OF_MEMORY), "detail": "out of host memory"}, []
        channel.send(sock, answer, outputs)
