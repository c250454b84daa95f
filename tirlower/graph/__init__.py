"""Operator graphs: traced from NumPy functions or read from ONNX, compiled to prim funcs that a driver calls."""
