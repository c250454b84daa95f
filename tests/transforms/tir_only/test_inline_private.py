from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check, same_function
from tirlower.diagnostics import TransformError
from tirlower.interp.intrinsics_extern import register_extern
from tirlower.ir import Call, Evaluate, GlobalVar, IRModule, pre_order_visit
from tirlower.ir.verify import verify_well_formed
from tirlower.machine.target import Target
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import InlinePrivateFunctions


def callees(mod: IRModule) -> list[str]:
    found: list[str] = []
    for _, func in mod.items():
        pre_order_visit(
            func.body,
            lambda op: found.append(op.op.name) if isinstance(op, Call) and isinstance(op.op, GlobalVar) else None,
        )
    return found


def args(*shapes: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-3, 3, s).astype("float32") if isinstance(s, tuple) else s for s in shapes]


def test_addresses_are_bound_before_their_first_use() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((4, 16), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                before.subroutine(T.address_of(A[i, 0]), T.address_of(B[i]))

        @T.prim_func(private=True)
        def subroutine(A_data: T.handle("float32"), B_data: T.handle("float32")):
            A = T.decl_buffer((4, 4), "float32", data=A_data)
            B = T.decl_buffer((1,), "float32", data=B_data)
            B[0] = T.float32(0)
            for i, j in T.grid(4, 4):
                B[0] = B[0] + A[i, j]

    @I.ir_module
    class expected:
        @T.prim_func
        def main(A: T.Buffer((4, 16), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                A_data: T.handle("float32") = T.address_of(A[i, 0])
                Av = T.decl_buffer((4, 4), "float32", data=A_data)
                B_data: T.handle("float32") = T.address_of(B[i])
                Bv = T.decl_buffer((1,), "float32", data=B_data)
                Bv[0] = T.float32(0)
                for k, j in T.grid(4, 4):
                    Bv[0] = Bv[0] + Av[k, j]

    check(InlinePrivateFunctions(), before, expected)


def test_several_calls_get_binders_of_their_own() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((12,), "float32"), n: T.int32):
            before.fill(A.data, n % 4, T.float32(1))
            for i in range(2):
                before.fill(A.data, i + 4, A[i])
            before.fill(A.data, 11, T.float32(5))

        @T.prim_func(private=True)
        def fill(p: T.handle("float32"), at: T.int32, v: T.float32):
            A = T.decl_buffer((12,), "float32", data=p)
            t = T.alloc_buffer((3,), "float32")
            for i in range(3):
                x: T.float32 = v * T.Cast("float32", i)
                t[i] = x
            for i in range(3):
                A[at] = A[at] + t[i]

    after = check(InlinePrivateFunctions(), before)
    assert list(after) == ["main"]
    assert not callees(after)


def test_a_value_that_reads_memory_is_read_before_the_body_writes_it() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            before.set(A.data, A[0])

        @T.prim_func(private=True)
        def set(p: T.handle("float32"), v: T.float32):
            A = T.decl_buffer((4,), "float32", data=p)
            for i in range(4):
                A[i] = v + T.float32(1)

    after = check(InlinePrivateFunctions(), before)
    assert "v: T.float32 = A[0]" in after["main"].script()


def test_calls_for_a_value_become_expressions() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((16,), "float32"), I: T.Buffer((16,), "int32")):
            for i in range(16):
                A[i] = before.wave(i) + before.wave(I[i] % 3)
                if before.positive(A[i]):
                    I[i] = T.if_then_else(i > 0, before.pick(I.data, i - 1), 0)

        @T.prim_func(private=True)
        def wave(i: T.int32) -> T.float32:
            c: T.float32 = T.cos(T.Cast("float32", i))
            s: T.float32 = T.sin(T.Cast("float32", i))
            T.ret(c * c + s)

        @T.prim_func(private=True)
        def positive(x: T.float32) -> T.bool:
            T.ret(x > T.float32(0))

        @T.prim_func(private=True)
        def pick(p: T.handle("int32"), i: T.int32) -> T.int32:
            P = T.decl_buffer((16,), "int32", data=p)
            T.ret(P[i])

    after = check(InlinePrivateFunctions(), before)
    # A declaration is no binding: the last one stays a call.
    assert callees(after) == ["pick"]
    assert sorted(after) == ["main", "pick"]


def test_functions_for_other_targets_stay() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            T.func_attr({"target": T.target("llvm")})
            before.one(A.data)
            before.two(A.data)

        @T.prim_func(private=True)
        def one(p: T.handle("float32")):
            T.func_attr({"target": T.target("cuda")})
            A = T.decl_buffer((4,), "float32", data=p)
            A[0] = T.float32(1)

        @T.prim_func(private=True)
        def two(p: T.handle("float32")):
            T.func_attr({"target": T.target("llvm")})
            A = T.decl_buffer((4,), "float32", data=p)
            A[1] = T.float32(2)

    after = check(InlinePrivateFunctions(), before)
    assert sorted(after) == ["main", "one"]
    assert after["one"].attrs["target"] == Target("cuda")


def test_recursive_functions_stay() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((6,), "float32")):
            before.down(A.data, 5)
            before.even(A.data, 3)

        @T.prim_func(private=True)
        def down(p: T.handle("float32"), n: T.int32):
            A = T.decl_buffer((6,), "float32", data=p)
            A[n] = T.float32(n)
            if n > 0:
                before.down(p, n - 1)

        @T.prim_func(private=True)
        def even(p: T.handle("float32"), n: T.int32):
            A = T.decl_buffer((6,), "float32", data=p)
            A[n] = A[n] * T.float32(2)
            if n > 0:
                before.odd(p, n - 1)

        @T.prim_func(private=True)
        def odd(p: T.handle("float32"), n: T.int32):
            A = T.decl_buffer((6,), "float32", data=p)
            A[n] = A[n] * T.float32(3)
            if n > 0:
                before.even(p, n - 1)

    check(InlinePrivateFunctions(), before, before)


