"""Kernelwright: trains language models to write fast, honest Triton kernels, and proves that they are."""

__version__ = "0.1.0"
