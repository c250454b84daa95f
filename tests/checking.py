"""The shared check of a transformation: its result, its form, and that the program still computes the same.

``check(pass_, before, expected)`` asserts that

- the input is well-formed and is not changed,
- the result is ``expected`` (when given), up to the names of variables and the function's own name,
- the result is well-formed, and its script parses back to it,
- the pass returns its own result as the same object (``idempotent``),
- the interpreter computes the same from random inputs, before and after.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tirlower.interp import interpret
from tirlower.ir import (
    Buffer,
    Call,
    DataType,
    Evaluate,
    Expr,
    IntImm,
    IRModule,
    Op,
    PrimFunc,
    Var,
    post_order_visit,
)
from tirlower.ir.structural import assert_structural_equal, structural_hash
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse

__all__ = ["check", "executes_alike", "random_arguments", "roundtrips", "same_function"]

Program = PrimFunc | IRModule
SIZES = (1, 2, 3, 5, 8, 13)
"""What symbolic dimensions are drawn from."""


def check(
    pass_: Callable[[Any], Any],
    before: Program,
    expected: Program | None = None,
    *,
    idempotent: bool = True,
    inputs: Iterable[Sequence[Any]] | None = None,
    samples: int = 3,
    execute: bool = True,
    well_formed: bool = True,
    sizes: Sequence[int] = SIZES,
    seed: int = 0,
    tolerance: float = 0.0,
) -> Any:
    """Run a pass and check everything that holds for every pass; returns the result.

    ``inputs`` are lists of arguments to run with; without them ``samples`` random ones are drawn, symbolic dimensions
    from ``sizes``. ``tolerance`` is for passes that reassociate floats: 0 demands equal bits.
    """
    if well_formed:
        verify_well_formed(before)
    digest = structural_hash(before)
    after = pass_(before)
    assert structural_hash(before) == digest, "the pass changed its input"
    assert type(after) is type(before)
    if expected is not None:
        same_function(after, expected)
        if expected is before:
            assert after is before, "nothing changed, but the result is another object"
    if well_formed:
        verify_well_formed(after)
    if idempotent:
        again = pass_(after)
        if again is not after:
            same_function(again, after)
            raise AssertionError("the second run rebuilt an equal function: unchanged input must come back as it is")
    roundtrips(after)
    if execute and after is not before:
        executes_alike(before, after, inputs=inputs, samples=samples, sizes=sizes, seed=seed, tolerance=tolerance)
    return after


def same_function(a: Program, b: Program) -> None:
    """Assert structural equality, the exported name of a single function left out."""
    if isinstance(a, PrimFunc) and isinstance(b, PrimFunc):
        a, b = _nameless(a), _nameless(b)
    assert_structural_equal(a, b)


def _nameless(func: PrimFunc) -> PrimFunc:
    return func.without_attr("global_symbol")


@functools.lru_cache(64)
def roundtrips(program: Program) -> None:
    """Assert that the script of a program parses back to it."""
    text = program.script()
    try:
        again = parse(text)
    except SyntaxError as error:
        raise AssertionError(f"the script does not parse back: {error}\n{text}") from error
    assert_structural_equal(again, program)


def executes_alike(
    before: Program,
    after: Program,
    *,
    inputs: Iterable[Sequence[Any]] | None = None,
    samples: int = 3,
    sizes: Sequence[int] = SIZES,
    seed: int = 0,
    tolerance: float = 0.0,
) -> None:
    """Assert that two programs leave the same in every argument, and return the same."""
    names: list[str | None] = [None]
    if isinstance(before, IRModule) and len(before) > 1 and "main" not in before:
        names = [name for name, func in before.items() if "global_symbol" in func.attrs]
    for name in names:
        func = (
            before
            if isinstance(before, PrimFunc)
            else before[name or ("main" if "main" in before else next(iter(before)))]
        )
        if inputs is None:
            rng = np.random.default_rng(seed)
            drawn: Iterable[Sequence[Any]] = [random_arguments(func, rng, sizes) for _ in range(samples)]
        else:
            drawn = inputs
        for args in drawn:
            first, second = [_copy(a) for a in args], [_copy(a) for a in args]
            left = interpret(before, *first, name=name)
            right = interpret(after, *second, name=name)
            _same(left, right, "the returned value", args, tolerance)
            for position, (x, y) in enumerate(zip(first, second, strict=True)):
                _same(x, y, f"argument {position}", args, tolerance)


def _copy(value: Any) -> Any:
    """A copy of an array with the same strides (also those of a reversed or spaced view)."""
    if not isinstance(value, np.ndarray) or value.flags.c_contiguous:
        return value.copy() if isinstance(value, np.ndarray) else value
    reach = sum(abs(s) * (n - 1) for s, n in zip(value.strides, value.shape, strict=True)) // value.itemsize + 1
    start = -sum(s * (n - 1) for s, n in zip(value.strides, value.shape, strict=True) if s < 0)
    base = np.zeros(max(reach, 1), value.dtype)
    made = np.ndarray(value.shape, value.dtype, base, start, value.strides)
    made[...] = value
    return made


def _same(x: Any, y: Any, what: str, args: Sequence[Any], tolerance: float) -> None:
    if isinstance(x, np.ndarray):
        if tolerance and x.dtype.kind == "f":
            np.testing.assert_allclose(y, x, rtol=tolerance, atol=tolerance, err_msg=what)
        else:
            # Bits: -0.0 is not 0.0, NaNs are equal.
            same = x.dtype == y.dtype and _bits(x).tobytes() == _bits(y).tobytes()
            assert same, f"{what} differs: before\n{x}\nafter\n{y}\nfrom {args}"
    else:
        assert x == y or (x != x and y != y), f"{what} differs: before {x}, after {y}, from {args}"


def _bits(array: np.ndarray) -> np.ndarray:
    flat = np.array(array, order="C", copy=True)
    if array.dtype.kind in "fV" or "float" in array.dtype.name:
        with np.errstate(all="ignore"):
            flat[np.isnan(flat)] = np.nan
    return flat


def random_arguments(func: PrimFunc, rng: np.random.Generator, sizes: Sequence[int] = SIZES) -> list[Any]:
    """Random arguments of a function: small integers of both signs, floats, bools; symbolic strides are spaced or
    reversed at random."""
    values: dict[Var, int] = {}
    args: dict[Var, Any] = {}
    for param in func.params:
        if param in func.buffer_map:
            continue
        kind = param.dtype
        if kind.is_float:
            args[param] = float(np.float32(rng.uniform(-4, 4)))
        elif kind.is_bool:
            args[param] = bool(rng.integers(2))
        else:
            args[param] = values[param] = int(rng.choice(sizes))
    for buffer in func.buffers:
        for extent in buffer.shape:
            if isinstance(extent, Var):
                values.setdefault(extent, int(rng.choice(sizes)))
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            args[param] = _array(buffer, values, rng)
    return [args[param] for param in func.params]


def _array(buffer: Buffer, values: dict[Var, int], rng: np.random.Generator) -> np.ndarray:
    shape = tuple(_value(extent, values) for extent in buffer.shape)
    kind = buffer.dtype
    if kind.lanes > 1:
        shape = (*shape, kind.lanes)
    content = _random(shape, kind, rng)
    if not buffer.strides:
        return content
    if all(isinstance(s, Var) and s not in values for s in buffer.strides):
        steps = [int(rng.choice((1, 2, -1))) for _ in shape]
        base = np.zeros(tuple(max(n, 1) * abs(s) for n, s in zip(shape, steps, strict=True)), content.dtype)
        made = base[tuple(slice(None, None, s) for s in steps)][tuple(slice(0, n) for n in shape)]
    else:
        strides = [_value(s, values) for s in buffer.strides] + ([1] if kind.lanes > 1 else [])
        unit = [s * content.itemsize * (1 if i == len(strides) - 1 else kind.lanes) for i, s in enumerate(strides)]
        if kind.lanes == 1:
            unit = [s * content.itemsize for s in strides]
        reach = 1 + sum(abs(s) // content.itemsize * (n - 1) for s, n in zip(unit, shape, strict=True) if n)
        start = -sum(s * (n - 1) for s, n in zip(unit, shape, strict=True) if s < 0)
        made = np.ndarray(shape, content.dtype, np.zeros(max(reach, 1), content.dtype), start, unit)
    made[...] = content
    return made


def _random(shape: tuple[int, ...], kind: DataType, rng: np.random.Generator) -> np.ndarray:
    if kind.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if kind.is_uint:
        return rng.integers(0, min(int(kind.element.max_value), 100) + 1, shape).astype(kind.element.numpy)
    if kind.is_int:
        low, high = max(int(kind.element.min_value), -50), min(int(kind.element.max_value), 50)
        return rng.integers(low, high + 1, shape).astype(kind.element.numpy)
    return rng.uniform(-4, 4, shape).astype(np.float32).astype(kind.element.numpy)


def _value(expr: Expr, values: dict[Var, int]) -> int:
    """An expression of symbolic dimensions, evaluated by the interpreter."""
    if isinstance(expr, IntImm):
        return expr.value
    free: list[Var] = []
    post_order_visit(expr, lambda op: free.append(op) if isinstance(op, Var) else None)
    for var in free:
        values.setdefault(var, 3)
    body = Evaluate(Call(Op.get("tir.ret"), (expr,), expr.dtype))
    return int(interpret(PrimFunc(tuple(free), {}, expr.dtype, {}, body), *[values[v] for v in free]))
