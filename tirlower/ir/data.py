"""Which integers are data, whose arithmetic wraps, and which are indices, whose arithmetic does not overflow.

Indices are loop variables, axes and the symbols of shapes: their sums and products stay in their type, by the rules of
the language. Data is what a program is given: elements of buffers, results of calls, scalar parameters, and what a
float is converted to. What is computed from data wraps at the width of its type, as NumPy's integers do. A conversion
between integers keeps what it converts an index or data: ``T.int32(i < n)`` is an index.
"""

from __future__ import annotations

from collections.abc import Iterable

from tirlower.ir.annotations import entries_of
from tirlower.ir.buffer import Buffer
from tirlower.ir.build import neg
from tirlower.ir.cancel import linear_difference, terms_of
from tirlower.ir.expr import Add, BufferLoad, Call, Cast, Expr, Mul, Select, Sub, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import nodes
from tirlower.ir.stmt import For
from tirlower.ir.structural import structural_equal

__all__ = [
    "DATA_PARAMS",
    "SAME",
    "SMALL_BITS",
    "chosen_of",
    "data_parameters",
    "follows_bits",
    "gives_data",
    "may_be_data",
    "stop_of",
]

DATA_PARAMS = "tir.data_params"
"""The attribute of a kernel split off a host function: the positions of the parameters that are data there."""

SMALL_BITS = 15
"""The greatest number with which the range of an operation on bits is followed."""

_RING = (Add, Sub, Mul)
_BITS = frozenset(Op.get(f"tir.{name}") for name in ("bitwise_and", "bitwise_or", "bitwise_xor"))
_SHIFTS = frozenset(Op.get(f"tir.{name}") for name in ("shift_left", "shift_right"))


_IF, _VSCALE = Op.get("tir.if_then_else"), Op.get("tir.vscale")
SAME = (Op.get("tir.likely"), Op.get("tir.ignore_loop_partition"), Op.get("tir.tvm_thread_invariant"))
"""Calls whose value is their operand, which they say something of."""


def chosen_of(op: Node) -> tuple[Expr, ...]:
    """What a choice is between, which says whether its value is data or an index, whatever chooses; nothing for others.

    >>> from tirlower.ir import build
    >>> n, i = Var("n", "int32"), Var("i", "int32")
    >>> [str(arm) for arm in chosen_of(build.select(n > 0, i, 7))]
    ['i', '7']
    """
    if op.__class__ is Select:
        return op.true_value, op.false_value
    return op.args[1:] if op.__class__ is Call and op.op is _IF else ()


def follows_bits(op: Call) -> bool:
    """Whether a call is an operation on the bits of integers (and, or, xor, a shift): of indices it gives an index, as
    arithmetic does."""
    return op.op in _BITS or op.op in _SHIFTS


def gives_data(op: Node) -> bool:
    """Whether a node other than a variable gives data whatever it is made of: an element, the result of a call, and an
    integer that was a float. What any other gives is data where one of its operands is (:func:`chosen_of`).

    >>> from tirlower.ir import build
    >>> i = Var("i", "int32")
    >>> gives_data(build.cast("int32", i < 4)), gives_data(build.call("tir.popcount", i, dtype="int32"))
    (False, True)
    """
    if op.__class__ is BufferLoad:
        return True
    if op.__class__ is Call:
        # How many vectors a scalable one holds is a size of the machine's.
        return op.op is not _IF and op.op is not _VSCALE and op.op not in SAME and not follows_bits(op)
    return op.__class__ is Cast and op.dtype.is_integral and not op.value.dtype.is_integral


def data_parameters(func: PrimFunc) -> frozenset[Var]:
    """The scalar parameters of a function that are data: those that no shape of a parameter is made of.

    A shape is compared with an array's at every call, without wrap-around, so that what it is made of by sums and
    products is a size. So is the extent of a buffer that the function lays over a pointer which it is given.

    >>> from tirlower.script import parse
    >>> f = parse('''
    ... @T.prim_func
    ... def f(n: T.int32, first: T.int32, A: T.Buffer((n,), "int32")):
    ...     A[first] = 1
    ... ''')
    >>> [var.name for var in data_parameters(f)]
    ['first']
    """
    if DATA_PARAMS in func.attrs or func.attrs.get("tir.is_global_func"):
        return frozenset(func.params[at] for at in entries_of(func.attrs, DATA_PARAMS) if isinstance(at, int))
    given = [var for var in func.params if not var.dtype.is_handle]
    if not given:
        return frozenset()
    sizes = _sizes((*func.buffers, *_over_pointers(func)))
    return frozenset(var for var in given if var not in sizes)


def _sizes(buffers: Iterable[Buffer]) -> set[Var]:
    """The variables that shapes are made of by sums and products."""
    sizes: set[Var] = set()
    for buffer in buffers:
        stack: list[Expr] = list(buffer.shape)
        while stack:
            op = stack.pop()
            if op.__class__ is Var:
                sizes.add(op)
            elif isinstance(op, _RING):
                stack += (op.a, op.b)
            elif op.__class__ is Cast:
                stack.append(op.value)
    return sizes


def may_be_data(expr: Expr, params: Iterable[Var], buffers: Iterable[Buffer], bound: Iterable[Var] = ()) -> bool:
    """Whether an expression of a function with these parameters and parameter buffers may be data; ``bound`` are
    variables bound to data in it."""
    found = False
    data = ({*params} - _sizes(buffers)) | {*bound}

    def look(op: Node) -> bool:
        nonlocal found
        found = found or gives_data(op) or op in data
        return not found

    pre_order_visit(expr, look)
    return found


def stop_of(loop: For) -> Expr | None:
    """Where a loop's extent is ``stop - start``, as that of ``range(start, stop)`` is, added up or not: the stop.

    Such a loop runs up to the stop, whether the difference wraps or not.
    """
    extent = loop.extent
    if extent.__class__ is Sub and structural_equal(extent.b, loop.min):
        return extent.a
    if extent.__class__ not in (Add, Sub) or is_const_int(loop.min, 0):
        return None
    first: dict[object, tuple[int, Expr]] = {}
    terms: dict[object, tuple[int, Expr]] = {}
    start, rest = terms_of(loop.min, 1, first), terms_of(extent, 1, terms)
    # The script adds up `k - 1 - 2`, and `k - m - 1`: the start is seen in what is left of it.
    missing = any(key not in terms or terms[key][0] * factor >= 0 for key, (factor, _) in first.items())
    if missing or not (first or (start and rest)):
        return None
    return linear_difference(extent, neg(loop.min))


def _over_pointers(func: PrimFunc) -> Iterable[Buffer]:
    """The buffers that are views of a function's pointer parameters."""
    pointers = {var for var in func.params if var.dtype.is_handle and var not in func.buffer_map}
    used = (getattr(op, "buffer", None) for op in nodes(func.body)) if pointers else ()
    return dict.fromkeys(buffer for buffer in used if isinstance(buffer, Buffer) and buffer.data in pointers)
