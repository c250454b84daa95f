"""The operations of the IR, a file for each family. Importing the package registers them all."""

from tirlower.ir.intrinsics import (
    arithmetic,
    asynchronous,
    calls,
    collective,
    control,
    hardware,
    matrix,
    memory,
    threads,
)

__all__ = ["arithmetic", "asynchronous", "calls", "collective", "control", "hardware", "matrix", "memory", "threads"]
