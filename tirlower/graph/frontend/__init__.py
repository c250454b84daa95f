"""Where graphs come from: functions of NumPy that are traced, and files of ONNX."""
