"""Constants that are bound behind the compilation: what is computed is what they say, folded or not; errors name them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.errors import GraphError

TEXT = """
@tg.graph
def layer(x: tg.Tensor(("B", 4), "float32")):
    tg.dims(B=(1, 64))
    w = tg.constant("float32", (4, 3), "11111111")
    b = tg.constant("float32", (3,), "22222222")
    s = tg.constant("float32", (), "33333333")
    two = tg.constant("float32", (3,), 2.0)
    e: tg.Tensor((4, 3), "float32") = tg.exp(w)
    t: tg.Tensor((4, 3), "float32") = tg.multiply(e, s)
    b2: tg.Tensor((3,), "float32") = tg.multiply(b, two)
    y: tg.Tensor(("B", 3), "float32") = tg.matmul(x, t)
    z: tg.Tensor(("B", 3), "float32") = tg.add(y, b2)
    return {"z": z, "t": t, "b": b}
"""
RNG = np.random.default_rng(0)
W, BIAS, S = (RNG.standard_normal(s).astype("float32") for s in ((4, 3), (3,), ()))
VALUES = {"w": W, "b": BIAS, "s": np.asarray(S)}
X = RNG.standard_normal((5, 4)).astype("float32")


def bound(**options: Any) -> Any:
    exe = tg.compile(tg.parse(TEXT), **options)
    for name, array in VALUES.items():
        exe.set_constant(name, array)
    return exe


def with_constants() -> Any:
    """The same graph, its constants there from the start."""
    return tg.passes.BindConstants(constants=VALUES)(tg.parse(TEXT))


@pytest.mark.parametrize("options", [tg.Options(), tg.Options(optimize=False)], ids=["optimized", "plain"])
def test_bound_and_folded_it_computes_what_the_reference_says(options: tg.Options) -> None:
    exe = bound(options=options)
    before = exe(X)
    for name, wanted in tg.interpret(with_constants(), X).items():  # type: ignore[union-attr]
        np.testing.assert_allclose(before[name], wanted, rtol=1e-5)
    assert [sum(k.calls for n, k in exe.kernels.items() if n.startswith(op)) for op in ("exp", "multiply")] == [1, 2]
    exe.fold_constants()
    after = exe(X)
    assert list(after) == ["z", "t", "b"] and all(after[n].tobytes() == before[n].tobytes() for n in after)
    assert not any(n.startswith(("exp", "multiply")) for n in exe.kernels)
    exe.plan.verify()
    exe.fold_constants()  # nothing is left
    assert exe(X)["z"].tobytes() == before["z"].tobytes()


def test_a_call_before_all_are_bound_names_those_that_are_not() -> None:
    exe = tg.compile(tg.parse(TEXT))
    with pytest.raises(GraphError, match=r"layer has constants that are not bound: 'w', .*'b'|'b', .*'w'") as caught:
        exe(X)
    assert "set_constant" in (caught.value.help or "")
    exe.set_constant("w", W)
    exe.set_constant("b", BIAS)
    for attempt in (lambda: exe(X), exe.fold_constants, lambda: exe.profile(X)):
        with pytest.raises(GraphError, match="layer has constants that are not bound: 's'"):
            attempt()
    exe.set_constant("s", S)
    assert exe(X)["z"].shape == (5, 3) and len(exe.profile(X).kernels) > 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("v", W, r"layer has no constant 'v'(.|\n)*did you mean|its constants: w, b, s"),
        ("x", X, "'x' is an input of layer"),
        ("z", X, "'z' is no constant: it is computed"),
        ("two", BIAS, "the constant 'two' is bound already"),
        ("w", W.astype("float64"), "the constant 'w' is of float32, got float64"),
        ("w", W.T, r"the constant 'w' has the shape \(4, 3\), got \(3, 4\)"),
        ("w", W[:0], r"has the shape \(4, 3\), got \(0, 3\)"),
        ("s", np.ones((1,), "float32"), r"the constant 's' has the shape \(\), got \(1,\)"),
        ("w", "text", "tensors hold numbers"),
    ],
)
def test_what_cannot_be_bound(name: str, value: object, message: str) -> None:
    exe = tg.compile(tg.parse(TEXT))
    with pytest.raises(GraphError, match=message):
        exe.set_constant(name, value)
    for each, array in VALUES.items():  # and nothing of it stays
        exe.set_constant(each, array)
    assert exe(X)["z"].tobytes() == bound()(X)["z"].tobytes()


def test_a_constant_is_bound_once_also_when_it_was_folded() -> None:
    exe = bound()
    for _ in range(2):
        for name in VALUES:
            with pytest.raises(GraphError, match=f"the constant '{name}' is bound already"):
                exe.set_constant(name, VALUES[name])
        exe.fold_constants()


def test_constants_that_nothing_reads() -> None:
    text = TEXT.replace('"t": t, "b": b', '"t": t').replace("tg.add(y, b2)", "tg.add(y, two)")
    exe = tg.compile(tg.parse(text))
    with pytest.raises(GraphError, match="nothing that was compiled reads the constant 'b'"):
        exe.set_constant("b", BIAS)


def test_views_strides_and_read_only_arrays() -> None:
    exe = tg.compile(tg.parse(TEXT))
    frozen = BIAS.copy()
    frozen.flags.writeable = False
    exe.set_constant("w", np.asfortranarray(W))
    exe.set_constant("b", frozen)
    exe.set_constant("s", S)
    assert exe(X)["z"].tobytes() == bound()(X)["z"].tobytes()


def test_all_elements_equal_is_a_constant_too() -> None:
    exe = tg.compile(tg.parse(TEXT))
    for name, array in VALUES.items():
        exe.set_constant(name, np.ones_like(array))
    first = exe(X)
    exe.fold_constants()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first.values(), exe(X).values(), strict=True))


def test_what_grows_too_much_or_has_dims_stays() -> None:
    exe = tg.compile(
        tg.parse("""
