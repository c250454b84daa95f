"""Passes over loops and expressions: vectorizing, unrolling, partitioning, hoisting, simplifying."""
