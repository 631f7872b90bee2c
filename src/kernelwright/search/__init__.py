"""Search: a graph in, the best verified kernel out.

rungs.py     who writes: user, compiler, library; model.py (asks.py), tune.py (knobs.py)
ladder.py    one graph: rung by rung, judged, the best one kept
whole.py     a module: in one piece or in groups (share.py: where its time lies), stitched, judged end to end
cases.py     what is searched for: a module, a function, a task
cache.py     what was found, on disk
"""
