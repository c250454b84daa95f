"""Kernels for a GPU, written as prim funcs; each file runs by itself."""
