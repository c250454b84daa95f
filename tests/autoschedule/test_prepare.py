"""Products written in other ways than recipes know them, and nests that stay as a person wrote them."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import tirlower as tl
from bench import forms
from tests.autoschedule.scheduled import AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size
from tests.sampling import by_day
from tirlower.autoschedule.prepare import prepared
from tirlower.script import parse

ONE = AVX512.replace("threads=2", "threads=1")

#: bodies of a product of M x K by K x N
FORMS = {
    name: forms.FORMS[f"product, {name}"].body
    for name in (
        "a loop in a block", "an accumulator of all", "row by row", "zeros first", "zeros by a block", "ReLU in its loop"
    )
} | {
    "a block with two loops": """
    for i in range(M):
        with T.block("C"):
            vi = T.axis.spatial(M, i)
            for j in range(N):
                C[vi, j] = T.float32(0)
                for k in range(K):
                    C[vi, j] += A[vi, k] * B[k, j]
""",
    "a scalar between the loops": """
    for i in range(M):
        acc = T.alloc_buffer((1, 1), "float32")
        for j in range(N):
            acc[0, 0] = T.float32(0)
            for k in range(K):
                acc[0, 0] += A[i, k] * B[k, j]
            C[i, j] = acc[0, 0]
""",
}  # fmt: skip


def product(body: str, m: object, n: object, k: object) -> str:
    shapes = [f"({a!r}, {b!r})" for a, b in ((m, k), (k, n), (m, n))]
    arrays = [f"{name}: T.Buffer({shape}, 'float32')" for name, shape in zip("ABC", shapes, strict=True)]
    for name, extent in zip("MNK", (m, n, k), strict=True):
        body = body.replace(f"({name}", f"({extent}").replace(f", {name}", f", {extent}")
    return f"def f({', '.join(arrays)}):{body}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.by_day
def test_products_in_other_forms(form: str) -> None:
    found = planned(product(FORMS[form], 192, 160, 128), ONE)
    assert any(report.recipe.startswith("contraction") for report in found.nests), found.nests
    for sizes in ((13, 33, 7), (1, 16, 3)):
        scheduled(product(FORMS[form], *sizes), ONE)


@pytest.mark.parametrize(
    "form",
    by_day(["an accumulator of all", "a loop in a block", "row by row", "zeros by a block"], each=4),
)
def test_products_of_any_size_in_other_forms(form: str) -> None:
    sizes = [
        dict(zip("MNK", each, strict=True)) for each in ((13, 33, 7), (64, 96, 40), (1, 1, 1), (0, 5, 3), (5, 3, 0))
    ]
    found = of_any_size(product(FORMS[form], "M", "N", "K"), sizes, "llvm -num_threads=1")
    assert any(report.recipe.startswith("contraction") for report in found.nests), found.nests


@pytest.mark.parametrize(
    "body",
    [
        # each iteration begins with what the one before left
        """
    acc = T.alloc_buffer((1,), "float32", scope="local")
    acc[0] = T.float32(0)
    for i, j in T.grid(M, N):
        for k in range(K):
            acc[0] += A[i, k] * B[k, j]
        C[i, j] = acc[0]
""",
        # a later row reads what one before wrote
        """
    for i in range(1, M):
        for j in range(N):
            C[i, j] = C[i - 1, j]
        for k in range(K):
            for j in range(N):
                C[i, j] += A[i, k] * B[k, j]
""",
    ],
)
def test_what_would_compute_something_else_stays(body: str) -> None:
    found = planned(product(body, 192, 160, 128), ONE)
    assert not any(report.recipe.startswith("contraction") for report in found.nests)
    scheduled(product(body, 13, 33, 7), ONE)


def test_what_a_person_has_scheduled_is_left_alone() -> None:
    text = product(FORMS["an accumulator of all"], 192, 160, 128)
    assert prepared(parse(text)) is not None
    for hand in ('T.serial(128, annotations={"pragma_unroll": 1})', "T.unroll(128)"):
        mine = text.replace("range(128)", hand)
        assert prepared(parse(mine)) is None
        found = planned(mine, ONE)
        assert found.function is found.written


def test_nothing_is_taken_where_nothing_is_gained() -> None:
    text = """
def f(A: T.Buffer((2, 4), "int32"), B: T.Buffer((2, 4), "int32")):
    for i in range(2):
        with T.block("B"):
            vi = T.axis.spatial(2, i)
            for k in range(1, 4):
                B[vi, k] = B[vi, k - 1] * A[vi, k]
