"""A lock for what two threads of a process must not do at a time: draw random numbers, capture a CUDA graph, or set torch's
switches for a block.

A capture takes the device's random generator for itself, and whoever draws from it meanwhile gets an error. Of two blocks
under other switches that overlap, the one that ends last restores what the first had set. It is one lock for all three,
since a block of either kind may begin within another: two locks would be taken in either order, and both threads wait.
"""

import threading

DRAWING = threading.RLock()
