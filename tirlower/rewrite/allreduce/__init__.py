"""Reductions over the threads of a block: the plan, its steps, and where results stand."""
