"""ONNX's operators: a file for each family, a row for each operator, from its attributes and operands to operations."""