def test_chains_are_inlined_from_the_leaf_up() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            before.outer(A.data, 2)
            before.inner(A.data, 7, 1)

        @T.prim_func(private=True)
        def outer(p: T.handle("float32"), n: T.int32):
            for i in range(n):
                before.inner(p, i * 2, i)
                before.inner(p, i * 2 + 1, i)

        @T.prim_func(private=True)
        def inner(p: T.handle("float32"), at: T.int32, v: T.int32):
            A = T.decl_buffer((8,), "float32", data=p)
            if at < 8:
                A[at] = T.Cast("float32", v) + A[at]

    after = check(InlinePrivateFunctions(), before)
    assert list(after) == ["main"]


def test_what_cannot_be_inlined_stays() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32"), n: T.int32):
            before.early(A.data, n)
            before.exported(A.data)
            before.blocked(A.data)

        @T.prim_func(private=True)
        def early(p: T.handle("float32"), n: T.int32):
            A = T.decl_buffer((4,), "float32", data=p)
            if n > 2:
                T.ret()
            A[0] = T.float32(1)

        @T.prim_func
        def exported(p: T.handle("float32")):
            A = T.decl_buffer((4,), "float32", data=p)
            A[1] = T.float32(1)

        @T.prim_func(private=True)
        def blocked(p: T.handle("float32")):
            A = T.decl_buffer((4,), "float32", data=p)
            with T.block("one"):
                T.reads()
                T.writes(A[2])
                A[2] = T.float32(1)

    for n in (1, 3):
        check(InlinePrivateFunctions(), before, before, inputs=[[np.zeros(4, "float32"), n]])


def test_a_return_at_the_end_and_effects_of_results_are_kept() -> None:
    calls: list[int] = []
    register_extern("tick", lambda x: calls.append(x) or x)
    try:

        @I.ir_module
        class before:
            @T.prim_func
            def main(A: T.Buffer((2,), "int32")):
                before.count(A.data, T.call_extern("int32", "tick", 1))
                before.plain(A.data)

            @T.prim_func(private=True)
            def count(p: T.handle("int32"), x: T.int32) -> T.int32:
                A = T.decl_buffer((2,), "int32", data=p)
                A[0] = A[0] + x + x
                T.ret(T.call_extern("int32", "tick", 2))

            @T.prim_func(private=True)
            def plain(p: T.handle("int32")) -> T.int32:
                A = T.decl_buffer((2,), "int32", data=p)
                A[1] = 5
                T.ret(A[0])

        after = check(InlinePrivateFunctions(), before, samples=1)
        assert calls == [1, 2, 1, 2]
        assert list(after) == ["main"]
    finally:
        register_extern("tick", None)


def test_while_loops_views_and_symbolic_sizes() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer(("n", 3), "float32")):
            k = T.alloc_buffer((1,), "int32")
            k[0] = 0
            while k[0] < n:
                before.row(T.tvm_access_ptr(T.type_annotation("float32"), A.data, k[0] * 3, 3, 3), n)
                k[0] = k[0] + 1

        @T.prim_func(private=True)
        def row(p: T.handle("float32"), n: T.int32):
            A = T.decl_buffer((3,), "float32", data=p)
            for j in range(1, 3):
                A[j] = A[j] + A[j - 1] * T.Cast("float32", n)

    check(InlinePrivateFunctions(), before)


def test_a_result_that_nobody_takes_is_not_computed() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), k: T.int32):
            before.bump(A.data, k % 4)

        @T.prim_func(private=True)
        def bump(p: T.handle("int32"), i: T.int32) -> T.int32:
            P = T.decl_buffer((4,), "int32", data=p)
            P[i] = P[i] + 1
            T.ret(P[i])

    @I.ir_module
    class expected:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), k: T.int32):
            P = T.decl_buffer((4,), "int32", data=A.data)
            P[k % 4] = P[k % 4] + 1

    check(InlinePrivateFunctions(), before, expected)


def test_an_unused_private_function_is_not_removed() -> None:
    func = parse("@T.prim_func(private=True)\ndef f(n: T.int32):\n    T.evaluate(n)\n")
    check(InlinePrivateFunctions(), func, func)
    mod = IRModule({"f": func})
    assert InlinePrivateFunctions()(mod) is mod


def test_wrong_arguments_are_refused() -> None:
    func = parse("@T.prim_func(private=True)\ndef f(n: T.int32):\n    T.evaluate(n)\n")
    main = parse("@T.prim_func\ndef main(n: T.int64):\n    T.evaluate(n)\n")
    call = Call(GlobalVar("f"), (main.params[0],))
    mod = IRModule({"main": main.with_body(Evaluate(call)), "f": func})
    with pytest.raises(TransformError, match="takes"):
        InlinePrivateFunctions()(mod)


def test_long_chains_of_functions_are_linear() -> None:
    lines = ["@I.ir_module", "class M:"]
    for k in range(60):
        lines += [f"    @T.prim_func(private=True)\n    def f{k}(p: T.handle('int32'), x: T.int32):"]
        lines += ["        A = T.decl_buffer((1,), 'int32', data=p)\n        A[0] = A[0] + x"]
        lines += [f"        M.f{k + 1}(p, x + 1)"] if k < 59 else []
    lines += ["    @T.prim_func\n    def main(A: T.Buffer((1,), 'int32')):\n        M.f0(A.data, 1)"]
    before = parse("\n".join(lines))
    after = InlinePrivateFunctions()(before)
    verify_well_formed(after)
    assert list(after) == ["main"]
    same_function(InlinePrivateFunctions()(after), after)
