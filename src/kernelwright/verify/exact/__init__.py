"""Exact arithmetic: graph and kernel run over finite fields, where equal means equal for every input.

`field.py` has the numbers, `numbers.py` and `arithmetic.py` arrays of them, `constants.py` what a literal stands for;
`reference.py` runs a module's operators on them, `programs.py` Triton's interpreter, `session.py` a tape; `proof.py`
compares. Over the reals: rounding, overflow and NaN are for the rest of the judge.
"""
