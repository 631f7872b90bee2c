"""A lock for things that two threads must not do at once: draw random numbers, capture a CUDA graph, or set torch's switches
for a block.

A capture reserves the device's random generator, and drawing from it meanwhile raises an error. If two blocks with different
switches overlap, the one that ends last restores what the first had set. There is one lock for all three since such blocks
nest: with two locks, taken in different orders, both threads could deadlock.
"""

import threading

DRAWING = threading.RLock()
