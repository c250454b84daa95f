"""What a process has once and all its threads share: Python's recursion limit, the garbage collector."""

from tirlower.support.collector import import_for_good, keep_for_good, paused_collection
from tirlower.support.recursion import deep_recursion

__all__ = ["deep_recursion", "import_for_good", "keep_for_good", "paused_collection"]
