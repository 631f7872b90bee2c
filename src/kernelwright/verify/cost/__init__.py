"""Binaries and modelled time: compiling for a GPU that need not be present, traffic, roofline."""
