"""The judge without a GPU: Triton's interpreter with every access checked, and what it tells about the full size."""
