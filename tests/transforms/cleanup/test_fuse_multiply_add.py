from __future__ import annotations

import ast
import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tests.generate.values import ring
from tirlower.interp import interpret
from tirlower.script import parse
from tirlower.transforms import FuseMultiplyAdd, PassContext

NAMES = ("a", "b", "c", "d")


def over(expression: str, dtype: str = "float32", before: str = "pass") -> tl.PrimFunc:
    """A function that stores an expression of the elements ``a`` to ``d`` of four arrays."""
    text = expression
    for name in NAMES:
        text = text.replace(f"{name}.", f"{name.upper()}[i]")
    arrays = ", ".join(f'{name.upper()}: T.Buffer(("n",), "{dtype}")' for name in NAMES)
    return parse(
        f'@T.prim_func\ndef f({arrays}, O: T.Buffer(("n",), "{dtype}")):\n    for i in range(n):\n        {before}\n'
        f"        O[i] = {text}\n"
    )


def stored(func: tl.PrimFunc) -> str:
    (line,) = [line for line in func.script().splitlines() if "O[i] =" in line]
    for name in NAMES:
        line = line.replace(f"{name.upper()}[i]", name)
    return line.split("= ", 1)[1]


@pytest.mark.parametrize(
    ("written", "fused"),
    [
        ("a. * b. + c.", "T.fma(a, b, c)"),
        ("c. + a. * b.", "T.fma(a, b, c)"),
        ("c. - a. * b.", "T.fma(a * T.float32(-1), b, c)"),
        ("a. * b. - c.", "T.fma(a, b, c * T.float32(-1))"),
        ("a. * b. - 1.0", "T.fma(a, b, T.float32(-1))"),
        ("c. - 2.0 * b.", "T.fma(T.float32(-2), b, c)"),
        ("a. * b. + c. * d.", "T.fma(c, d, a * b)"),
        ("a. * b. - c. * d.", "T.fma(c * T.float32(-1), d, a * b)"),
        ("a. + b. * c. + b. * d.", "T.fma(b, d, T.fma(b, c, a))"),
        ("(a. * b. + c.) * d. + a.", "T.fma(T.fma(a, b, c), d, a)"),
        ("a. * b. * c. + d.", "T.fma(a * b, c, d)"),
        ("a. ** 2 + b.", "T.fma(a, a, b)"),
        ("b. - a. ** 2", "T.fma(a * T.float32(-1), a, b)"),
        ("a. ** 3 + b.", "T.fma(a * a, a, b)"),
        ("-(a. * b.) + c.", "T.fma(a * T.float32(-1), b, c)"),
        ("c. - -(a. * b.)", "T.fma(a, b, c)"),
        ("T.exp(a. * b. + c.)", "T.exp(T.fma(a, b, c))"),
    ],
)
def test_products_that_are_operands_of_sums_are_fused(written: str, fused: str) -> None:
    after = check(FuseMultiplyAdd(), over(written), execute=False)
    assert stored(after) == fused


@pytest.mark.parametrize(
    "written",
    [
        "a. + b.",
        "a. * b.",
        "a. / b. + c.",
        "-a. + b.",
        "b. + -a.",
        "T.if_then_else(i > 2, a. * b., c.) + d.",
        "T.Select(i > 2, a. * b., c.) + d.",
        "T.max(a. * b., c.) + d.",
        "T.fma(a., b., c.) + d.",
        "a. ** -1 + b.",
        "a. ** 0.5 + b.",
        "T.Cast('float32', T.Cast('float16', a.) * T.Cast('float16', b.)) + c.",
        "T.Cast('float32', T.Cast('float16', a.) * T.Cast('float16', b.) + T.Cast('float16', c.))",
        "T.Cast('float32', i * 3 + 2)",
    ],
)
def test_nothing_else_is(written: str) -> None:
    func = over(written)
    assert check(FuseMultiplyAdd(), func, execute=False) is func


def test_the_value_of_a_name_is_not_looked_through() -> None:
    for before in ("p = T.bind(A[i] * B[i])", "p = A[i] * B[i]"):
        func = over("p + c.", before=before)
        assert FuseMultiplyAdd()(func) is func


def test_float16_where_the_processor_computes_in_it() -> None:
    func = over("a. * b. + c.", "float16")
    assert FuseMultiplyAdd()(func) is func
    assert stored(FuseMultiplyAdd(half=True)(func)) == "T.fma(a, b, c)"
    func = over("a. * b. + c.", "bfloat16")
    assert FuseMultiplyAdd(half=True)(func) is func


