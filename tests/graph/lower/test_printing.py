"""Assertions and prints of compiled graphs: the same as those of the reference."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.core.debug import tensor_text
from tirlower.graph.lower.printing import known_print

PLAIN = tg.Options(optimize=False)
KEPT = {"graph.StripDebug": {"asserts": False, "prints": False}}
B = tg.dim("B", 0, 8)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (1, 2, 1, 2)])
def test_every_dtype_and_rank_is_printed_as_the_reference_prints_it(dtype, shape, capsys):
    def f(x):
        tg.print_(x, "input")
        y = tg.identity(x)
        tg.print_(y, "value")
        return x

    graph = tg.trace(f, tg.spec(shape, dtype))
    kind = graph.params[0].dtype.numpy
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
    exe = tg.compile(graph, options=PLAIN)
    capsys.readouterr()
    exe(x)
    assert capsys.readouterr().out == "".join(f"{tensor_text(x, name)}\n" for name in ("input", "value"))


def test_constants_states_and_extents_of_calls(capsys):
    total = tg.state("total", (2,), "int32", 0)

    def f(x):
        total.store(total.load() + 1)
        tg.print_(total.load(), "state")
        tg.print_(np.arange(3, dtype="int16"), "constant")
        tg.print_(np.zeros(3, "int16"), "one number")
        tg.print_(x)
        return x

    exe = tg.compile(tg.trace(f, tg.spec((B, 1), "int32")), options=PLAIN)
    capsys.readouterr()
    for size in (2, 0):
        exe(np.ones((size, 1), "int32"))
    assert capsys.readouterr().out.splitlines() == [
        "state: int32[2] [1, 1]",
        "constant: int16[3] [0, 1, 2]",
        "one number: int16[3] [0, 0, 0]",
        "int32[2, 1] [[1],",
        " [1]]",
        "state: int32[2] [2, 2]",
        "constant: int16[3] [0, 1, 2]",
        "one number: int16[3] [0, 0, 0]",
        "int32[0, 1] []",
    ]


def test_texts_arrive_as_they_are_written(capsys):
    text = 'percent %s {0} "quoted" \\ back\nnew line é 漢 \t'
    graph = tg.trace(lambda x: tg.print_(x, text) or x, tg.spec((), "int8"))
    exe = tg.compile(graph, options=PLAIN)
    capsys.readouterr()
    exe(np.int8(1))
    assert capsys.readouterr().out == f"{text}: int8[] 1\n"


def checked(x):
    tg.assert_((x < 10).all(), "{0} is < 10 % {")
    y = x * 2
    tg.assert_((y < 10).all())
    return y


@pytest.mark.parametrize("shape", [(3,), (B,)])
def test_an_assertion_ends_the_call_with_the_error_of_the_reference(shape):
    graph = tg.trace(checked, tg.spec(shape, "int32"))
    exe = tg.compile(graph, options=PLAIN)
    good = np.array([1, 2, 3], "int32")
    for bad in (good * 4, good * 2):
        messages = []
        for run in (exe, lambda x: tg.interpret(graph, x)):
            with pytest.raises(tl.RuntimeAssertError) as caught:
                run(bad)
            messages.append(caught.value.message)
        assert messages[0].removesuffix(" (B = 3)") == messages[1] and re.search(r"g.py:\d+\)$", messages[1])
        assert np.array_equal(exe(good), good * 2)  # as if nothing had happened
    assert np.array_equal(exe(good[:3]), checked(good))


def test_choices_and_loops(capsys):
    def f(x, flag):
        def body(n, v):
            tg.print_(n, "turn")
            tg.assert_(n < 3, "three turns")
            return n + 1, v * 2

        _, v = tg.while_loop(lambda n, v: (v < 16).any(), body, 0, x)
        return tg.cond(flag, lambda: tg.print_(v, "then") or v, lambda: v + 1)

    graph = tg.trace(f, tg.spec((2,), "int64"), tg.spec((), "bool"))
    exe = tg.compile(graph, options=PLAIN)
    capsys.readouterr()
    assert exe(np.array([2, 4]), np.array(True)).tolist() == [16, 32]
    assert capsys.readouterr().out.splitlines() == [
        *(f"turn: int64[] {n}" for n in range(3)),
        "then: int64[2] [16, 32]",
    ]
    exe(np.array([16, 16]), np.array(False))
    assert capsys.readouterr().out == ""
    with pytest.raises(tl.RuntimeAssertError, match="three turns"):
        exe(np.array([1, 1]), np.array(True))


def test_passes_keep_what_is_said_and_compiling_drops_it(capsys):
    def f(x):
        a, b = np.exp(x), np.exp(x)  # equal: computed once, printed twice
        tg.print_(a, "same")
        tg.print_(b, "same")
        tg.assert_((a > 0).all(), "holds")
        return x

    graph, x = tg.trace(f, tg.spec((2,), "float32")), np.zeros(2, "float32")
    with tl.PassContext(config=KEPT, validate=True):
        kept = tg.compile(graph)
    dropped = tg.compile(graph)
    assert [name for name in kept.kernels if name.startswith("exp")] == ["exp_2"]
    capsys.readouterr()
    kept(x)
    assert capsys.readouterr().out == "same: float32[2] [1., 1.]\n" * 2
    dropped(x)
    assert capsys.readouterr().out == "" and not any(name.startswith("exp") for name in dropped.kernels)
    assert "said while it runs" not in str(dropped.report())
    shown = re.sub(r"py:\d+", "py", str(kept.report()).splitlines()[-1])
    assert shown == "said while it runs: " + "; ".join(
        f"{what} (test_printing.py)" for what in ("print 'same'", "print 'same'", "assert 'holds'")
    )


def test_a_file_of_it_says_the_same_in_a_fresh_process(tmp_path, capsys):
    import subprocess
    import sys

    graph = tg.trace(checked, tg.spec((B,), "int32"))
    printing = tg.trace(lambda x: tg.print_(x * 3, "tripled") or checked(x), tg.spec((B,), "int32"))
    for name, one in (("checked", graph), ("printing", printing)):
        tg.compile(one, options=PLAIN).save(tmp_path / f"{name}.tg")
    code = (
        "import sys, numpy as np, tirlower.graph as tg\n"
        "exe = tg.load(sys.argv[1])\nexe(np.array([1, 2], 'int32'))\nexe(np.array([1, 200], 'int32'))"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path / "printing.tg")], capture_output=True, text=True)
    assert run.stdout == "tripled: int32[2] [3, 6]\ntripled: int32[2] [  3, 600]\n"
    assert "RuntimeAssertError: error: {0} is < 10 % {" in run.stderr
    exe = tg.load(tmp_path / "checked.tg")
    with pytest.raises(tl.RuntimeAssertError, match="is < 10"):
        exe(np.array([10], "int32"))


def test_memory_that_is_printed_lives_until_then(capsys):
    # The value printed at the end is made first: nothing may take its place.
    def f(x):
        first = x + 1
        y = x
        for _ in range(6):
            y = np.exp(y)
        tg.print_(first, "first")
        return y

    exe = tg.compile(tg.trace(f, tg.spec((2,), "float32")), options=PLAIN)
    capsys.readouterr()
    exe(np.zeros(2, "float32"))
    assert capsys.readouterr().out == "first: float32[2] [1., 1.]\n"
    place = next(p for p in exe.plan.placements if p.name == "add")
    assert place.last >= 7


def test_a_hook_and_a_profile_go_past_them(capsys):
    exe = tg.compile(tg.trace(checked, tg.spec((2,), "int32")), options=PLAIN)
    seen = []
    with exe.trace(lambda kernel, inputs, outputs: seen.append(kernel.name)):
        exe(np.ones(2, "int32"))
    assert "multiply_2" in seen and len(exe.profile(np.ones(2, "int32")).kernels) == len(exe.kernels)


def test_a_long_graph_prints_and_asserts_in_its_parts(tmp_path, capsys):
    """Prints of one text, whose tensors differ in shape alone, are in parts of their own; assertions end the call."""

    def f(x, y):
        for k in range(400):
            x = x + y
            if k % 100 == 50:
                tg.print_(x, "so far")
                tg.print_(x.reshape((3, 1)), "so far")
            if k % 90 == 20:
                tg.assert_(x.sum() < 3000.0, "too much")
        return x

    exe = tg.compile(tg.trace(f, tg.spec((3,), "float32"), tg.spec((3,), "float32")), options=PLAIN)
    one = np.ones(3, "float32")
    exe.save(tmp_path / "long.tg")
    for run in (exe, tg.load(tmp_path / "long.tg")):
        capsys.readouterr()
        assert run(one, one).tolist() == [401.0] * 3
        said = capsys.readouterr().out
        sums = (52.0, 152.0, 252.0, 352.0)
        assert said == "".join(
            "so far: float32[3] [{0}., {0}., {0}.]\n".format(int(s))
            + tensor_text(np.full((3, 1), s, "float32"), "so far")
            + "\n"
            for s in sums
        )
        with pytest.raises(tl.RuntimeAssertError, match="too much"):
            run(one * 900, one)


@pytest.mark.parametrize(
    ("symbol", "known"),
    [
        ("tirlower_graph_print_0", True), ("tirlower_graph_print_12", True), ("tirlower_graph_print_1000", False),
        ("tirlower_graph_print_", False),
        ("tirlower_graph_print_03", False), ("tirlower_graph_print_-1", False), ("3", False),
        ("tirlower_graph_print_\u0663", False),  # a decimal digit of another script
    ],
)  # fmt: skip
def test_names_of_functions_that_print(symbol: str, known: bool) -> None:
    assert known_print(symbol) is known
