"""A lock for what two threads must not do on one GPU at a time: draw random numbers, and capture a CUDA graph.

A capture takes the device's random generator for itself, and whoever draws from it meanwhile gets an error. A trainer
generates (with graphs) while a verifier of the same process makes inputs.
"""

import threading

DRAWING = threading.RLock()
