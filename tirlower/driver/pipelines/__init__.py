"""The default sequence of passes of each target, as a value, with the reason for each position.

>>> from tirlower.driver.pipelines import pipeline_for
>>> from tirlower.machine.target import Target
>>> [str(step) for step in pipeline_for(Target("llvm"))][:2]
['PrivatizeReductions()', 'LowerInitBlock()']
"""

from __future__ import annotations

import importlib

from tirlower.diagnostics import TransformError
from tirlower.driver.pipelines.base import LOWER_PHASES, Pipeline, Step
from tirlower.driver.pipelines.cpu import cpu_pipeline
from tirlower.machine.target import Target

__all__ = ["LOWER_PHASES", "Pipeline", "Step", "c_pipeline", "cpu_pipeline", "gpu_pipeline", "pipeline_for"]


def gpu_pipeline(target: Target) -> Pipeline:
    """The passes of a GPU target (see :mod:`tirlower.driver.pipelines.gpu`), imported when one is asked for."""
    made: Pipeline = importlib.import_module("tirlower.driver.pipelines.gpu").gpu_pipeline(target)
    return made


def c_pipeline() -> Pipeline:
    """The passes of the target ``c`` (see :mod:`tirlower.driver.pipelines.c`), imported when it is asked for."""
    made: Pipeline = importlib.import_module("tirlower.driver.pipelines.c").c_pipeline()
    return made


def pipeline_for(target: Target, overlap: bool = False) -> Pipeline:
    """The default pipeline of a target, with ``overlap`` that of the version for arrays that may overlap (a CPU's).

    Raises :class:`TransformError` for a target without code generator.
    """
    if target.kind == "llvm":
        return cpu_pipeline(overlap)
    if target.kind == "c":
        return c_pipeline()
    if target.kind in ("nvptx", "cuda"):
        return gpu_pipeline(target)
    raise TransformError(
        f"no pipeline for target {target.kind!r}", origin="lower", help="use the target 'llvm' or 'nvptx -arch=sm_80'"
    )
