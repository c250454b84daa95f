"""The default sequence of passes of each target, as a value, with the reason for each position.

>>> from tirlower.driver.pipelines import pipeline_for
>>> from tirlower.machine.target import Target
>>> [str(step) for step in pipeline_for(Target("llvm -fast-math-contract=0"))][:2]
['PrivatizeReductions()', 'LowerInitBlock()']
"""

from __future__ import annotations

import importlib

from tirlower.driver.backend import pipeline_for
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