"""
    found = planned(text, ONE)
    assert prepared(parse(text)) is not None and found.function is found.written
    assert [report.recipe for report in found.nests] == [""]


#: kernels of rows and columns with what an iteration has of its own
OWN = {
    "layer norm": """
    for i in range(M):
        s = T.float32(0)
        for j in range(N):
            s += X[i, j]
        mean = s / T.float32(7)
        v = T.float32(0)
        for j in range(N):
            d = X[i, j] - mean
            v += d * d
        inv = T.float32(1) / T.sqrt(v + T.float32(1e-5))
        for j in range(N):
            Y[i, j] = (X[i, j] - mean) * inv
""",
    "sums so far down the columns": forms.FORMS["running sums down columns"].body,
    "greatest of each column": """
    for j in range(N):
        s = T.float32(-1000)
        for i in range(M):
            s = T.max(s, X[i, j])
        Y[0, j] = s
""",
    "a vector by a matrix": """
    for j in range(N):
        s = T.float32(0)
        for i in range(M):
            s += X[i, j] * X[i, 0]
        Y[0, j] = s
""",
}


def arrays(body: str, m: object, n: object) -> str:
    for name, extent in (("M", m), ("N", n)):
        body = body.replace(f"range({name})", f"range({extent})")
    return f"def f(X: T.Buffer(({m!r}, {n!r}), 'float32'), Y: T.Buffer(({m!r}, {n!r}), 'float32')):{body}"


@pytest.mark.parametrize("form", OWN)
@pytest.mark.by_day
def test_nests_part_where_recipes_gain(form: str) -> None:
    found = planned(arrays(OWN[form], 192, 256), ONE)
    assert len(found.nests) > 1 and any(report.recipe for report in found.nests), found.nests
    for m, n in ((24, 130), (3, 64)):
        scheduled(arrays(OWN[form], m, n), ONE)


def test_nests_of_any_size_part() -> None:
    sizes = [dict(zip("MN", each, strict=True)) for each in ((13, 133), (40, 96), (1, 1), (0, 5), (5, 0))]
    found = of_any_size(arrays(OWN["sums so far down the columns"], "M", "N"), sizes, "llvm -num_threads=1")
    assert len(found.nests) > 1 and any(report.recipe for report in found.nests), found.nests


def test_functions_of_very_many_scalars_are_not_searched() -> None:
    lines = "".join(
        f'    s{k} = T.alloc_buffer((1,), "float32", scope="local")\n    for i{k} in range(4):\n        s{k}[0] = X[i{k}]\n'
        f"        X[i{k}] = s{k}[0] + T.float32({k})\n"
        for k in range(40)
    )
    head = "def f(X: T.Buffer((4,), 'float32')):\n"
    assert prepared(parse(head + lines)) is None
    few = "".join(lines.splitlines(True)[: 4 * 5])
    found = prepared(parse(head + few))
    assert found is not None and len([one for one in found.steps if not one.instruction.kind.pure]) == 5


def test_loops_that_run_no_times_need_no_memory() -> None:
    text = """
def f(X: T.Buffer((40, 96), "float32"), Y: T.Buffer((40, 96), "float32"), m: T.int32):
    for j in range(T.min(m, 96)):
        s = T.float32(0)
        for i in range(40):
            s += X[i, j]
            Y[i, j] = s
"""
    found = planned(text, ONE)
    assert len(found.nests) > 1
    x = np.random.default_rng(0).standard_normal((40, 96), dtype=np.float32)
    for m in (96, 50, 1, 0, -5, -(2**31)):
        results = []
        for func in (found.written, found.function):
            results.append(np.zeros_like(x))
            tl.build(func, schedule="none")(x, results[-1], m)
        assert results[0].tobytes() == results[1].tobytes(), m


@pytest.mark.parametrize("rows", ["64", '"m"'])
def test_a_product_by_one_column_is_one_by_a_vector(rows: str) -> None:
    def product(b: str, c: str, at: str, loops: str) -> str:
        return f"""
        def f(A: T.Buffer(({rows}, 96), "float32"), B: T.Buffer({b}, "float32"), C: T.Buffer({c}, "float32")):
            for {loops}:
                C[i{at}] = 0
                for k in range(96):
                    C[i{at}] = C[i{at}] + A[i, k] * B[k{at}]
        """

    count = rows.strip('"')
    by_column = parse(dedent(product("(96, 1)", f"({rows}, 1)", ", j", f"i, j in T.grid({count}, 1)")))
    by_vector = parse(dedent(product("(96,)", f"({rows},)", "", f"i in range({count})")))
    assert planned(by_column).nests[0].recipe == planned(by_vector).nests[0].recipe != ""
    ahead = prepared(by_column)
    assert ahead is not None and [
        str(step.instruction.kind.name) for step in ahead.steps if not step.instruction.kind.pure
    ] == ["Simplify"]
    rng = np.random.default_rng(3)
    a, b = rng.random((64, 96), "float32"), rng.random((96, 1), "float32")
    got, want = np.empty((64, 1), "float32"), np.empty(64, "float32")
    tl.build(by_column)(a, b, got)
    tl.build(by_vector, schedule="none")(a, b[:, 0].copy(), want)
    np.testing.assert_array_equal(got[:, 0], want)


FLAT = {
    "an update": """
    for i, j, p in T.grid(m, n, k):
        C[i * n + j] = C[i * n + j] + A[i * k + p] * B[p * n + j]
