"""tirlower: write, transform and compile loop-level tensor programs from Python.

>>> import numpy as np
>>> import tirlower as tl
>>> from tirlower.script import tir as T
>>> @tl.jit
... @T.prim_func
... def double(A: T.Buffer((4,), "float32")):
...     for i in range(4):
...         A[i] = A[i] * T.float32(2)
>>> a = np.arange(4, dtype="float32")
>>> double(a)
>>> a
array([0., 2., 4., 6.], dtype=float32)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tirlower import analysis, arith, gpu, interp, ir, llvm, poly, schedule, script, transforms
    from tirlower.call.bind import aligned_empty
    from tirlower.diagnostics import (
        AllocationError,
        ArgumentError,
        ArgumentTypeError,
        ArgumentValueError,
        BoundsError,
        CodegenError,
        DeviceError,
        DivisionByZeroError,
        InterpreterError,
        LegalityError,
        LoweringError,
        RuntimeAssertError,
        ScheduleError,
        ScriptError,
        TirError,
        TransformError,
        UnboundError,
        WellFormedError,
    )
    from tirlower.driver.api import build, jit, lower
    from tirlower.driver.kernel import Executable, Kernel
    from tirlower.interp import interpret, register_extern, simulate
    from tirlower.ir import IRModule, PrimFunc
    from tirlower.llvm.codegen import register_symbol
    from tirlower.llvm.scratch import free_scratch
    from tirlower.machine.target import Target
    from tirlower.rewrite.context import PassContext
    from tirlower.schedule.compose import schedule_op
    from tirlower.schedule.schedule import Schedule
    from tirlower.tuning.search import tune

# What stands where. Each is imported at its first use: `import tirlower` alone costs next to nothing.
_WHERE = {
    "build": "tirlower.driver.api",
    "lower": "tirlower.driver.api",
    "jit": "tirlower.driver.api",
    "tune": "tirlower.tuning.search",
    "aligned_empty": "tirlower.call.bind",
    "Kernel": "tirlower.driver.kernel",
    "Executable": "tirlower.driver.kernel",
    "interpret": "tirlower.interp",
    "simulate": "tirlower.interp",
    "Target": "tirlower.machine.target",
    "PassContext": "tirlower.transforms",
    "Schedule": "tirlower.schedule.schedule",
    "schedule_op": "tirlower.schedule.compose",
    "register_symbol": "tirlower.llvm.codegen",
    "free_scratch": "tirlower.llvm.scratch",
    "register_extern": "tirlower.interp",
    "IRModule": "tirlower.ir",
    "PrimFunc": "tirlower.ir",
    **dict.fromkeys(
        (
            "AllocationError",
            "ArgumentError",
            "ArgumentTypeError",
            "ArgumentValueError",
            "BoundsError",
            "CodegenError",
            "DeviceError",
            "DivisionByZeroError",
            "InterpreterError",
            "LegalityError",
            "LoweringError",
            "RuntimeAssertError",
            "ScheduleError",
            "ScriptError",
            "TirError",
            "TransformError",
            "UnboundError",
            "WellFormedError",
        ),
        "tirlower.diagnostics",
    ),
}

_ROOMS = ("analysis", "arith", "gpu", "interp", "ir", "llvm", "poly", "schedule", "script", "transforms")

_TVM = {
    "tir": "tirlower.ir (nodes), tirlower.transforms (passes), tirlower.analysis and tirlower.Schedule",
    "transform": "tirlower.transforms",
    "target": "tirlower.Target",
    "nd": "NumPy: arrays are passed to a kernel as they are",
    "compile": "tirlower.build",
}
"""What takes the place of TVM's modules and functions of these names."""

__all__ = [*_WHERE, *_ROOMS, "__version__"]


def __getattr__(name: str) -> object:
    where = _WHERE.get(name)
    if where is not None:
        from tirlower.support import import_for_good

        value = getattr(import_for_good(where), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"tirlower.{name}")
    way = _TVM.get(name)
    raise AttributeError(f"module 'tirlower' has no attribute {name!r}" + (f"; here it is {way}" if way else ""))


def __dir__() -> list[str]:
    return sorted(__all__)
