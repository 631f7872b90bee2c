"""The judge with a GPU: kernels played on real memory, and the clock."""
