"""Objects per function: what a change compiles anew, and that calls between objects mean what they mean within one."""

from __future__ import annotations

import pathlib
import pickle
import random
import threading

import numpy as np
import pytest

import tirlower as tl
from tirlower.call.parameters import return_type
from tirlower.diagnostics import LoweringError, RuntimeAssertError, WellFormedError
from tirlower.driver.units import units_of
from tirlower.interp import interpret
from tirlower.ir import IRModule
from tirlower.ir.annotations import ELSEWHERE, LINKED, UNIT
from tirlower.ir.expr import Call, IntImm
from tirlower.ir.op import GlobalVar
from tirlower.legality.versions import what_calls_need
from tirlower.llvm.codegen.stack import functions_to_check
from tirlower.llvm.profile import Profile
from tirlower.poly import PureFunctions
from tirlower.script import parse


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TIRLOWER_COMPILE_PROCESSES", "1")
    return tmp_path


def module(text: str) -> IRModule:
    body = "\n".join("    " + line for line in text.strip("\n").splitlines())
    return parse(f"@I.ir_module\nclass Module:\n{body}")


def kernels(count: int, changed: int | None = None) -> IRModule:
    return module(
        "\n".join(
            f"@T.prim_func\ndef k{i}(A: T.Buffer((8,), 'int32')):\n    for i in range(8):\n"
            f"        A[i] = A[i] + {i + 100 * (i == changed)}"
            for i in range(count)
        )
    )


MIXED = """
@T.prim_func
def main(A: T.Buffer((4, 300), "int32"), B: T.Buffer((4, 300), "int32"), n: T.int32):
    for i in range(4):
        Module.add(T.address_of(A[i, 0]), n)
        B[i, 0] = Module.small(A[i, 1])
        B[i, 1] = Module.total(T.address_of(A[i, 0]))
    Module.twice(A.data, B.data)
@T.prim_func
def add(p: T.handle("int32"), n: T.int32):
    P = T.decl_buffer((300,), "int32", data=p)
    assert n != 13, "thirteen"
    for i in range(300):
        P[i] = P[i] + n
@T.prim_func(private=True)
def small(x: T.int32) -> T.int32:
    return x * 3 + 1
@T.prim_func(private=True)
def total(p: T.handle("int32")) -> T.int32:
    P = T.decl_buffer((300,), "int32", data=p)
    s = T.alloc_buffer((1,), "int32")
    s[0] = 0
    for i in range(300):
        s[0] = s[0] + P[i]
    return s[0]
@T.prim_func
def twice(p: T.handle("int32"), q: T.handle("int32")):
    P = T.decl_buffer((1200,), "int32", data=p)
    Q = T.decl_buffer((1200,), "int32", data=q)
    for i in T.parallel(1200):
        Q[i] = Q[i] + 2 * P[i]
@T.prim_func
def sums(A: T.Buffer((300,), "int32"), B: T.Buffer((2,), "int32")):
    assert A[0] != 7, "seven"
    B[0] = Module.total(A.data)
    B[1] = Module.small(A[0])
"""


def test_where_functions_go() -> None:
    mod = module(MIXED)
    units = {unit.home: unit.module for unit in units_of(mod)}
    assert set(units) == {("main",), ("add",), ("total",), ("twice",), ("sums",)} ^ {("main",), ("main", "small")}
    main = units["main", "small"]
    assert [name for name, func in main.items() if ELSEWHERE in func.attrs] == ["add", "total", "twice"]
    assert "small" in units["sums",] and ELSEWHERE not in units["sums",]["small"].attrs
    for name in ("add", "total", "twice"):
        assert LINKED in units[name,][name].attrs and LINKED in main[name].attrs
    assert LINKED not in units["sums",]["sums"].attrs and LINKED not in main["main"].attrs
    order = [unit.home[0] for unit in units_of(mod)]
    assert order.index("main") > max(order.index(name) for name in ("add", "total", "twice"))


