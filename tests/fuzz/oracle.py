"""Does a program still compute the same: the interpreter on random arguments, and native code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tirlower as tl
from tests.checking import _bits, _copy, random_arguments
from tirlower.diagnostics import LegalityError
from tirlower.driver.pipelines import cpu_pipeline
from tirlower.interp.interpreter import Interpreter
from tirlower.ir import IRModule, PrimFunc
from tirlower.machine.target import Target

__all__ = ["Expected", "Mismatch", "arguments_for", "main_of", "run_native"]

TARGET = Target("llvm", **{"fast-math-contract": False})
"""Multiplications and additions are not fused, so that every float is the interpreter's."""

SIZES = (0, 1, 2, 3, 5, 8)


class Mismatch(Exception):
    """What differs, where."""


def main_of(mod: IRModule) -> PrimFunc:
    """The function that is run."""
    return mod["main"] if "main" in mod else mod[next(iter(mod))]


def arguments_for(mod: IRModule, seed: int, *, empty: bool = True, samples: int = 2) -> list[list[Any]]:
    """Random arguments; ``empty``: symbolic dimensions may be 0."""
    rng = np.random.default_rng(seed)
    return [random_arguments(main_of(mod), rng, SIZES if empty else SIZES[1:]) for _ in range(samples)]


class Expected:
    """What a program leaves in its arguments."""

    def __init__(self, mod: IRModule, arguments: Sequence[Sequence[Any]]) -> None:
        func = main_of(mod)
        self.names = [func.buffer_map[p].name if p in func.buffer_map else p.name for p in func.params]
        self.arguments = [list(args) for args in arguments]
        self.results = [self.run(mod, args) for args in self.arguments]

    @staticmethod
    def run(mod: IRModule, args: Sequence[Any]) -> list[Any]:
        """The arguments after a run of the interpreter."""
        copies = [_copy(a) for a in args]
        Interpreter(mod).call(None, *_stored(main_of(mod), copies))
        return copies

    def check(self, mod: IRModule) -> None:
        """Raises :class:`Mismatch` when a program leaves other bits; whatever the interpreter raises is passed on."""
        interpreter = Interpreter(mod)
        func = main_of(mod)
        for args, wanted in zip(self.arguments, self.results, strict=True):
            copies = [_copy(a) for a in args]
            interpreter.call(None, *_stored(func, copies))
            self.compare(args, wanted, copies, exact=True)

    def compare(
        self, args: Sequence[Any], wanted: Sequence[Any], got: Sequence[Any], *, exact: bool, slack: float = 0.0
    ) -> None:
        """Raises :class:`Mismatch` that shows the first element that differs."""
        for name, x, y in zip(self.names, wanted, got, strict=True):
            if not isinstance(x, np.ndarray):
                continue
            if exact:
                same = _bits(x).view(f"V{x.itemsize}") == _bits(y).view(f"V{x.itemsize}") if x.size else np.array(True)
                if x.size and bytes(_bits(x).tobytes()) == bytes(_bits(y).tobytes()):
                    continue
            elif x.dtype.kind in "biu":
                same = x == y
            else:
                a, b = x.astype(np.float64), y.astype(np.float64)
                with np.errstate(all="ignore"):
                    near = np.abs(a - b) <= slack * np.maximum(np.maximum(np.abs(a), np.abs(b)), 1.0)
                same = near | (a == b) | (np.isnan(a) & np.isnan(b))
            wrong = np.argwhere(~np.atleast_1d(same))
            if len(wrong):
                at = tuple(int(i) for i in wrong[0])
                raise Mismatch(
                    f"{name}{list(at)} is {np.atleast_1d(y)[at]!r}, wanted {np.atleast_1d(x)[at]!r} "
                    f"({len(wrong)} of {x.size} differ)\narguments: {args}"
                )


def _stored(func: PrimFunc, args: Sequence[Any]) -> list[Any]:
    """The same memory for a function whose buffers became integers (bfloat16 and float8) or vectors."""
    made: list[Any] = []
    for param, value in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is not None and isinstance(value, np.ndarray):
            kind = buffer.dtype.element.numpy
            if value.dtype != kind and value.dtype.itemsize == np.dtype(kind).itemsize and np.dtype(kind).kind == "u":
                value = value.view(kind)
            if buffer.dtype.lanes > 1:
                # Only flat memory becomes vectors, so that this is a view.
                lanes = buffer.dtype.lanes
                value = value.reshape((*value.shape[:-1], value.shape[-1] // lanes, lanes))
        made.append(value)
    return made


def run_native(mod: IRModule, expected: Expected, *, legality: bool, lowered: bool, inexact: bool) -> int:
    """Compile and run; raises :class:`Mismatch` where native code and the interpreter differ.

    ``legality``: check that the loops are legal; returns 1 when the checker could not prove it (they are, by
    construction), and raises when it says that they are not. ``lowered``: the module is compiled as it is, no pass
    runs any more.
    """
    func = main_of(mod)
    disabled = cpu_pipeline().names() if lowered else []
    unproved = 0
    config = {} if legality else {"tir.legality": "off"}
    try:
        with tl.PassContext(config=config, disabled_pass=disabled):
            kernel = tl.build(func, TARGET, schedule="none")
    except LegalityError as error:
        if "cannot be proved" not in str(error):
            raise
        unproved = 1
        with tl.PassContext(config={"tir.legality": "off"}, disabled_pass=disabled):
            kernel = tl.build(func, TARGET, schedule="none")
    for args, wanted in zip(expected.arguments, expected.results, strict=True):
        copies = [_copy(a) for a in args]
        kernel(*_stored(func, copies))
        expected.compare(args, wanted, copies, exact=False, slack=1e-4 if inexact else 0.0)
    return unproved
