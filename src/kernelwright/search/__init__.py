"""Search: a graph in, the best verified kernel out.

rungs.py     sources of kernels: user, compiler, library; model.py (asks.py), tune.py (knobs.py)
ladder.py    one graph: ask rung by rung, judge, keep the best
whole.py     a module: in one piece or in groups, stitched, judged end to end
cases.py     what is searched for: a module, a function, a task
cache.py     results, on disk
"""
