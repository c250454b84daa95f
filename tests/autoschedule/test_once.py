"""What the first or the last iteration of a loop does alone comes to stand before or behind it."""

from __future__ import annotations

import pytest

from tests.autoschedule.scheduled import AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size
from tirlower.autoschedule.once import asked_once
from tirlower.autoschedule.prepare import prepared
from tirlower.ir import For
from tirlower.script import parse

ONE = AVX512.replace("threads=2", "threads=1")
HEAD = """
def f(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer(({k}, {n}), "float32"), C: T.Buffer(({m}, {n}), "float32"), D: T.Buffer(({m}, {n}), "float32")):
    for i, j, k in T.grid({m}, {n}, {k}):"""  # fmt: skip
FORMS = {
    "zero": """
        if k == 0:
            C[i, j] = 0
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
""",
    "the first product": """
        if 0 == k:
            C[i, j] = A[i, k] * B[k, j]
        else:
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
""",
    "both ends": """
        if k == 0:
            C[i, j] = 0
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
        if k == {k} - 1:
            D[i, j] = T.max(C[i, j], T.float32(0))
""",
}


@pytest.mark.parametrize("form", FORMS)
def test_products(form: str) -> None:
    text = HEAD + FORMS[form]
    found = planned(text.format(m=96, n=128, k=64), ONE)
    assert any(report.recipe.startswith("contraction") for report in found.nests), found.nests
    assert "if k" not in str(found.function)
    for m, n, k in ((13, 33, 7), (1, 16, 1)):
        scheduled(text.format(m=m, n=n, k=k), ONE, interpreted=k == 1)


@pytest.mark.parametrize(
    "form", [name if name == "both ends" else pytest.param(name, marks=pytest.mark.nightly) for name in FORMS]
)
def test_products_of_any_size(form: str) -> None:
    text = (HEAD + FORMS[form]).format(m="M", n="N", k="K")
    head, body = text.split("):\n", 1)
    for name in "MNK":
        head = head.replace(f"({name},", f'("{name}",').replace(f" {name})", f' "{name}")')
    sizes = [
        dict(zip("MNK", each, strict=True)) for each in ((13, 33, 7), (64, 96, 40), (1, 1, 1), (0, 5, 3), (5, 3, 0))
    ]
    found = of_any_size(f"{head}):\n{body}", sizes, "llvm -num_threads=1")
    assert any(report.recipe.startswith("contraction") for report in found.nests), found.nests


@pytest.mark.parametrize(
    "body",
    [
        # what is done first reads what each iteration before wrote
        """
        if k == 0:
            D[i, j] = C[i, j]
            C[i, j] = 0
        C[i, j] = C[i, j] + D[i, j] * B[k, j]
""",
        # what is done first is not of the first iteration
        """
        if k == 1:
            C[i, j] = 0
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
""",
        """
        if k == A[0, 0]:
            C[i, j] = 0
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
""",
        """
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
        if k == 0:
            C[i, j] = 0
""",
    ],
)
def test_what_is_not_of_one_end_keeps_its_bits(body: str) -> None:
    scheduled((HEAD + body).format(m=5, n=19, k=6), ONE)


def test_what_is_not_found() -> None:
    func = parse((HEAD + FORMS["zero"].replace("k == 0", "k == i")).format(m=5, n=19, k=6))
    assert isinstance(func.body, For) and not list(asked_once(func.body))
    assert prepared(func) is None
