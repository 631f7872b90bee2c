"""Binaries and modelled time: Triton's compiler for a GPU that need not be there, traffic, roofline."""
