"""What the tests of graphs need beyond the package: without onnx the files that write its models are left out."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("onnx") else ["models.py", "onnx_models", "onnx_cases"]