def test_what_acts_keeps_its_place() -> None:
    call = 'T.call_extern("float32", "f", i)'
    assert (
        stored(FuseMultiplyAdd()(over(f"a. + {call} * b."))) == f"T.Let(T.fma({call}, b, addend), where={{addend: a}})"
    )
    assert stored(FuseMultiplyAdd()(over(f"{call} * b. + a."))) == f"T.fma({call}, b, a)"
    mod = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def half(x: T.float32) -> T.float32:
        return x / 2.0
    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = A[i] + A[i] * Module.half(A[i])
""")
    assert "T.fma(A[i], Module.half(A[i]), A[i])" in FuseMultiplyAdd()(mod).script()


def test_of_two_errors_the_first_one_is_raised() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), m: T.int32, d: T.int32, e: T.int32, O: T.Buffer((8,), "float32")):
    for i in range(8):
        O[i] = A[T.truncmod(m, d) % 8] + A[i] * T.Cast("float32", T.truncdiv(m + 1, e))
""")
    a, out = np.ones(8, "float32"), np.zeros(8, "float32")
    kernel = tl.build(func, schedule="none")
    kernel(a, 5, 3, 2, out)
    assert (out == 4).all()
    for d, e, told in ((0, 0, "5 divided by 0"), (0, 1, "5 divided by 0"), (1, 0, "6 divided by 0")):
        with pytest.raises(ZeroDivisionError, match=told):
            kernel(a, 5, d, e, out)


SUM = """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), S: T.Buffer((2,), "float32"),
      C: T.Buffer((64,), "float32")):
    for i in T.serial(64, annotations={{"tir.reduction": {marked}}}):
        S[0] = S[0] + A[i] * (B[i] * A[i] + B[i])
        C[i] = C[i] + A[i] * B[i]
    for j in range(2):
        for i in T.serial(64, annotations={{"tir.reduction": {marked}}}):
            with T.block("S"):
                vj, vi = T.axis.remap("SR", [j, i])
                S[vj] = S[vj] - A[vi] * B[vi]
"""


def test_sums_that_may_be_added_in_any_order_stay_sums() -> None:
    after = check(FuseMultiplyAdd(), parse(SUM.format(marked=True)), execute=False).script()
    assert "S[0] = S[0] + A[i] * T.fma(B[i], A[i], B[i])" in after
    assert "C[i] = T.fma(A[i], B[i], C[i])" in after
    assert "S[vj] = S[vj] - A[vi] * B[vi]" in after
    in_order = check(FuseMultiplyAdd(), parse(SUM.format(marked=False)), execute=False).script()
    assert in_order.count("fma") == 3 and "S[vj] = T.fma(A[vi] * T.float32(-1), B[vi], S[vj])" in in_order
    assert "S[0] = S[0] + A[i] * T.fma(B[i], A[i], B[i])" in in_order, "all loops wait for that sum"


# -- the rule, evaluated by itself ---------------------------------------------------------------------------------------


def nearest(exact: Fraction, negative_zero: bool, dtype: type[np.floating]) -> float:
    """A rational number, rounded to nearest even by comparing neighbours."""
    if exact == 0:
        return -0.0 if negative_zero else 0.0
    most = np.finfo(dtype).max
    step = Fraction(float(most)) - Fraction(float(np.nextafter(most, dtype(0))))
    size = abs(exact)
    if size >= Fraction(float(most)) + step / 2:
        return math.inf if exact > 0 else -math.inf
    near = dtype(float(min(size, Fraction(float(most)))))
    around = [near, np.nextafter(near, dtype(np.inf)), np.nextafter(near, dtype(0))]
    whole = np.uint32 if dtype is np.float32 else np.uint64
    finite = [x for x in around if np.isfinite(x)]
    best = min(finite, key=lambda x: (abs(Fraction(float(x)) - size), int(np.asarray(x).view(whole)) & 1))
    return float(best) if exact > 0 else -float(best)


def combined(a: float, b: float, c: float | None, dtype: type[np.floating]) -> float:
    """``a * b`` or ``a * b + c``, rounded once."""
    numbers = [a, b] if c is None else [a, b, c]
    if not all(map(math.isfinite, numbers)):
        # Signs alone decide: of finite numbers, their signs.
        small = [x if not math.isfinite(x) else math.copysign(x != 0, x) for x in numbers]
        return small[0] * small[1] + (small[2] if c is not None else -0.0)
    product = Fraction(a) * Fraction(b)
    product_is_negative = math.copysign(1, a) != math.copysign(1, b)
    if c is None:
        return nearest(product, product_is_negative, dtype)
    both_negative = product == 0 and c == 0 and product_is_negative and math.copysign(1, c) < 0
    return nearest(product + Fraction(c), both_negative, dtype)


