"""Saved graphs: what is loaded computes the same bits, in other processes too; what is no saved graph is one error."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tests.graph.fuzz.generate import generate
from tests.graph.run.comparing import as_list
from tests.sampling import by_day
from tirlower.diagnostics import ArgumentValueError
from tirlower.graph.backends import registry
from tirlower.graph.core.nodes import Graph
from tirlower.graph.errors import GraphError
from tirlower.graph.lower.main import PART
from tirlower.graph.passes.compare import bindings, random_inputs
from tirlower.ir import Call, Evaluate, Expr, IntImm, IRModule, Seq, structural_equal
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64
from tirlower.ir.functor import Mutator
from tirlower.ir.json_io import load_json, save_json
from tirlower.ir.query import each
from tirlower.ir.stmt import seq
from tirlower.llvm.codegen.symbols import register_symbol, unregister_symbol


def assert_same(mine: Any, theirs: Any) -> None:
    assert type(mine) is type(theirs)
    if isinstance(mine, dict):
        assert list(mine) == list(theirs)
    for a, b in zip(as_list(mine), as_list(theirs), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def saved(graph: Graph, folder: Path, **options: Any) -> tuple[Any, Any]:
    """A compiled graph, and what comes back of it."""
    exe = tg.compile(graph, **options)
    exe.save(folder / "g.tg")
    return exe, tg.load(folder / "g.tg")


def layer() -> Graph:
    w = np.random.default_rng(1).standard_normal((3, 5)).astype("float32")
    return tg.trace(lambda x: tg.nn.softmax(np.maximum(x @ w + w[0], 0)), tg.spec((tg.dim("B", 1, 256), 3), "float32"))


def loop() -> Graph:
    def halved(x: Any) -> Any:
        n, y = tg.while_loop(lambda n, v: (v > 1).any(), lambda n, v: (n + 1, v / 2), 0, x)
        return tg.cond(x.sum() > 10, lambda: y + 100, lambda: y), n

    return tg.trace(halved, tg.spec((tg.dim("B", 1, 256), 2), "float32"))


KINDS = ["float16", ml_dtypes.bfloat16, "float32", "float64", "bool", "int8", "int64", "uint8", "uint16", "int32"]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4), (1,), (127,)], ids=str)
def test_constants_of_all_dtypes(kind: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    c = np.asarray(np.random.default_rng(2).integers(0, 2, shape)).astype(kind)
    exe, back = saved(tg.trace(lambda x: tg.where(x, c, tg.identity(c)), tg.spec(shape, "bool")), tmp_path)
    x = np.ones(shape, "bool")
    assert_same(back(x), exe(x))
    np.testing.assert_array_equal(back(x), c)


def test_numbers_of_floats_keep_their_bits(tmp_path: Path) -> None:
    odd = np.array([0x7FC12345, 0xFFC00001, 0x80000000, 1], "uint32").view("float32")
    graph = tg.trace(lambda x: [tg.identity(odd), x * -0.0, x + np.float32("inf"), x * 1e-45], tg.spec((4,), "float32"))
    exe, back = saved(graph, tmp_path)
    assert_same(back(odd), exe(odd))
    assert as_list(back(odd))[0].tobytes() == odd.tobytes()


@pytest.mark.parametrize(
    "options", [tg.Options(), tg.Options(optimize=False), tg.Options(numerics="exact", num_threads=1)]
)
def test_what_is_loaded_is_what_was_saved(options: tg.Options, tmp_path: Path) -> None:
    exe, back = saved(layer(), tmp_path, options=options)
    assert back.options == options and back.target == exe.target and structural_equal(back.graph, exe.graph)
    assert structural_equal(back.module, exe.module) and str(back.report(B=7)) == str(exe.report(B=7))
    assert back.plan == exe.plan and {k: str(v) for k, v in back.graph_after.items()} == {
        k: str(v) for k, v in exe.graph_after.items()
    }
    for rows in (1, 3, 256):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype("float32")
        assert_same(back(x), exe(x))
    with pytest.raises(ArgumentValueError, match="dim B = 300"):
        back(np.ones((300, 3), "float32"))
    back.save(tmp_path / "again.tg")
    again = tg.load(tmp_path / "again.tg")
    assert_same(again(x), exe(x))


def test_choices_loops_and_their_plan(tmp_path: Path) -> None:
    exe, back = saved(loop(), tmp_path)
    for rows in (1, 4):
        x = np.full((rows, 2), 7, "float32")
        assert_same(back(x), exe(x))
    assert back.plan == exe.plan
    back.plan.verify()
    assert back.report().tables() == exe.report().tables()


def test_states_begin_with_what_they_held_at_first(tmp_path: Path) -> None:
    total = tg.state("total", (2,), "float32", np.array([1, 2], "float32"))

    def add_up(x: Any) -> Any:
        total.store(total.load() + x.sum(axis=0))
        return {"now": total.load()}

    exe = tg.compile(tg.trace(add_up, tg.spec((tg.dim("B", 1, 9), 2), "float32")))
    x = np.ones((3, 2), "float32")
    exe(x)
    exe.save(tmp_path / "g.tg")
    back = tg.load(tmp_path / "g.tg")
    assert [back(x)["now"].tolist(), back(x)["now"].tolist()] == [[4, 5], [7, 8]]
    back.reset()
    assert back.state["total"].tolist() == [1, 2]


def test_calls_of_a_library(tmp_path: Path) -> None:
    pytest.importorskip("scipy_openblas32")
    exe, back = saved(layer(), tmp_path, backends=["openblas"])
    assert "scipy_cblas_sgemm" in back.module.script()
    x = np.random.default_rng(5).standard_normal((4, 3)).astype("float32")
    assert_same(back(x), exe(x))


def test_what_calls_python_back_is_not_saved(tmp_path: Path) -> None:
    exe = tg.compile(layer(), backends=["numpy"])
    with pytest.raises(GraphError, match="backend 'numpy' calls Python back"):
        exe.save(tmp_path / "g.tg")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", by_day(range(12)))
def test_random_graphs(seed: int, tmp_path: Path) -> None:
    graph = generate(seed, 25)
    exe, back = saved(graph, tmp_path)
    for sizes in bindings(graph):
        inputs = random_inputs(graph, sizes, seed)
        try:
            with np.errstate(all="ignore"):
                wanted = exe(*inputs)
        except ArgumentValueError as error:  # extents that the operations need equal
            with pytest.raises(ArgumentValueError) as caught:
                back(*inputs)
            assert str(caught.value) == str(error)
        else:
            assert_same(back(*inputs), wanted)


CHILD = """
import sys, numpy as np, tirlower.graph as tg
from tests.graph.run.test_saving import layer, loop
folder, what = sys.argv[1:]
for name, make in (("layer", layer), ("loop", loop)):
    if what == "write":
        tg.compile(make()).save(f"{folder}/{name}.tg")
    exe = tg.load(f"{folder}/{name}.tg")
    x = np.random.default_rng(0).standard_normal((4, exe.graph.params[0].shape[1])).astype("float32") * 3
    made = exe(x)
    sys.stdout.write("".join(a.tobytes().hex() for a in (made if isinstance(made, tuple) else (made,))))
