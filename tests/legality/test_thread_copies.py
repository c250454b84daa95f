"""Builds refuse threads that read what others wrote into memory of their own; schedules may be so in between."""

from __future__ import annotations

import pytest

import tirlower as tl
from tirlower.diagnostics import LegalityError, TirError
from tirlower.ir import IRModule
from tirlower.legality.check import check_legality
from tirlower.script import parse

SAME, TURNED, SERIAL = "D[j]", "D[7 - j]", "range(8)"


def _program(scope: str, tag: str, read: str, loop: str = "", annotations: str = "") -> str:
    loop = loop or f'T.thread_binding(8, thread="{tag}")'
    return f"""
@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        D = T.alloc_buffer((8,), "float32", scope="{scope}")
        for i in T.thread_binding(8, thread="{tag}"{annotations}):
            D[i] = A[b, i] + 1.0
        for j in {loop}:
            B[b, j] = {read}
"""


@pytest.mark.parametrize(
    ("scope", "tag", "read", "loop", "legal"),
    [
        ("local", "threadIdx.x", SAME, "", True),
        ("local", "threadIdx.x", TURNED, "", False),
        ("local", "threadIdx.x", SAME, SERIAL, False),
        ("local", "threadIdx.x", SAME, 'T.thread_binding(8, thread="threadIdx.y")', False),
        ("local", "threadIdx.y", TURNED, "", False),
        ("shared", "threadIdx.x", TURNED, "", True),  # a barrier stands between
        ("shared.dyn", "threadIdx.x", SAME, SERIAL, True),
        ("local", "vthread", TURNED, "", True),  # one thread runs them all
        ("shared", "vthread", TURNED, "", True),
        ("shared", "blockIdx.y", SAME, "", True),
        ("shared", "blockIdx.y", TURNED, "", False),
        ("shared.dyn", "blockIdx.y", SAME, SERIAL, False),
        ("local", "blockIdx.y", TURNED, "", False),
    ],
)
def test_each_scope_has_its_axes(scope: str, tag: str, read: str, loop: str, legal: bool) -> None:
    func = parse(_program(scope, tag, read, loop))
    if legal:
        tl.lower(func, target="cuda")
        return
    with pytest.raises(LegalityError) as info:
        tl.lower(func, target="cuda")
    assert (
        f"the thread-bound loop `i` of 'f' is not legal: each {'thread' if 'thread' in tag else 'block of threads'} of {tag} has its own 'D'"
        in str(info.value)
    )
    assert ("'shared'" if "thread" in tag else "'global'") in (info.value.help or "")
    assert "set_scope" in (info.value.help or "")
    for target in ("cuda", "llvm"):
        with pytest.raises(TirError):
            tl.build(func, target=target)


def test_an_unknown_one_is_refused_and_an_unchecked_one_taken() -> None:
    text = _program("local", "threadIdx.x", "D[T.Cast('int32', A[b, j])]")
    with pytest.raises(LegalityError, match="cannot be proved legal"):
        tl.lower(parse(text), target="cuda")
    unchecked = ', annotations={"tir.unchecked": "A holds its indices"}'
    text = _program("local", "threadIdx.x", TURNED, annotations=unchecked)
    check_legality(IRModule({"f": parse(text)}), tl.PassContext())


def test_a_schedule_may_bind_first_and_move_the_readers_then() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] + 1.0
""")
    sch = tl.Schedule(func)
    copy = sch.cache_write("B", 0, "local")
    outer, inner = sch.split(sch.get_loops("B")[0], [None, 8])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    with pytest.raises(LegalityError, match="has its own 'B_local'"):
        tl.build(sch, target="cuda")
    sch.reverse_compute_at(copy, inner)
    tl.build(sch, target="cuda")