@tg.graph
def f(x: tg.Tensor(("B", 4), "float32")):
    tg.dims(B=(1, 64))
    w = tg.constant("float32", (1, 4), "11111111")
    e: tg.Tensor((1, 4), "float32") = tg.exp(w)
    big: tg.Tensor((9000, 4), "float32") = tg.broadcast_to(e, shape=(9000, 4))
    m: tg.Tensor((4,), "float32") = tg.max(big, axis=0)
    y: tg.Tensor(("B", 4), "float32") = tg.add(x, m)
    return y
"""),
        options=tg.Options(optimize=False),
    )
    w = RNG.standard_normal((1, 4)).astype("float32")
    exe.set_constant("w", w)
    before = exe(X)
    exe.fold_constants()
    assert exe(X).tobytes() == before.tobytes()  # type: ignore[attr-defined]
    assert [n.split("_")[0] for n in exe.kernels] == ["broadcast", "max", "add"]


def test_states_live_on_and_inner_graphs_have_their_constants() -> None:
    exe = tg.compile(
        tg.parse("""
@tg.graph
def f(x: tg.Tensor((2,), "float32")):
    total = tg.state("total", (2,), "float32", 1.0)

    @tg.graph
    def then(v: tg.Tensor((2,), "float32")):
        c = tg.constant("float32", (2,), "44444444")
        r: tg.Tensor((2,), "float32") = tg.add(v, c)
        return r

    @tg.graph
    def otherwise(v: tg.Tensor((2,), "float32")):
        r: tg.Tensor((2,), "float32") = tg.negative(v)
        return r

    w = tg.constant("float32", (2,), "11111111")
    e: tg.Tensor((2,), "float32") = tg.negative(w)
    held: tg.Tensor((2,), "float32") = total.load()
    now: tg.Tensor((2,), "float32") = tg.add(held, e)
    total.store(now)
    s: tg.Tensor((), "float32") = tg.sum(x)
    p: tg.Tensor((), "bool") = tg.greater(s, 0.0)
    y: tg.Tensor((2,), "float32") = tg.cond(p, then, otherwise, now)
    return y
""")
    )
    exe.set_constant("w", np.array([1, 2], "float32"))
    with pytest.raises(GraphError, match="not bound: 'c'"):
        exe(np.ones(2, "float32"))
    exe.set_constant("c", np.array([100, 200], "float32"))
    one = np.ones(2, "float32")
    assert exe(one).tolist() == [100, 199]  # type: ignore[attr-defined]
    exe.fold_constants()
    assert exe(one).tolist() == [99, 197] and exe.state["total"].tolist() == [-1, -3]  # type: ignore[attr-defined]
    assert exe(-one).tolist() == [2, 5]  # type: ignore[attr-defined]
    exe.reset()
    assert exe(one).tolist() == [100, 199]  # type: ignore[attr-defined]


def test_saved_without_them_they_are_bound_again_and_folded_they_are_in_the_file(tmp_path: Path) -> None:
    exe = bound()
    wanted = exe(X)
    exe.save(tmp_path / "late.tg")
    back = tg.load(tmp_path / "late.tg")
    with pytest.raises(GraphError, match="not bound"):
        back(X)
    for name, array in VALUES.items():
        back.set_constant(name, array)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(wanted.values(), back(X).values(), strict=True))
    back.fold_constants()
    back.save(tmp_path / "folded.tg")
    again = tg.load(tmp_path / "folded.tg")
    assert all(a.tobytes() == b.tobytes() for a, b in zip(wanted.values(), again(X).values(), strict=True))
    with pytest.raises(GraphError, match="nothing that was compiled reads the constant 'w'"):
        again.set_constant("w", W)


def test_two_threads() -> None:
    exe = bound()
    wanted = exe(X)["z"].tobytes()
    wrong: list[object] = []

    def calls() -> None:
        wrong.extend(1 for _ in range(300) if exe(X)["z"].tobytes() != wanted)

    threads = [threading.Thread(target=calls) for _ in range(2)]
    for t in threads:
        t.start()
    exe.fold_constants()
    for t in threads:
        t.join()
    assert not wrong
