"""Reductions with partial results: the updates, their memory, and where it starts."""
