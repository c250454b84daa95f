"""Operator graphs: models that are traced from NumPy functions or read from ONNX files."""
