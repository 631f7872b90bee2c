"""Families of operators for a corpus of the breadth of KernelBench's levels 1 and 2, and what training needs.

spec.py (what a family draws) -> one module a category -> write.py (texts) -> sampler.py (drafts)
"""
