"""The command line, on the examples and on a file of its own."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import pytest

import tirlower as tl
from tirlower.__main__ import load_function, main, random_arguments, random_inputs
from tirlower.diagnostics import TirError
from tirlower.ir.query import each
from tirlower.ir.stmt import For
from tirlower.script import parse
from tirlower.transforms import catalog

ROOT = pathlib.Path(__file__).parent.parent
VECTOR_ADD = f"{ROOT}/examples/vector_add.py:vector_add"
PREFIX_SUM = f"{ROOT}/examples/prefix_sum.py:prefix_sum"

PROGRAM = """
from tirlower.script import tir as T, ir as I

@T.prim_func
def blur(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 14), "float32"), k: T.float32, n: T.int32):
    for i, j in T.grid(8, 14):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = (A[vi, vj] + A[vi, vj + 1] + A[vi, vj + 2]) * k

def made():
    @T.prim_func
    def inner(A: T.Buffer(("n",), "int32")):
        for i in range(n):
            A[i] = i
    return inner

def needs(size):
    return size

number = 3

@I.ir_module
class Two:
    @T.prim_func
    def one(A: T.Buffer((4,), "int32")):
        A[0] = 1

    @T.prim_func
    def two(A: T.Buffer((4,), "int32")):
        A[0] = 2
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program_for_the_command_line.py"
    path.write_text(PROGRAM)
    return str(path)


def run(capsys, *argv: str) -> str:
    assert main(argv) == 0
    return capsys.readouterr().out


def refused(capsys, *argv: str) -> str:
    assert main(argv) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_demo(capsys):
    out = run(capsys, "demo", "--quick")
    for name in ("vector add", "matmul", "gelu", "row sum"):
        assert re.search(rf"^{name} .* ms .* us .* us .*x$", out, re.M), out
    assert "every result equals NumPy's" in out


@pytest.mark.parametrize("where", [VECTOR_ADD, PREFIX_SUM])
def test_run_of_an_example(capsys, where):
    out = run(capsys, "run", where, "--size", "100")
    assert "on random arguments" in out and "(100,)" in out and "us a call" in out


def test_run_takes_sizes_and_scalars(capsys, program):
    out = run(capsys, "run", f"{program}:blur")
    assert "A: float32 (8, 16), mean" in out and "B: float32 (8, 14), mean" in out
    assert "k: 1.0" in out and "n: 128" in out
    assert "A: int32 (5,), mean 2" in run(capsys, "run", f"{program}:made", "--size", "5")


def test_lower_until_a_pass(capsys, program):
    out = run(capsys, "lower", f"{program}:blur", "--until", "FlattenBuffer")
    func = parse(out)
    assert func.name == "blur"
    assert "T.block" not in out and re.search(r"\[i \* 14 \+ j\]", out)
    before = run(capsys, "lower", f"{program}:blur", "--until", "LowerInitBlock")
    assert "T.block" in before and "B[vi, vj] =" in before
    out = run(capsys, "lower", VECTOR_ADD, "--until", "FlattenBuffer")
    assert "def vector_add" in out and "C[i] = A[i] + B[i]" in out


def test_lower_of_a_module(capsys, program):
    out = run(capsys, "lower", f"{program}:Two")
    assert sorted(parse(out)) == ["one", "two"]


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("tir", ["@T.prim_func", "def vector_add"]),
        ("llvm", ["define ", "target triple", "fadd"]),
        ("llvm-opt", ["define ", " x float>"]),
        ("asm", [".globl", "vector_add"]),
    ],
)
def test_source(capsys, kind, parts):
    out = run(capsys, "source", VECTOR_ADD, "--kind", kind)
    for part in parts:
        assert part in out


def test_source_is_assembly_by_default_and_takes_a_target(capsys):
    assert ".globl" in run(capsys, "source", VECTOR_ADD)
    assert "zmm" not in run(capsys, "source", VECTOR_ADD, "--target", "llvm -mcpu=x86-64-v3")


def test_schedule_takes_a_trace(capsys, tmp_path):
    sch = tl.Schedule(load_function(VECTOR_ADD))
    loop = next(iter(each(For, sch.program.body))).loop_var.name
    sch.split(loop, [None, 4], names=["outer", "inner"])
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps(sch.trace.as_json(dialect="tirlower")))
    assert main(["schedule", VECTOR_ADD, "--trace", str(trace)]) == 0
    assert "outer, inner" in capsys.readouterr().out
    assert main(["schedule", VECTOR_ADD, "--trace", str(trace), "--report", "--validate", "1", "--python"]) == 0
    out = capsys.readouterr().out
    assert "bitwise equal" in out and "1 runs agree" in out and 'names=["outer", "inner"]' in out
    trace.write_text("[]")
    assert main(["schedule", VECTOR_ADD, "--trace", str(trace)]) == 1
    assert main(["schedule", VECTOR_ADD, "--trace", str(tmp_path / "none.json")]) == 1
    assert "no file" in capsys.readouterr().err


