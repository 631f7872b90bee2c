"""Exact arithmetic: run graph and kernel over finite fields, where equal results mean equality for every input.

`field.py` has the numbers, `values.py` and `arithmetic.py` arrays of them, `constants.py` what a literal stands for;
`reference.py` runs a module's operators on them, `programs.py` Triton's interpreter, `session.py` a tape; `proof.py`
compares. All this is over the reals; rounding, overflow and NaN are checked by the rest of the judge.
"""