def test_a_private_function_of_one_caller_is_alone_where_it_says_so_unless_it_is_brief() -> None:
    mod = module(MIXED)
    private = mod["total"].with_attr(UNIT, True)
    only = IRModule({"main": mod["main"], "add": mod["add"], "small": mod["small"].with_attr(UNIT, True)})
    only = IRModule({**only.functions, "total": private, "twice": mod["twice"]})
    assert ("total",) in {unit.home for unit in units_of(only)} and ("main", "small") in {
        u.home for u in units_of(only)
    }
    together = IRModule({**only.functions, "total": mod["total"]})
    assert ("main", "small", "total") in {unit.home for unit in units_of(together)}


def test_functions_in_a_circle_stay_together_and_what_nobody_calls_is_compiled() -> None:
    mod = module("""
@T.prim_func
def even(n: T.int32) -> T.int32:
    if n == 0:
        return 1
    return Module.odd(n - 1)
@T.prim_func
def odd(n: T.int32) -> T.int32:
    if n == 0:
        return 0
    return Module.even(n - 1)
@T.prim_func(private=True)
def forgotten(n: T.int32) -> T.int32:
    return n
""")
    assert {unit.home for unit in units_of(mod)} == {("even", "odd"), ("forgotten",)}
    built = tl.build(mod)
    assert [built.even(n) for n in range(5)] == [1, 0, 1, 0, 1] and list(built) == ["even", "odd"]
    with pytest.raises(RecursionError):
        built.even(-1)


def test_a_declaration_says_what_callers_may_depend_on() -> None:
    mod = module(
        MIXED
        + """
@T.prim_func
def users(A: T.Buffer((300,), "int32"), B: T.Buffer((300,), "int32")):
    Module.reads(A.data, B.data)
    B[0] = B[0] + T.Cast("int32", Module.pure(3))
    B[1] = Module.typed(A.data)
@T.prim_func
def reads(A: T.Buffer((300,), "int32"), B: T.Buffer((300,), "int32")):
    for i in range(300):
        B[i] = A[i]
@T.prim_func
def pure(n: T.int32) -> T.float32:
    s = T.alloc_buffer((1,), "float32")
    s[0] = T.float32(0)
    for i in range(300):
        s[0] = s[0] + T.Cast("float32", n)
    return s[0]
@T.prim_func
def typed(p: T.handle("int32")) -> T.int32:
    P = T.decl_buffer((300,), "int32", data=p)
    for i in range(300):
        if P[i] == 0:
            return i
    return -1
"""
    )
    writes, _ = what_calls_need(mod)
    pure = PureFunctions(mod)
    seen = set()
    for unit in units_of(mod):
        tl.ir.verify_well_formed(unit.module)
        said, _ = what_calls_need(unit.module)
        for name, func in unit.module.items():
            if ELSEWHERE in func.attrs:
                seen.add(name)
                assert said[name] == writes[name]
                assert return_type(func) == return_type(mod[name])
                assert PureFunctions(unit.module).has(GlobalVar(name)) == pure.has(GlobalVar(name))
                assert func.params == mod[name].params and func.buffer_map == mod[name].buffer_map
            if name == "pure" and ELSEWHERE in func.attrs:
                calls = [Call(GlobalVar(name), (IntImm("int32", n),), "float32") for n in (1, 2)]
                values = [PureFunctions(unit.module).returned(call) for call in calls]
                assert not tl.ir.structural_equal(*values)  # other arguments may give another value
    assert seen == {"add", "total", "twice", "reads", "pure", "typed"}
    a, b = np.arange(300, dtype="int32"), np.zeros(300, "int32")
    tl.build(mod).users(a, b)
    assert b[0] == 900 and b[1] == 0 and np.array_equal(b[2:], a[2:])