def test_passes(capsys):
    lines = run(capsys, "passes").splitlines()
    assert len(lines) >= len(catalog())
    for name in ("LowerInitBlock", "FlattenBuffer", "VectorizeLoop", "Simplify"):
        assert any(name in line for line in lines), name


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["run", "nowhere"], ["expected FILE:FUNC", "'nowhere'", "help"]),
        (["run", "no/such/file.py:f"], ["no file 'no/such/file.py'"]),
        (["run", "{program}:blurr"], ["no 'blurr'", "did you mean 'blur'?"]),
        (["run", "{program}:needs"], ["'needs'", "needs arguments"]),
        (["run", "{program}:number"], ["int", "not a prim func"]),
        (["run", "{program}:Two"], ["module of 2 functions", "help"]),
        (["lower", "{program}:blur", "--until", "FlatenBuffer"], ["'FlatenBuffer'", "did you mean 'FlattenBuffer'?"]),
        (["lower", "{program}:blur", "--target", "lvm"], ["unknown target 'lvm'", "did you mean 'llvm'?"]),
        (["source", "{program}:blur", "--kind", "ptx"], ["no source of kind 'ptx'", "target='nvptx -arch=sm_90'"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) and value[0] in ("run", "lower", "source") else "",
)
def test_errors_are_printed_without_a_traceback(capsys, program, argv, parts):
    message = refused(capsys, *[word.format(program=program) for word in argv])
    assert "Traceback" not in message and message.startswith("error")
    for part in parts:
        assert part in message


def test_an_unknown_command_shows_the_usage(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["runn"])
    assert caught.value.code == 2 and "usage: python -m tirlower" in capsys.readouterr().err


def test_load_function_makes_what_a_python_function_returns(program):
    assert load_function(f"{program}:made").name == "inner"
    with pytest.raises(TirError, match="not a prim func"):
        load_function(f"{program}:number")


def test_random_arguments_follow_the_parameters():
    func = parse(
        'def f(A: T.Buffer(("n", 3), "float16"), flag: T.Buffer((2,), "bool"), n: T.int64, x: T.float32): A[0, 0] = x'
    )
    a, flag, n, x = random_arguments(func, 7)
    assert (a.shape, a.dtype.name, flag.shape, flag.dtype.name, n, x) == ((7, 3), "float16", (2,), "bool", 7, 1.0)


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "tirlower", "lower", VECTOR_ADD, "--until", "FlattenBuffer"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "def vector_add" in done.stdout


def test_a_model_is_shown_reported_drawn_profiled_and_run(tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    from tests.graph.models import mlp

    where = tmp_path / "mlp.onnx"
    onnx.save(mlp("small", batch="N"), str(where))
    assert main(["graph", str(where)]) == 0
    assert "tg.gemm" in (shown := capsys.readouterr().out) and "@tg.graph" in shown
    assert main(["graph", str(where), "--until", "Expand"]) == 0
    expanded = capsys.readouterr().out
    assert "@tg.graph" in expanded and "tg.gemm" not in expanded and "tg.matmul" in expanded
    assert main(["graph", str(where), "--until", "Expnd"]) == 1
    assert "did you mean 'Expand'" in capsys.readouterr().err
    picture = tmp_path / "mlp.html"
    assert main(["graph", str(where), "--report", "--profile", "--run", "--size", "3", "--draw", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "at N = 3, arena" in printed and "GFLOP/s" in printed and "float32 (3, 10)" in printed
    assert re.search(r"[\d.]+ us a call", printed) and "<table>" in picture.read_text(encoding="utf-8")


def test_models_that_are_not_there_or_damaged_are_told(tmp_path, capsys):
    pytest.importorskip("onnx")
    assert main(["graph", str(tmp_path / "no.onnx")]) == 1
    assert "no file" in capsys.readouterr().err
    (tmp_path / "bad.onnx").write_bytes(b"\x08\xff\xff")
    assert main(["graph", str(tmp_path / "bad.onnx"), "--run"]) == 1
    assert "error" in capsys.readouterr().err


def test_inputs_of_a_graph_are_as_its_dims_allow():
    import tirlower.graph as tg

    n = tg.dim("N", 4, 9, multiple_of=2)
    graph = tg.trace(
        lambda x, y, z: (x + 1, y, z), tg.spec((n, 2), "float32"), tg.spec((n + 1,), "int8"), tg.spec((), "bool")
    )
    for size, rows in ((1, 4), (7, 6), (100, 8)):
        x, y, z = random_inputs(graph, size)
        assert (x.shape, y.shape, y.dtype, z.shape, z.dtype) == ((rows, 2), (rows + 1,), "int8", (), "bool")
