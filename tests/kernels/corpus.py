"""All kernels, by importing the families."""

from __future__ import annotations

import importlib
import pathlib

from tests.kernels.base import CORPUS, Kernel

__all__ = ["CORPUS", "Kernel"]

for _path in sorted(pathlib.Path(__file__).parent.glob("corpus_*.py")):
    importlib.import_module(f"tests.kernels.{_path.stem}")