""",
    "rows by rows": """
    for i, j, p in T.grid(m, n, k):
        C[i * n + j] = C[i * n + j] + A[p + k * i] * B[j * k + p]
""",
}


def flat(body: str, *extents: str) -> str:
    arrays = ", ".join(f'{name}: T.Buffer(({extent},), "float32")' for name, extent in zip("ABC", extents, strict=True))
    return f"@T.prim_func\ndef f(m: T.int32, n: T.int32, k: T.int32, {arrays}):\n    {body.strip()}\n"


@pytest.mark.parametrize("form", FLAT)
def test_arrays_that_the_program_flattened(form: str) -> None:
    func = parse(flat(FLAT[form], "m * k", "n * k" if form == "rows by rows" else "k * n", "m * n"))
    found = planned(func, ONE)
    assert [nest.recipe for nest in found.nests] == ["contraction of any size"]
    kernels = [tl.build(one, "llvm -num_threads=1", schedule="none") for one in (found.written, found.function)]
    rng = np.random.default_rng(5)
    for m, n, k in ((40, 70, 33), (13, 1, 5), (1, 33, 1), (12, 32, 0), (0, 4, 9), (5, 0, 3), (-2, -3, -4), (-1, -1, 5)):
        if min(m * k, k * n, m * n) < 0:
            continue
        given = [rng.standard_normal(size, "float32") for size in (m * k, k * n, m * n)]
        results = []
        for kernel in kernels:
            results.append(given[2].copy())
            kernel(m, n, k, given[0], given[1], results[-1])
        assert results[0].tobytes() == results[1].tobytes(), (m, n, k)


def test_arrays_are_seen_in_their_dimensions_only_where_every_access_is() -> None:
    def kinds(text: str) -> list[str]:
        ahead = prepared(parse(text))
        return [] if ahead is None else [one.instruction.kind.method for one in ahead.steps]

    body = "for i, j in T.grid(m, n):\n        C[i * n + j] = A[i * n + j] + B[j]"
    assert kinds(flat(body, "m * n", "n", "m * n")) == ["unflatten", "unflatten"]
    assert kinds(flat(body + "\n    A[k] = 0", "m * n", "n", "m * n")) == ["unflatten"]
    assert kinds(flat(body, "m * n", "n", "n * m")) == ["unflatten", "unflatten"]
    assert kinds(flat(body.replace("* n +", "* 8 +").replace("(m, n)", "(m, 8)"), "m * 8", "8", "m * 8")) == []
    many = "\n        ".join([body.partition("\n")[0], *["C[i * n + j] = C[i * n + j] + A[i * n + j]"] * 100])
    assert kinds(flat(many, "m * n", "n", "m * n")) == []


SIZED = """
def f(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer(({k}, {n}), "float32"), C: T.Buffer(({m}, {n}), "float32")):
    {names}
    for i in range(rows):
        for j in range(columns):
            C[i, j] = T.float32(0)
            for k in range(terms):
                C[i, j] += A[i, k] * B[k, j]
"""
NAMES = (
    "rows = A.shape[0]\n    columns = B.shape[1]\n    terms = B.shape[0]",
    "rows, terms = A.shape\n    columns = B.shape[1]",
    "rows, terms, columns = A.shape[0], A.shape[1], C.shape[1]",
    "rows = len(A)\n    terms = len(B)\n    columns = C.shape[1]",
    "terms = B.shape[0]\n    if terms > 0:\n        T.evaluate(terms)\n    rows = A.shape[0]\n    columns = B.shape[1]",
)


@pytest.mark.parametrize("names", NAMES)
def test_names_of_sizes_are_sizes(names: str) -> None:
    found = scheduled(SIZED.format(names=names, m=37, k=20, n=64))
    assert [nest.recipe for nest in found.nests] == ["contraction"]


def test_names_of_sizes_that_the_caller_alone_knows() -> None:
    text = SIZED.format(names=NAMES[1], m='"m"', k='"k"', n='"n"')
    [nest] = planned(text).nests
    assert nest.recipe == "contraction of any size"


def test_a_number_that_the_call_brings_keeps_its_name() -> None:
    """It is data, and what is computed from it may wrap."""
    found = planned("""
def f(s: T.int32, A: T.Buffer((64,), "float32"), B: T.Buffer((64, 64), "float32")):
    n = s + 1
    for i in range(n):
        for j in range(64):
            if i < 64:
                B[i, j] = A[j]
""")
    assert "InlineBind" not in str(found.trace) and "inline_bind" not in str(found.trace)
