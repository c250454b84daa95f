"""``simulate``: run host code and GPU kernels with real threads on NumPy arrays, and find what a device would hide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tirlower.diagnostics import ArgumentValueError, InterpreterError
from tirlower.interp.arguments import as_array
from tirlower.interp.interpreter import Interpreter
from tirlower.interp.launching import Limits
from tirlower.interp.values import Datum
from tirlower.ir.func import IRModule, PrimFunc, Scheduled
from tirlower.machine.target import Target

__all__ = ["device_limits", "simulate"]

_THREADS = 1024
"""The threads of a block on every NVIDIA device."""
_STATIC = 48 << 10
_LARGEST_BLOCK = {
    70: 96,
    72: 96,
    75: 64,
    80: 163,
    86: 99,
    87: 163,
    88: 99,
    89: 99,
    90: 227,
    100: 227,
    103: 227,
    120: 99,
}
"""KiB of shared memory that a block can ask for, by architecture (CUDA C++ Programming Guide, compute capabilities)."""


def device_limits(target: Target | str | None) -> Limits:
    """What a target's device gives a block; without a target, what every device does.

    >>> device_limits("nvptx -arch=sm_90a")
    Limits(threads=1024, static_bytes=49152, shared_bytes=232448)
    """
    if target is None:
        return Limits(threads=_THREADS)
    found = Target(target)
    threads = int(found.get("max_threads_per_block", _THREADS))
    static = int(found.get("max_shared_memory_per_block", _STATIC))
    digits = "".join(c for c in str(found.get("arch", "")).removeprefix("sm_") if c.isdigit())
    most = _LARGEST_BLOCK.get(int(digits), 0) << 10 if digits else 0
    return Limits(threads, static, max(static, most))


def _target_of(program: PrimFunc | IRModule) -> Target | None:
    functions = [program] if isinstance(program, PrimFunc) else [func for _, func in program.items()]
    for func in functions:
        bound = func.attrs.get("target")
        if bound is not None and Target(bound).is_gpu:
            return Target(bound)
    return None


def simulate(
    program: PrimFunc | IRModule | Scheduled,
    *args: object,
    name: str | None = None,
    outputs: Sequence[str] | None = None,
    seed: int | None = None,
    seeds: Iterable[int] = (),
    races: bool = True,
    target: Target | str | None = None,
    rtol: float = 0.0,
) -> Datum:
    """Run a function with its kernels, at any stage from the script to host code that launches, on NumPy arrays.

    Arguments, outputs and the value are those of :func:`interpret`. Threads are real: blocks have shared memory that
    starts unwritten, threads meet at barriers, warps of 32 shuffle and vote, copies are asynchronous until they are
    waited for. Without a seed the threads of a block run in step (warp by warp where a kernel has barrier objects);
    with one each thread runs alone as far as it can, in an order that the seed draws, and so do the blocks. ``seeds``
    are run after the first run, on copies of the arrays, and have to give the same bits (floats within ``rtol``).

    What is found, each with threads, element and lines:

    - data races (``races``): two threads touch an element, one writes, and no barrier, released and acquired atomic or
      barrier object orders them; likewise an asynchronous copy or product whose end nobody waited for;
    - barriers that not all threads of a block reach, calls of a warp whose lanes are not all there, deadlocks;
    - reads of memory that was never written; accesses out of bounds, of a buffer or of its allocation;
    - more threads or shared memory in a block than the target's device gives it (the function's own target, unless one
      is given; 1024 threads in any case); a launch of other extents than the kernel's.

    Raises :class:`InterpreterError` and its relatives as :func:`interpret` does.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... @T.prim_func
    ... def reverse(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for tx in T.thread_binding(8, thread="threadIdx.x"):
    ...         s = T.alloc_buffer((8,), "int32", scope="shared")
    ...         s[tx] = A[tx]
    ...         B[tx] = s[7 - tx]
    ... ''')
    >>> simulate(func, np.arange(8, dtype="int32"), np.zeros(8, "int32"))
    Traceback (most recent call last):
    tirlower.diagnostics.InterpreterError: error[interpret]: a data race on 's': thread (threadIdx.x = 7) writes ...
    """
    if not isinstance(program, (PrimFunc, IRModule)) and isinstance(program, Scheduled):
        program = program.program
    limits = device_limits(target if target is not None else _target_of(program))
    orders = list(seeds)
    if not orders:
        return Interpreter(program, seed=seed, races=races, limits=limits).call(name, *args, outputs=outputs)
    arguments: list[object] = [arg if isinstance(arg, (int, float, complex, np.generic)) or arg is None else as_array(arg, f"#{at}")
                 for at, arg in enumerate(args)]  # fmt: skip
    before = [_copy(arg) for arg in arguments]
    result = Interpreter(program, seed=seed, races=races, limits=limits).call(name, *arguments, outputs=outputs)
    for other in orders:
        if isinstance(other, bool) or not isinstance(other, int):
            raise ArgumentValueError(f"a seed is an int, got {other!r}", origin="simulate")
        again = [_copy(arg) for arg in before]
        made = Interpreter(program, seed=other, races=races, limits=limits).call(name, *again, outputs=outputs)
        pairs = [(f"argument {at}", x, y) for at, (x, y) in enumerate(zip(arguments, again, strict=True))]
        pairs += [
            (f"result {at}", x, y) for at, (x, y) in enumerate(zip(_several(result), _several(made), strict=True))
        ]
        for what, x, y in pairs:
            _need_same(what, x, y, seed, other, rtol)
    return result


def _copy(value: object) -> object:
    """A copy of an array with the same strides; anything else itself."""
    if not isinstance(value, np.ndarray):
        return value
    return value.copy(order="K") if value.flags.writeable else value


def _several(result: object) -> tuple[object, ...]:
    return result if isinstance(result, tuple) else (result,)


def _need_same(what: str, x: Datum, y: Datum, first: int | None, second: int, rtol: float) -> None:
    """Refuse a result that depends on the order of the threads."""
    a, b = np.asarray(x), np.asarray(y)
    if a.tobytes() == b.tobytes():
        return
    width = a.dtype.itemsize
    bytes_a, bytes_b = (np.ascontiguousarray(v).view(np.uint8).reshape(-1, width) for v in (a, b))
    differs = (bytes_a != bytes_b).any(axis=1).reshape(a.shape)
    if rtol and a.dtype.kind in "fcV":
        differs &= ~np.isclose(a.astype(np.float64), b.astype(np.float64), rtol=rtol, atol=0.0, equal_nan=True)
    places = np.argwhere(differs)
    if not len(places):
        return
    at = tuple(int(index) for index in places[0])
    order = "in step" if first is None else f"with seed {first}"
    raise InterpreterError(
        f"{what} depends on the order of threads: {len(places)} elements differ, the first at {list(at)}: "
        f"{a[at]} {order}, {b[at]} with seed {second}",
        origin="simulate",
        help="order the threads with barriers; give rtol= where only the order of a float sum may differ",
    )
