"""The judge without a GPU: Triton's interpreter with every access checked, and what full size can be told from it."""
