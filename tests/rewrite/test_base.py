from __future__ import annotations

import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.ir import IRModule
from tirlower.script import ir as I
from tirlower.script import tir as T
from tirlower.transforms import (
    Apply,
    Filter,
    FuncPass,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PrimFuncPass,
    Sequential,
    Simplify,
    UnrollLoop,
    find_pass,
    module_pass,
    prim_func_pass,
)


@T.prim_func
def loop(A: T.Buffer((8,), "int32")):
    for i in T.unroll(2):
        A[i * 4] = i + 0


@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32")):
        for i in T.unroll(2):
            A[i] = i

    @T.prim_func(private=True)
    def helper(A: T.Buffer((8,), "int32")):
        A[0] = 1


def test_a_pass_takes_and_returns_a_function_or_a_module() -> None:
    assert UnrollLoop()(loop).name == "loop"
    after = UnrollLoop()(Module)
    assert isinstance(after, IRModule) and list(after) == ["main", "helper"]
    assert after["helper"] is Module["helper"] and after["main"] is not Module["main"]
    assert UnrollLoop()(after) is after
    with pytest.raises(TransformError, match="takes an IRModule or a PrimFunc, got int"):
        UnrollLoop()(3)  # type: ignore[type-var]


def test_options_of_the_constructor_win_over_the_context() -> None:
    @T.prim_func
    def serial(A: T.Buffer((8,), "int32")):
        for i in range(4):
            A[i] = i

    with PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}}):
        assert UnrollLoop()(serial) is not serial
        assert UnrollLoop(auto_max_step=2)(serial) is serial
    assert UnrollLoop()(serial) is serial
    assert repr(UnrollLoop(auto_max_step=2)) == "UnrollLoop(auto_max_step=2)"


def test_wrong_options_are_named() -> None:
    with pytest.raises(TransformError, match="UnrollLoop has no option 'auto_max_steps'") as error:
        UnrollLoop(auto_max_steps=2)
    assert "did you mean 'auto_max_step'?" in str(error.value)
    for config, message in (
        ({"explicit": True}, "tir.UnrollLoop has no option 'explicit'"),
        (3, "a mapping of options"),
    ):
        with pytest.raises(TransformError, match=message):
            PassContext(config={"tir.UnrollLoop": config})
    with pytest.raises(TransformError, match="at most 0 positional options, got 1"):
        Simplify(True)


def test_prim_func_pass_of_a_function() -> None:
    @prim_func_pass(opt_level=1, name="my.pass", required=["Simplify"], traceable=True)
    def add_attr(func, mod, ctx):
        assert isinstance(mod, IRModule) and isinstance(ctx, PassContext)
        return func.with_attr("seen", True)

    assert isinstance(add_attr, PrimFuncPass)
    assert add_attr.info == PassInfo("my.pass", 1, ("Simplify",), True)
    assert add_attr(loop).attrs["seen"] is True
    assert all(f.attrs["seen"] for f in add_attr(Module).functions.values())
    direct = prim_func_pass(lambda func, mod, ctx: func, opt_level=2, name="same")
    assert direct(Module) is Module and direct.info.opt_level == 2
    wrong = prim_func_pass(lambda func, mod, ctx: 3, name="wrong")
    with pytest.raises(TransformError, match="returned int for 'main', not a PrimFunc"):
        wrong(Module)
    dropping = prim_func_pass(lambda func, mod, ctx: None, name="dropping")
    assert len(dropping(Module)) == 0
    with pytest.raises(TransformError, match="turned one function into 0"):
        dropping(loop)


def test_passes_of_classes() -> None:
    @prim_func_pass(opt_level=0)
    class Mark:
        """Marks functions."""

        def __init__(self, value, key="mark") -> None:
            self.value, self.key = value, key

        def transform_function(self, func, mod, ctx):
            return func.with_attr(self.key, self.value)

    assert Mark(4, key="k")(loop).attrs["k"] == 4
    assert Mark(4).value == 4 and Mark(4).info.name == "Mark" and Mark.__doc__ == "Marks functions."

    @module_pass(opt_level=0)
    class Rename:
        def __init__(self, suffix) -> None:
            self.suffix = suffix

        def transform_module(self, mod, ctx):
            return IRModule({name + self.suffix: func for name, func in mod.items()})

    assert list(Rename("_x")(Module)) == ["main_x", "helper_x"]
    with pytest.raises(TransformError, match="defines transform_function"):
        prim_func_pass(type("Empty", (), {}))
    with pytest.raises(TransformError, match="made of a function or a class"):
        prim_func_pass(3)