def test_calls_between_objects_compute_what_the_interpreter_does() -> None:
    mod = module(MIXED)
    for built in (tl.build(mod), tl.build(mod), pickle.loads(pickle.dumps(tl.build(mod)))):
        a, b = np.arange(1200, dtype="int32").reshape(4, 300), np.ones((4, 300), "int32")
        wanted = a.copy(), b.copy(), 5
        interpret(mod, *wanted, name="main")
        built.main(a, b, 5)
        assert np.array_equal(a, wanted[0]) and np.array_equal(b, wanted[1])
        assert list(built) == ["main", "add", "twice", "sums"]


def test_an_error_of_another_object_has_its_own_words() -> None:
    mod = module(MIXED)
    for _ in range(2):  # compiled, and from the disk cache
        built = tl.build(mod)
        a, b = np.full((4, 300), 7, "int32"), np.ones((4, 300), "int32")
        with pytest.raises(RuntimeAssertError, match="thirteen"):
            built.main(a, b, 13)
        with pytest.raises(RuntimeAssertError, match="seven"):
            built.sums(a[0], b[0, :2].copy())


def test_an_error_of_another_object_inside_a_parallel_loop() -> None:
    mod = module("""
@T.prim_func
def main(A: T.Buffer((64, 300), "int32")):
    for i in T.parallel(64, annotations={"tir.unchecked": "rows"}):
        Module.fill(T.address_of(A[i, 0]), i)
@T.prim_func
def first(A: T.Buffer((300,), "int32")):
    assert A[0] == 0, "not zero"
    Module.fill(A.data, 1)
@T.prim_func
def fill(p: T.handle("int32"), n: T.int32):
    P = T.decl_buffer((300,), "int32", data=p)
    assert n != 40, "forty"
    for i in T.parallel(300):
        P[i] = n
""")
    built = tl.build(mod)
    with pytest.raises(RuntimeAssertError, match="forty"):
        built.main(np.zeros((64, 300), "int32"))
    a = np.zeros(300, "int32")
    built.first(a)
    assert (a == 1).all()
    with pytest.raises(RuntimeAssertError, match="not zero"):
        built.first(a)


def test_calls_that_nest_deep_through_objects() -> None:
    lines = ['@T.prim_func\ndef run(A: T.Buffer((300,), "int32")):\n    Module.f0(A.data)']
    for i in range(40):
        rest = f"    Module.f{i + 1}(p)" if i < 39 else ""
        lines.append(
            f'@T.prim_func\ndef f{i}(p: T.handle("int32")):\n    P = T.decl_buffer((300,), "int32", data=p)\n'
            f"    for i in range(300):\n        P[i] = P[i] + {i}\n{rest}"
        )
    mod = module("\n".join(lines))
    units = units_of(mod)
    assert len(units) == 41
    depths = [
        func.attrs[ELSEWHERE] for unit in units for func in unit.module.functions.values() if ELSEWHERE in func.attrs
    ]
    assert sorted(depths)[:3] == [1, 2, 3] and max(depths) == 17  # beyond 16 it does not matter
    deep, _ = functions_to_check(mod.functions)
    assert deep == {name for unit in units for name in functions_to_check(unit.module.functions)[0]} and len(deep) == 25
    a = np.zeros(300, "int32")
    tl.build(mod).run(a)
    assert (a == sum(range(40))).all()


def test_arrays_that_overlap_get_the_version_for_any_arrays() -> None:
    mod = module("""
@T.prim_func
def shift(p: T.handle("int32"), q: T.handle("int32")):
    P = T.decl_buffer((300,), "int32", data=p)
    Q = T.decl_buffer((300,), "int32", data=q)
    for i in range(300):
        Q[i] = P[i] + 1
@T.prim_func
def main(A: T.Buffer((301,), "int32")):
    Module.shift(T.address_of(A[0]), T.address_of(A[1]))
""")
    units = units_of(mod)
    assert {unit.home: list(unit.module) for unit in units} == {("shift",): ["shift"], ("main",): ["shift", "main"]}
    assert all(ELSEWHERE not in func.attrs for unit in units for func in unit.module.functions.values())
    a = np.zeros(301, "int32")
    tl.build(mod).main(a)
    assert np.array_equal(a, np.arange(301))


