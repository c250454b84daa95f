"""Sizes against Python's integers, which have no end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tirlower.diagnostics import DivisionByZeroError
from tirlower.emit.expressions import Run
from tirlower.emit.sizes import size_of
from tirlower.ir import Call, Evaluate, Expr, IRModule, Op, PrimFunc, Var
from tirlower.ir.data import DATA_PARAMS
from tirlower.ir.expr import NE, StringImm, as_expr
from tirlower.llvm.codegen.machine import compile_options
from tirlower.llvm.codegen.module import generate
from tirlower.llvm.codegen.platform import HostPlatform
from tirlower.llvm.codegen.rules import HOST_CONTROLS
from tirlower.llvm.codegen.symbols import resolve_imports
from tirlower.llvm.entry import add_entry, entry_imports, make_entry
from tirlower.llvm.jit import engine
from tirlower.machine.target import Target
from tirlower.script import tir as T

pytestmark = pytest.mark.by_day

EXTERN = Op.get("tir.call_extern")
n, m = Var("n", "int32"), Var("m", "int32")
k, j = Var("k", "int64"), Var("j", "int64")
c = Var("c", "bool")
VARS = (n, m, k, j, c)


class Sized(HostPlatform):
    """The host, where a call of "size" is the size of its argument."""

    def __init__(self) -> None:
        def size(run: Run, op: Any) -> None:
            run.set(op, size_of(run.em, op.args[1]))

        self.controls = {**HOST_CONTROLS, EXTERN: size}


def compiled(expr: Expr) -> Callable[..., Any]:
    """A function of VARS that gives a size; none of them is data."""
    value = Call(EXTERN, (StringImm("size"), expr), "int64")
    body = Evaluate(Call(Op.get("tir.ret"), (value,), "int64"))
    func = PrimFunc(VARS, {}, "int64", {"global_symbol": "f", DATA_PARAMS: ()}, body)
    target = Target("llvm -opt-level=1")
    made = generate(IRModule({"f": func}), target, platform=Sized())
    info = made.kernels["f"]
    exports = add_entry(made.module, info.signature, info.ref, name=info.symbol)
    code = engine().compile_object(made.module.text(), compile_options(target))
    linked = engine().link(code.object, exports, {**entry_imports(), **resolve_imports(made.imports)})
    return make_entry(info.signature, linked, info.errors, name=info.symbol)


def fit(bits: int, text: str, value: int) -> int:
    """A number that an integer of so many bits holds."""
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        number = f" = {value}" if bits < 64 and text else ""
        raise OverflowError(f"{text}{number} does not fit int{bits}")
    return value


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


Judge = Callable[[int, int, int, int, bool], int]
SIZES: list[tuple[Expr, Judge]] = [
    (n * m, lambda n, m, k, j, c: fit(32, "n * m", n * m)),
    ((n * m + 255) // 256, lambda n, m, k, j, c: fit(32, "n * m + 255", n * m + 255) // 256),
    (n + m - n, lambda n, m, k, j, c: fit(32, "n + m - n", n + m - n)),
    (n * m * n * m, lambda n, m, k, j, c: product(n, m)),
    (T.shift_right(n + 31, 5), lambda n, m, k, j, c: fit(32, "n + 31", n + 31) >> 5),
    (T.bitwise_and(n - m, 1023), lambda n, m, k, j, c: fit(32, "n - m", n - m) & 1023),
    (T.truncdiv(n * 3, 7), lambda n, m, k, j, c: truncated(fit(32, "n * 3", n * 3), 7)),
    ((n - m) % 5, lambda n, m, k, j, c: fit(32, "n - m", n - m) % 5),
    (n // m, lambda n, m, k, j, c: divided(n, m)),
    (T.max(n * 2, m * 2), lambda n, m, k, j, c: max(fit(32, "n * 2", n * 2), fit(32, "m * 2", m * 2))),
    (T.min(n - 1, m), lambda n, m, k, j, c: min(fit(32, "n - 1", n - 1), m)),
    (T.Cast("int64", n) * T.Cast("int64", m), lambda n, m, k, j, c: n * m),
    (T.Cast("int64", n * m), lambda n, m, k, j, c: fit(32, "n * m", n * m)),
    (k * j, lambda n, m, k, j, c: fit(64, "k * j", k * j)),
    (k + j, lambda n, m, k, j, c: fit(64, "k + j", k + j)),
    ((k - j) // T.int64(3), lambda n, m, k, j, c: fit(64, "k - j", k - j) // 3),
    (T.Cast("int32", k), lambda n, m, k, j, c: (k + (1 << 31)) % (1 << 32) - (1 << 31)),
    (T.if_then_else(c, n * m, m), lambda n, m, k, j, c: fit(32, "n * m", n * m) if c else m),
    (T.if_then_else(NE(m, as_expr(0)), n // m, 0), lambda n, m, k, j, c: n // m if m else 0),
    (T.Select(c, n + m, n - m), lambda n, m, k, j, c: fit(32, "n + m", n + m) if c else fit(32, "n - m", n - m)),
    (T.if_then_else(n < m, T.if_then_else(c, n * 4, m), 1) + 1, lambda n, m, k, j, c: nested(n, m, c)),
    (T.int32(7) + 5, lambda n, m, k, j, c: 12),
]  # fmt: skip
NEVER_FAIL = (2, 11, 16, 18, 21)


def product(n: int, m: int) -> int:
    """Where what is on the way leaves 64 bits, the number is not told."""
    for value in (n * m, n * m * n, n * m * n * m):
        fit(64, "", value)
    return fit(32, "n * m * n * m", n * m * n * m)


def divided(n: int, m: int) -> int:
    if m == 0:
        raise DivisionByZeroError(f"division by zero: {n} divided by 0")
    return n // m


def nested(n: int, m: int, c: bool) -> int:
    inner = (fit(32, "n * 4", n * 4) if c else m) if n < m else 1
    return fit(32, "", inner + 1)


EDGES = [0, 1, -1, 5, 255, 46341, 65536, 2**31 - 1, -(2**31), 123456789]
WIDE = [0, 1, -3, 2**31, 2**40 + 5, 2**62, -(2**63), 2**63 - 1, 3037000500]


@pytest.mark.parametrize("position", range(len(SIZES)))
def test_sizes_are_exact_or_an_error(position: int) -> None:
    expr, judge = SIZES[position]
    run = compiled(expr)
    rng = np.random.default_rng(position)
    failed = passed = False
    for _ in range(300):
        values = (*(int(rng.choice(EDGES)) for _ in range(2)), *(int(rng.choice(WIDE)) for _ in range(2)))
        chosen = bool(rng.integers(2))
        try:
            wanted = judge(*values, chosen)
        except (OverflowError, DivisionByZeroError) as error:
            with pytest.raises(type(error)) as raised:
                run(*values, chosen)
            assert getattr(error, "message", str(error)) in str(raised.value)
            failed = True
        else:
            assert run(*values, chosen) == wanted, (values, chosen, str(expr))
            passed = True
    assert passed and failed == (position not in NEVER_FAIL)