"""


def test_two_processes_write_the_same_bytes_and_a_third_computes_the_same(tmp_path: Path) -> None:
    told, files = [], []
    for seed, what in (("1", "write"), ("2", "write"), ("3", "read")):
        run = subprocess.run(
            [sys.executable, "-c", CHILD, str(tmp_path), what],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[3],
            check=False,
        )
        assert run.returncode == 0, run.stderr
        told.append(run.stdout)
        files.append([(tmp_path / f"{n}.tg").read_bytes() for n in ("layer", "loop")])
    assert told[0] == told[1] == told[2] and len(told[0]) > 100
    assert files[0] == files[1] == files[2]


def test_constants_stay_in_the_file_and_are_stored_once(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((300, 300)).astype("float32")
    exe, back = saved(tg.trace(lambda x: (x @ w) @ w + x @ w.copy(), tg.spec((2, 300), "float32")), tmp_path)
    assert w.nbytes < (tmp_path / "g.tg").stat().st_size < w.nbytes + 60_000
    for one in back._lowered.constants:
        array = one.numpy()
        assert array.ctypes.data % 64 == 0 and not array.flags.writeable
        while getattr(array, "base", None) is not None and not isinstance(array, np.memmap):
            array = array.base
        assert isinstance(array, np.memmap)
    x = np.ones((2, 300), "float32")
    os.unlink(tmp_path / "g.tg")  # what is mapped outlives its name
    assert_same(back(x), exe(x))


# What is no saved graph


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("saved")
    tg.compile(layer()).save(folder / "g.tg")
    return (folder / "g.tg").read_bytes()


def members(whole: bytes, folder: Path) -> dict[str, bytes]:
    path = folder / "whole.zip"
    path.write_bytes(whole)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: dict[str, bytes], folder: Path) -> Path:
    """A file of these members, at places where they are not aligned."""
    path = folder / "other.tg"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def refused(path: Path, *words: str) -> str:
    with pytest.raises(GraphError) as caught:
        tg.load(path)
    text = str(caught.value)
    assert path.name in text and "help:" in text
    for word in words:
        assert word in text, text
    return text


def test_what_another_program_has_packed_again_is_loaded(whole: bytes, tmp_path: Path) -> None:
    parts = members(whole, tmp_path)
    x = np.ones((2, 3), "float32")
    (tmp_path / "g.tg").write_bytes(whole)
    assert_same(tg.load(packed(dict(reversed(parts.items())), tmp_path))(x), tg.load(tmp_path / "g.tg")(x))


@pytest.mark.parametrize(
    ("member", "change", "words"),
    [
        ("graph.py", lambda d: b"import os", ["graph.py"]),
        ("graph.py", lambda d: d.replace(b"tg.matmul", b"tg.matmull"), ["graph.py", "matmull"]),
        ("graph.py", lambda d: b"\xff\xfe", ["graph.py"]),
        ("graph.py", lambda d: b"(" * 100_000, ["graph.py"]),
        ("compiled.py", lambda d: b"", ["compiled.py"]),
        ("compiled.py", lambda d: d.replace(b'("B", 3)', b'("B", 4)'), ["compiled.py"]),
        ("kernels.json", lambda d: b"{}", ["kernels.json"]),
        ("kernels.json", lambda d: b"[" * 100_000, ["kernels.json"]),
        ("kernels.json", lambda d: d.replace(b'"IRModule"', b'"IRModul"'), ["kernels.json", "IRModul"]),
        ("kernels.json", lambda d: d.replace(b'"t":"float32"', b'"t":"float64"', 1), ["kernels.json"]),
        ("origins.json", lambda d: d[: len(d) // 2], ["origins.json"]),
        ("origins.json", lambda d: b"[[]]", ["origins.json"]),
        ("how.json", lambda d: d.replace(b'"tirlower.graph": 2', b'"tirlower.graph": 1'), ["another version"]),
        ("how.json", lambda d: d.replace(b'"llvm"', b'"mips"'), ["mips"]),
        ("how.json", lambda d: d.replace(b'"options": {}', b'"options": {"numerics": "bold"}'), ["how.json", "bold"]),
        ("how.json", lambda d: d.replace(b'"options": {}', b'"options": {"speed": 1}'), ["how.json", "speed"]),
        ("how.json", lambda d: d.replace(b'"options": {}', b'"options": {"backends": ["os"]}'), ["backend 'os'"]),
        ("how.json", lambda d: d.replace(b'"float32"', b'"float64"', 1), ["constants.txt", "cut off"]),
        ("how.json", lambda d: d.replace(b'"float32"', b'"object"', 1), ["constants.txt"]),
        ("constants.bin", lambda d: bytes(len(d)), ["constants.txt", "others"]),
        ("constants.bin", lambda d: d[:-1], ["constants.txt", "not in constants.bin"]),
        ("constants.txt", lambda d: d.replace(b" ", b" -", 1), ["constants.txt"]),
        ("constants.txt", lambda d: b"", ["constants.txt", "not the constants"]),
    ],
)
def test_damaged_members(member: str, change: Any, words: list[str], whole: bytes, tmp_path: Path) -> None:
    parts = members(whole, tmp_path)
    changed = change(parts[member])
    assert changed != parts[member]
    refused(packed({**parts, member: changed}, tmp_path), *words)


def changed_numbers(text: str) -> list[str]:
    """Texts in each of which one integer of a call in the driver is another."""
    module = cast(IRModule, load_json(text))
    made = []
    for name in [name for name, func in module.items() if name == "main" or PART in func.attrs]:
        func = module[name]
        numbers = [n for call in each(Call, func.body) for n in each(IntImm, call) if n.dtype is INT64]
        for number in numbers:
            for value in (0, number.value + 64, 1 << 40):
                if value != number.value:
                    body = Replacing(number, value).visit(func.body)
                    made.append(save_json(IRModule({**module.functions, name: func.with_(body=body)})))
    return made


class Replacing(Mutator):
    """Another number in the place of one, which is meant itself."""

    def __init__(self, old: IntImm, value: int) -> None:
        super().__init__()
        self.old, self.value = old, value

    def visit_IntImm(self, op: IntImm) -> Expr:
        return const(self.value, INT64) if op is self.old else op


@pytest.mark.parametrize("rows", [4, tg.dim("B", 1, 9)], ids=["static", "dynamic"])
def test_a_changed_offset_of_the_driver_is_refused(rows: Any, tmp_path: Path) -> None:
    """Numbers of all calls: where an operand lies is what the graph says, or the file is not loaded."""
    graph = tg.trace(lambda x: (np.exp(x) @ x.T).sum(axis=0) + np.exp(-x).sum(), tg.spec((rows, 40), "float32"))
    tg.compile(graph, options=tg.Options(optimize=False)).save(tmp_path / "good.tg")
    parts = members((tmp_path / "good.tg").read_bytes(), tmp_path)
    texts = changed_numbers(parts["kernels.json"].decode())
    assert len(texts) > 10
    for text in texts[:: max(1, len(texts) // 12)]:
        refused(packed({**parts, "kernels.json": text.encode()}, tmp_path), "kernels.json", "'main' is not what")


def test_kernels_that_are_called_otherwise_are_refused(whole: bytes, tmp_path: Path) -> None:
    """Operands that are swapped, a call that is left out, a kernel that does something else, one more function."""
    parts = members(whole, tmp_path)
    module = cast(IRModule, load_json(parts["kernels.json"].decode()))
    main = module["main"]
    calls = cast(Seq, main.body).stmts
    first = cast(Evaluate, calls[0])
    swapped = first.with_(value=first.value.with_(args=tuple(reversed(cast(Call, first.value).args))))
    kernel = next(name for name in module if name != "main")
    others = [
        {"main": main.with_(body=seq([swapped, *calls[1:]]))},
        {"main": main.with_(body=seq(calls[1:]))},
        {"main": main.with_(body=seq([*calls[1:], calls[0]]))},
        {kernel: module[kernel].with_(body=seq([module[kernel].body, module[kernel].body]))},
        {kernel: module[kernel].with_attr("tir.noalias", False)},
        {"more": module[kernel]},
    ]
    for other in others:
        text = save_json(IRModule({**module.functions, **other}))
        refused(packed({**parts, "kernels.json": text.encode()}, tmp_path), "kernels.json", "is not what the graph")


def test_of_a_file_of_another_version_the_graph_alone_is_taken(whole: bytes, tmp_path: Path) -> None:
    """Another version may have lowered it otherwise; what it says of memory is not asked then."""
    parts = members(whole, tmp_path)
    how = parts["how.json"].replace(f'"{tl.__version__}"'.encode(), b'"0.0.9"')
    text = changed_numbers(parts["kernels.json"].decode())[0]
    (tmp_path / "good.tg").write_bytes(whole)
    x = np.ones((2, 3), "float32")
    loaded = tg.load(packed({**parts, "how.json": how, "kernels.json": text.encode()}, tmp_path))
    assert_same(loaded(x), tg.load(tmp_path / "good.tg")(x))
    assert structural_equal(loaded.module, tg.load(tmp_path / "good.tg").module)


def test_a_file_that_calls_what_nothing_made_known_is_refused(whole: bytes, tmp_path: Path) -> None:
    parts = members(whole, tmp_path)
    graph = tg.trace(
        lambda x: tg.call(tg.extern("tirlower_test_twice"), x, out=tg.spec((4,), "float32")), tg.spec((4,), "float32")
    )
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: None)
    register_symbol("tirlower_test_twice", function)
    tg.compile(graph).save(tmp_path / "calls.tg")
    tg.load(tmp_path / "calls.tg")
    unregister_symbol("tirlower_test_twice")
    text = refused(tmp_path / "calls.tg", "kernels.json", "tirlower_test_twice", "register_symbol")
    assert "found" not in text
    # Also what every process has.
    parts = members((tmp_path / "calls.tg").read_bytes(), tmp_path)
    other = {name: data.replace(b"tirlower_test_twice", b"system") for name, data in parts.items()}
    refused(packed(other, tmp_path), "'system'")


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_is_an_error_or_the_same_graph(seed: int, whole: bytes, tmp_path: Path) -> None:
    rng = random.Random(seed)
    data = bytearray(whole)
    kind = seed % 4
    if kind == 0:
        del data[rng.randrange(len(data)) :]
    elif kind == 1:
        start = rng.randrange(len(data))
        del data[start : start + rng.randint(1, 5000)]
    else:
        for _ in range(rng.randint(1, 4)):  # in the table of members, or anywhere
            at = rng.randrange(len(data) - 600, len(data)) if kind == 2 else rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
    path = tmp_path / "g.tg"
    path.write_bytes(data)
    x = np.ones((2, 3), "float32")
    (tmp_path / "good.tg").write_bytes(whole)
    try:
        back = tg.load(path)
    except GraphError as error:
        assert "g.tg" in str(error)
        return
    assert_same(back(x), tg.load(tmp_path / "good.tg")(x))


def test_constants_whose_digests_begin_alike_are_told_apart(tmp_path: Path) -> None:
    """The text of a graph shows eight digits; a file has them all."""
    exe, _ = saved(layer(), tmp_path)
    with zipfile.ZipFile(tmp_path / "g.tg") as archive:
        compiled = archive.read("compiled.py").decode()
    digests = {one.digest for one in exe._lowered.constants}
    assert digests and all(digest in compiled for digest in digests)


def test_a_backend_that_is_not_installed_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy_openblas32")
    tg.compile(layer(), backends=["openblas"]).save(tmp_path / "g.tg")
    monkeypatch.setitem(sys.modules, "scipy_openblas32", None)
    monkeypatch.delitem(registry._BACKENDS, "openblas", raising=False)
    assert "pip install" in refused(tmp_path / "g.tg", "scipy-openblas32")