def is_product(tree: ast.expr) -> tuple[ast.expr, ast.expr, int] | None:
    if isinstance(tree, ast.UnaryOp):
        found = is_product(tree.operand)
        return None if found is None else (found[0], found[1], -found[2])
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        return tree.left, tree.right, 1
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow):
        return tree.left, tree.left, 1
    return None


def by_the_rule(tree: ast.expr, values: dict[str, float], dtype: type[np.floating], fuses: bool = True) -> float:
    """What an expression of Python's grammar is, by what docs/numerics.md says of contraction."""

    def of(part: ast.expr) -> float:
        return by_the_rule(part, values, dtype, fuses)

    if isinstance(tree, ast.Name):
        return values[tree.id]
    if isinstance(tree, ast.UnaryOp):
        return -of(tree.operand)
    assert isinstance(tree, ast.BinOp)
    if isinstance(tree.op, ast.Pow):
        return combined(of(tree.left), of(tree.left), None, dtype)
    if isinstance(tree.op, ast.Mult):
        return combined(of(tree.left), of(tree.right), None, dtype)
    sign = -1 if isinstance(tree.op, ast.Sub) else 1
    for product, other in ((tree.right, tree.left), (tree.left, tree.right)):
        found = is_product(product)
        if found is not None and fuses:
            x, y, negative = found
            minus = negative * (sign if product is tree.right else 1)
            rest = of(other) * (sign if product is tree.left else 1)
            return combined(of(x) * minus, of(y), rest, dtype)
    return combined(of(tree.left), 1.0, of(tree.right) * sign, dtype)


SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0)


