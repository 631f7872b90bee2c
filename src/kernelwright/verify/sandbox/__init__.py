"""Confined processes: how they are forked, what they may do, and the channel to them."""