def test_one_changed_kernel_of_fifty_compiles_one(cache_dir: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tirlower.driver import cpu_units

    compiled: list[str] = []
    before = cpu_units.compile_version

    def counting(result, ctx):
        compiled.extend(result.home or result.spec.module)
        return before(result, ctx)

    monkeypatch.setattr(cpu_units, "compile_version", counting)
    names = [f"k{i}" for i in range(50)]
    first = tl.build(kernels(50))
    assert compiled == names and first.report().compiled == tuple(names) and not first.report().cached
    compiled.clear()
    again = tl.build(kernels(50))
    assert compiled == [] and again.report().cached and again.report().compiled == ()
    other = tl.build(kernels(50, changed=7))
    assert compiled == ["k7"] and other.report().compiled == ("k7",) and not other.report().cached
    assert "1 of 50 parts" in other.k3.explain_miss() and "nearest entry differs in program" in other.k3.explain_miss()
    assert "of 1 functions from this build" in str(other.report())
    a = np.zeros(8, "int32")
    other.k7(a), other.k8(a)
    assert (a == 115).all()
    # Built alone it is the same object.
    compiled.clear()
    assert tl.build(kernels(50)["k9"]).report().cached and not compiled
    # A damaged entry, and one that is gone.
    entries = sorted(cache_dir.rglob("*.tlo"), key=lambda path: path.stat().st_size)
    for damage in ("damaged", "gone"):
        path = next(path for path in entries if b"k20.kernel" in path.read_bytes() and path.stat().st_size > 2000)
        if damage == "damaged":
            path.write_bytes(path.read_bytes()[:-9] + b"different")
        else:
            path.unlink()
        compiled.clear()
        mended = tl.build(kernels(50))
        assert compiled == ["k20"]
        a[:] = 0
        mended.k20(a)
        assert (a == 20).all()


def test_what_a_changed_callee_compiles_anew() -> None:
    tl.build(module(MIXED))
    assert tl.build(module(MIXED.replace("P[i] + n", "P[i] - n"))).report().compiled == ("add",)
    assert set(tl.build(module(MIXED.replace("x * 3 + 1", "x * 4 + 1"))).report().compiled) == {"main", "small", "sums"}
    reads_only = MIXED.replace("Q[i] = Q[i] + 2 * P[i]", "T.evaluate(Q[i] + 2 * P[i])")
    assert set(tl.build(module(reads_only)).report().compiled) == {"main", "small", "twice"}  # main may assume more


def test_the_same_functions_at_other_lines_name_their_own() -> None:
    text = MIXED.replace("def main", "def start")
    for name in ("first.py", "second.py"):
        body = "\n".join("    " + line for line in text.strip("\n").splitlines())
        built = tl.build(parse(f"@I.ir_module\nclass Module:\n{body}", name=name))
        with pytest.raises(RuntimeAssertError, match=name):
            built.start(np.zeros((4, 300), "int32"), np.zeros((4, 300), "int32"), 13)
        assert all(name in note.place for note in built.report().guarded)


def test_sources_and_the_report_are_of_the_whole_module() -> None:
    mod = module(MIXED)
    for built in (tl.build(mod), tl.build(mod)):
        for kind, word in (("tir", "def {}("), ("llvm", "@{}"), ("asm", "{}"), ("llvm-opt", "@{}")):
            text = built.source(kind)
            assert all(word.format(name) in text for name in ("main", "add", "total", "twice", "sums")), kind
        report = built.report()
        assert list(report.proved) == ["main", "small", "add", "total", "twice", "sums"]
        assert report.functions == tuple(mod) and report.code_bytes > 4000 and report.inner_loops
    with tl.PassContext(trace=True):
        watched = tl.build(mod)
    assert watched.report().compiled == tuple(mod) and list(watched.report().proved) == list(mod)
    assert list(watched.ir_after["FlattenBuffer"]) == list(mod)


def test_profiles_number_the_marks_of_the_whole_module() -> None:
    with tl.PassContext(config={"tir.enable_profiling": True}):
        built = tl.build(kernels(3))
    with Profile(built._artifact.lowered) as profile:
        for kernel in (built.k0, built.k1, built.k2):
            kernel(np.zeros(8, "int32"))
    assert [name for name in ("k0", "k1", "k2") if name not in str(profile)] == []


def test_what_holds_between_functions_is_still_verified() -> None:
    func = kernels(1)["k0"]
    with pytest.raises(WellFormedError, match="defined twice"):
        tl.build(IRModule({"f": func.with_attr("global_symbol", "f"), "g": func.with_attr("global_symbol", "g")}))
    two = kernels(2)
    with pytest.raises(WellFormedError, match="export one name, 'k1'"):
        tl.build(IRModule({"k0": two["k0"].with_attr("global_symbol", "k1"), "k1": two["k1"]}))
    with pytest.raises(LoweringError, match="two functions of the module export 'k1', and a build has one target"):
        tl.build(IRModule({"k0": two["k0"].with_attrs({"global_symbol": "k1", "target": "cuda"}), "k1": two["k1"]}))
    with pytest.raises(LoweringError, match="exports no function"):
        tl.build(IRModule({}))


def test_the_first_function_at_fault_is_the_error_and_what_was_compiled_stays() -> None:
    bad = "@T.prim_func\ndef {0}(A: T.Buffer((8,), 'int32')):\n    A[0] = T.call_extern('int32', 'no_such_{0}')\n"
    mod = IRModule({**kernels(4).functions, **module(bad.format("x") + bad.format("y")).functions})
    with pytest.raises(tl.TirError, match="no_such_x"):
        tl.build(mod)
    good = IRModule({name: func for name, func in mod.items() if name not in "xy"})
    assert tl.build(good).report().compiled == ()


def test_two_threads_build_the_same_module() -> None:
    mod, results = module(MIXED), []

    def build() -> None:
        a, b = np.arange(1200, dtype="int32").reshape(4, 300), np.ones((4, 300), "int32")
        tl.build(mod).main(a, b, 5)
        results.append((a, b))

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2 and np.array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("seed", range(6))
def test_random_modules(seed: int) -> None:
    """Functions of random sizes and visibility that call later ones on rows of their array, against the interpreter."""
    rng = random.Random(seed)
    count, lines = rng.randint(3, 7), []
    for i in range(count):
        size = rng.choice((4, 4, 300))
        private = i > 0 and rng.random() < 0.5
        lines += [f"@T.prim_func({'private=True' if private else ''})", f'def f{i}(p: T.handle("int32"), n: T.int32):']
        lines += ['    P = T.decl_buffer((300,), "int32", data=p)', f'    assert n != {rng.randint(0, 9)}, "f{i}"']
        lines += [f"    for i in range({size}):", f"        P[i] = P[i] * {rng.randint(2, 5)} + n"]
        for callee in rng.sample(range(i + 1, count), rng.randint(0, min(2, count - 1 - i))):
            lines += [f"    Module.f{callee}(T.address_of(P[0]), n + {rng.randint(0, 2)})"]
    lines += ["@T.prim_func", 'def run(A: T.Buffer((300,), "int32"), n: T.int32):', "    Module.f0(A.data, n)"]
    mod = module("\n".join(lines))
    for built in (tl.build(mod), tl.build(mod)):
        for n in range(10):
            a, wanted, failed = np.arange(300, dtype="int32"), np.arange(300, dtype="int32"), None
            try:
                interpret(mod, wanted, n, name="run")
            except RuntimeAssertError as error:
                failed = error.message
            if failed is None:
                built.run(a, n)
            else:
                with pytest.raises(RuntimeAssertError) as caught:
                    built.run(a, n)
                assert caught.value.message.split(" ")[0] == failed.split(" ")[0]
            assert np.array_equal(a, wanted)