def hard_values(rng: random.Random, dtype: type[np.floating], count: int) -> list[dict[str, float]]:
    """Values whose sums cancel, special ones, subnormal ones and large ones."""
    info = np.finfo(dtype)
    made = []
    for at in range(count):
        x = float(dtype(rng.uniform(1, 2)))
        values = [float(dtype(rng.gauss(0, 1))) for _ in NAMES]
        if at % 4 == 0:
            values = [x, float(np.nextafter(dtype(x), dtype(2))), -float(dtype(x) * dtype(x)), -x]
        elif at % 4 == 1:
            values = [rng.choice(SPECIAL) if rng.random() < 0.6 else v for v in values]
        elif at % 4 == 2:
            least = float(info.smallest_subnormal)
            values = [v * rng.choice([1.0, least * 2 ** rng.randint(0, 30), float(info.tiny)]) for v in values]
            values = [float(dtype(v)) for v in values]
        elif at % 8 == 3:
            values = [float(dtype(v * 2.0 ** rng.randint(info.maxexp // 2 - 3, info.maxexp // 2 + 1))) for v in values]
        rng.shuffle(values)
        made.append(dict(zip(NAMES, values, strict=True)))
    return made


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    bits = f"u{a.dtype.itemsize}"
    return bool(((np.isnan(a) & np.isnan(b)) | (a.view(bits) == b.view(bits))).all())


def against_the_rule(seed: int, run: Callable[..., object] | None, fuses: bool, count: int = 40) -> None:
    """Compare one random expression with the rule; ``run`` of None interprets what the pass makes."""
    rng = random.Random(f"fused {seed}")
    dtype, name = [(np.float32, "float32"), (np.float64, "float64")][seed % 2]
    text = ring(rng, NAMES, rng.randint(2, 4))
    values = hard_values(rng, dtype, count)
    arrays = [np.array([one[n] for one in values], dtype) for n in NAMES]
    spelt = text
    for n in NAMES:
        spelt = spelt.replace(n, f"{n}.")
    func = over(spelt, name)
    out = np.zeros(count, dtype)
    with np.errstate(all="ignore"):
        if run is None:
            interpret(FuseMultiplyAdd()(func), *arrays, out)
        else:
            run(func)(*arrays, out)  # type: ignore[operator]
        tree = ast.parse(text, mode="eval").body
        want = np.array([by_the_rule(tree, one, dtype, fuses) for one in values]).astype(dtype)
    for at, one in enumerate(values):
        assert same_bits(out[at : at + 1], want[at : at + 1]), f"{text} of {one}: {out[at]!r}, by the rule {want[at]!r}"


@pytest.mark.parametrize("seed", range(60))
def test_random_expressions_round_by_the_rule(seed: int) -> None:
    against_the_rule(seed, None, fuses=True)


def _fused_here() -> bool:
    return tl.lower(over("a. * b. + c.")).script().count("T.fma") > 0


@pytest.mark.parametrize("seed", range(30))
def test_machine_code_rounds_by_the_rule(seed: int) -> None:
    against_the_rule(seed, tl.build, _fused_here(), 67)


@pytest.mark.parametrize("target", ["llvm -fast-math-contract=0", "llvm -mcpu=x86-64-v2"])
@pytest.mark.parametrize("seed", range(10))
def test_machine_code_without_contraction_rounds_each_operation(seed: int, target: str) -> None:
    against_the_rule(seed, lambda func: tl.build(func, target, schedule="none"), False, 67)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_more_random_expressions(seed: int) -> None:
    against_the_rule(seed, [None, tl.build][seed // 2 % 2], seed // 2 % 2 == 0 or _fused_here())


def test_a_validated_build_takes_the_fused_apart() -> None:
    func = over("a. * a. - b.")
    a = np.full(8, 1 + 2**-12, "float32")
    with PassContext(validate=True):
        kernel = tl.build(func, schedule="none")
    out = np.zeros(8, "float32")
    kernel(a, a * a, a, a, out)
    assert bool(out[0]) is _fused_here()


def test_a_validated_pass_that_fuses_what_it_should_not_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    from tirlower.transforms.cleanup import fuse_multiply_add

    wrong = fuse_multiply_add._Product.plus
    monkeypatch.setattr(
        fuse_multiply_add._Product, "plus", lambda self, c, span: wrong(self._replace(negative=False), c, span)
    )
    with PassContext(validate=True, config={"tir.validate.reproducer_dir": str(tmp_path)}):
        FuseMultiplyAdd()(over("a. + b. * c."))
        with pytest.raises(tl.TransformError, match="FuseMultiplyAdd changes what"):
            FuseMultiplyAdd()(over("a. - b. * c."))


def test_powers_of_powers_are_shared() -> None:
    text = "a."
    for _ in range(24):
        text = f"({text} ** 2 + b.)"
    fused, plain = np.zeros(3, "float32"), np.zeros(3, "float32")
    zero, b = np.zeros(3, "float32"), np.array([0.0, -0.5, -1.0], "float32")
    tl.build(over(text), schedule="none")(zero, b, b, b, fused)
    for _ in range(24):
        plain = plain * plain + b
    np.testing.assert_allclose(fused, plain, rtol=1e-5)


def test_an_attribute_says_it_of_all_sums() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), S: T.Buffer((8,), "float32")):
    T.func_attr({"tir.sums_apart": VALUE})
    for i in range(64):
        S[0] = S[0] + A[i] * A[i]
    for i in range(8):
        S[i] = S[i] + A[i] * A[i]
        A[i] = A[i] * A[i] + A[63 - i]
"""
    counts = {
        value: FuseMultiplyAdd()(parse(text.replace("VALUE", value))).script().count("T.fma")
        for value in ("True", "False")
    }
    assert counts == {"True": 1, "False": 3}
    assert (
        FuseMultiplyAdd()(parse(text.replace('    T.func_attr({"tir.sums_apart": VALUE})\n', "")))
        .script()
        .count("T.fma")
        == 2
    )


@pytest.mark.parametrize(
    ("place", "fused"),
    [
        ("        acc = T.alloc_buffer((1,), 'float32', scope='local')\n        acc[0] = T.float32(0)\n", 1),
        ("        acc[0] = T.float32(0)\n", 1),  # begun anew in the nest, wherever its memory is
        ("        pass\n", 0),
    ],
)
def test_sums_that_a_nest_begins_anew_are_not_carried_by_all_of_its_loops(place: str, fused: int) -> None:
    outside = "    acc = T.alloc_buffer((1,), 'float32', scope='local')\n    acc[0] = T.float32(0)\n"
    text = (
        "@T.prim_func\ndef f(A: T.Buffer((8, 8), 'float32'), C: T.Buffer((8,), 'float32')):\n"
        + ("" if "alloc" in place else outside)
        + f"    for i in range(8):\n{place}        for k in range(8):\n            acc[0] = acc[0] + A[i, k] * A[k, i]\n"
        "        C[i] = acc[0]\n"
    )
    assert FuseMultiplyAdd()(parse(text)).script().count("T.fma") == fused