def test_module_pass_of_a_function() -> None:
    @module_pass(opt_level=0, name="drop")
    def drop(mod, ctx):
        return IRModule({"main": mod["main"]}, mod.attrs)

    assert list(drop(Module)) == ["main"]
    with pytest.raises(TransformError, match="returned NoneType, not an IRModule"):
        module_pass(lambda mod, ctx: None, name="none")(Module)


def test_sequential_runs_passes_by_level_and_choice() -> None:
    ran: list[str] = []

    def named(name: str, level: int, required: list[str] | None = None):
        @prim_func_pass(opt_level=level, name=name, required=required)
        def one(func, mod, ctx):
            ran.append(name)
            return func

        return one

    passes = Sequential([named("a", 0), named("b", 2), named("c", 3)])

    def run(**context) -> list[str]:
        ran.clear()
        with PassContext(**context):
            passes(loop)
        return list(ran)

    assert run() == ["a", "b"]
    assert run(opt_level=0) == ["a"]
    assert run(opt_level=3) == ["a", "b", "c"]
    assert run(opt_level=3, disabled_pass=["b"]) == ["a", "c"]
    assert run(opt_level=0, required_pass=["c"]) == ["a", "c"]
    with pytest.raises(TransformError, match="construct the pass"):
        Sequential([UnrollLoop])  # type: ignore[list-item]


def test_required_passes_run_first() -> None:
    @prim_func_pass(opt_level=0, required=["tir.UnrollLoop"])
    def needs(func, mod, ctx):
        assert "unroll" not in func.script()
        return func

    assert "unroll" not in Sequential([needs])(loop).script()

    @prim_func_pass(opt_level=0, required=["Simplfy"])
    def misspelt(func, mod, ctx):
        return func

    with pytest.raises(TransformError, match="no pass is named 'Simplfy'") as error:
        Sequential([misspelt])(loop)
    assert "did you mean 'Simplify'?" in str(error.value)


def test_nested_sequences() -> None:
    both = Sequential([Sequential([UnrollLoop()], name="inner"), Simplify()], name="outer")
    after = check(both, loop)
    assert "for " not in after.script() and both.info.name == "outer"
    assert repr(both) == "Sequential([Sequential([UnrollLoop()]), Simplify()])"


def test_apply_and_filter() -> None:
    assert Apply(lambda func: func.with_attr("x", 1))(loop).attrs["x"] == 1
    with pytest.raises(TransformError, match="Apply's function returned str for 'loop'"):
        Apply(lambda func: "text")(loop)  # type: ignore[arg-type, return-value]
    kept = Filter(lambda func: "global_symbol" in func.attrs)(Module)
    assert list(kept) == ["main"] and Filter(lambda func: True)(Module) is Module


def test_passes_register_under_their_names() -> None:
    assert find_pass("UnrollLoop") is find_pass("tir.UnrollLoop") is find_pass("tir.transform.UnrollLoop") is UnrollLoop
    assert all(issubclass(cls, Pass) for cls in Pass.registry.values())
    with pytest.raises(TypeError, match="defines no transformation"):
        FuncPass()(loop)
    with pytest.raises(TypeError, match="defines no transformation"):
        ModulePass()(loop)


def test_errors_carry_the_name_of_their_pass() -> None:
    @T.prim_func
    def symbolic(A: T.Buffer(("n",), "int32")):
        for i in T.unroll(n):
            A[i] = i

    with pytest.raises(TransformError) as error:
        Sequential([Simplify(), UnrollLoop()])(symbolic)
    assert str(error.value).startswith("error[tir.UnrollLoop]:") and "T.unroll(n)" in str(error.value)


def test_functions_are_applied() -> None:
    for make in (Apply, Filter):
        with pytest.raises(TransformError, match=f"{make.__name__} takes a function of a PrimFunc, got 3"):
            make(3)
