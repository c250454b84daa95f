"""Which allocations share memory: live ranges, the plan, and the check of it."""
