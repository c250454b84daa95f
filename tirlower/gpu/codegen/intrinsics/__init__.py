"""The operations of GPU threads, a file for each family. Importing the package registers them all."""

from tirlower.gpu.codegen.intrinsics import atomics, barriers, copies, math, matrix, threads, warpgroup

__all__ = ["atomics", "barriers", "copies", "math", "matrix", "threads", "warpgroup"]
