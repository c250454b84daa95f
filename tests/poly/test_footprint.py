from __future__ import annotations

import pytest

from tests.poly.brute import events
from tests.poly.nests import random_nest
from tirlower.arith import Analyzer
from tirlower.diagnostics import TirError
from tirlower.ir.functor import substitute
from tirlower.poly import extract, footprint
from tirlower.poly.footprint import Footprint
from tirlower.script import parse
from tirlower.script import tir as T


def elements(found) -> set[tuple[int, ...]]:
    import islpy as isl

    points: set[tuple[int, ...]] = set()
    count = found.elements.n_dim()
    found.elements.foreach_point(
        lambda p: points.add(tuple(p.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(count)))
    )
    return points


@pytest.mark.parametrize("seed", range(300, 330))
def test_the_whole_function_equals_brute_force(seed: int):
    func = random_nest(seed)
    run = events(func)
    for name in "AB":
        want = {index for e in run for index in e.indices if e.node.buffer.name == name}
        try:
            found = footprint(func, name)
        except TirError:
            assert not want
            continue
        assert elements(found) == want
        if want:
            widths = [max(axis) - min(axis) + 1 for axis in zip(*want, strict=True)]
            assert list(found.extents) == widths


def test_what_is_told_without_isl_is_what_happens_and_what_isl_tells(monkeypatch: pytest.MonkeyPatch):
    asked, simplified = 0, Analyzer().simplify
    for seed in (*range(60), 2305):
        func = random_nest(seed)
        scop, run = extract(func), events(func)
        for loop in scop.loops:
            for name in {a.buffer.name for a in scop.inside(loop) if a.buffer is not None}:
                found = footprint(scop, name, at=loop)
                if found._rectangle is None:
                    continue
                with monkeypatch.context() as patch:
                    patch.setattr(Footprint, "_rectangle", None)
                    other = Footprint(scop, found.buffer, found.fixed, found.accesses)
                    if other.elements.is_empty():
                        continue
                    assert other.extents == found.extents and other.steady == found.steady, (seed, loop.name, name)
                touched: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
                for event in run:
                    at = tuple(value for _, value, _ in event.loops[: len(loop.nest)])
                    if event.node.buffer.name == name and loop.node in [node for node, _, _ in event.loops]:
                        touched.setdefault(at, set()).update(event.indices)
                for at, indices in touched.items():
                    values = dict(zip((one.var for one in loop.nest), at, strict=True))
                    ends = [[simplified(substitute(e, values)) for e in (part.min, part.extent)] for part in found.box]
                    wanted = [[min(axis), max(axis) - min(axis) + 1] for axis in zip(*indices, strict=True)]
                    assert ends == wanted, (seed, loop.name, name, at)
                    asked += 1
    assert asked > 50


def test_a_tile_with_its_halo():
    @T.prim_func
    def conv(A: T.Buffer((34, 34), "float32"), B: T.Buffer((32, 32), "float32")):
        for io, jo in T.grid(4, 4):
            for ii, ji, r, s in T.grid(8, 8, 3, 3):
                B[io * 8 + ii, jo * 8 + ji] += A[io * 8 + ii + r, jo * 8 + ji + s]

    found = footprint(conv, conv.buffers[0], at="jo")
    assert found.extents == (10, 10) and found.exact
    assert str(found.box) == "(Range(io * 8, io * 8 + 10), Range(jo * 8, jo * 8 + 10))"
    assert footprint(conv, "B", at="io", reads=False).extents == (8, 32)
    assert "(8io), (8jo)" in str(found.lexmin) and "(9 + 8io), (9 + 8jo)" in str(found.lexmax)


def test_symbolic_sizes_clip_the_box():
    @T.prim_func
    def copy(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), n: T.int32):
        for io, ii in T.grid((n + 7) // 8, 8):
            if io * 8 + ii < n:
                B[io * 8 + ii] = A[io * 8 + ii]

    found = footprint(copy, "A", at="io")
    assert found.extents == (8,)
    ((only),) = found.box
    assert "io" in str(only.min) and "n" in str(only.extent)
    assert footprint(copy, "A").extents == (None,)


def test_a_width_is_steady_where_it_is_the_same_in_all_iterations():
    @T.prim_func
    def parts(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), n: T.int32):
        for i, j in T.grid(n % 8, 1):
            B[n // 8 * 8 + i + j] = A[n // 8 * 8 + i]
        for io, ii in T.grid((n + 7) // 8, 8):
            if io * 8 + ii < n:
                B[io * 8 + ii] = A[io * 8 + ii]

    assert footprint(parts, "B", at="i").extents == (1,) and footprint(parts, "B", at="i").steady == (True,)
    assert footprint(parts, "B", at="io").extents == (8,) and footprint(parts, "B", at="io").steady == (False,)
    assert footprint(parts, "B").steady == (False,)


def test_what_exceeds_has_an_element_that_the_other_has_not():
    @T.prim_func
    def parts(A: T.Buffer(("n",), "int32"), X: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(n // 8 * 8):
            A[i] = 1
        for j in range(n % 8):
            A[n // 8 * 8 + j] = 2
        for k in range(n):
            A[k] = 3
        for l in range(4):
            A[X[l]] = 4

    whole, rest, every, some = (footprint(parts, "A", at=name) for name in "ijkl")
    whole, rest, every, some = (Footprint(one.scop, one.buffer, (), one.accesses) for one in (whole, rest, every, some))
    assert whole.exceeds(rest) and rest.exceeds(whole) and every.exceeds(rest)
    assert not whole.exceeds(every) and not rest.exceeds(every) and not whole.exceeds(whole)
    assert not some.exceeds(whole), "which elements it has is not known"


def test_a_gather_covers_what_it_may_touch():
    @T.prim_func
    def gather(A: T.Buffer((64,), "float32"), X: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i * 8 + X[i] % 8]

    found = footprint(gather, "A", at="i")
    assert not found.exact and found.extents == (8,)


def test_a_buffer_that_is_not_accessed_is_an_error():
    @T.prim_func
    def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = 0.0

    with pytest.raises(TirError, match=r"'B'.*loop 'i'"):
        footprint(f, "B", at="i")
    with pytest.raises(TirError, match="'A'"):
        footprint(extract(f), "A", writes=False)


def test_conditions_of_too_many_cases_are_told():
    text = " or ".join(f"(i != {n} and i != {n + 1})" for n in range(0, 60, 2))
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    for i in range(64):
        if {text}:
            if {text.replace("!=", "<").replace("or", "and", 7)}:
                A[i] = 1
""")
    with pytest.raises(TirError, match=r"the conditions around .*A.* have too many cases"):
        footprint(func, "A").extents
