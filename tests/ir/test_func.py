"""Functions and modules as values."""

from __future__ import annotations

import pytest

from tirlower import ir
from tirlower.diagnostics import TirError, WellFormedError
from tirlower.ir import GlobalVar, IRModule, PrimFunc
from tirlower.script import parse


def func(name: str | None = "main", value: int = 0) -> PrimFunc:
    return PrimFunc((), {}, None, {"global_symbol": name} if name else {}, ir.Evaluate(value))


def test_functions():
    a, n = ir.Var("a", "handle"), ir.Var("n")
    A = ir.Buffer("A", (n,))
    f = PrimFunc([n, a], {a: A}, "void", {"k": [1]}, ir.Evaluate(0))
    assert f.params == (n, a) and f.buffers == (A,) and f.ret_type == "void" and f.attrs == {"k": (1,)}
    assert f.name == "main" and func("g").name == "g" and "2 parameters" in repr(f)
    with pytest.raises(WellFormedError, match="no parameter"):
        PrimFunc((), {a: A}, "void", {}, ir.Evaluate(0))
    with pytest.raises(WellFormedError, match="handle"):
        PrimFunc((n,), {n: A}, "void", {}, ir.Evaluate(0))


def test_attributes():
    f = func()
    g = f.with_attr("x", 1).with_attrs({"y": 2, "x": 3})
    assert f.with_attr({"y": 2}).attrs == {**f.attrs, "y": 2}
    assert g.attrs == {"global_symbol": "main", "x": 3, "y": 2} and "x" not in f.attrs
    assert g.without_attr("x").attrs == {"global_symbol": "main", "y": 2} and g.without_attr("z") is g
    assert f.with_body(f.body) is f and f.with_body(ir.Evaluate(1)).attrs == f.attrs


def test_modules():
    f, g = func("f"), func("g")
    module = IRModule({"f": f, GlobalVar("g"): g}, {"k": [1]})
    assert list(module) == ["f", "g"] and len(module) == 2 and module["f"] is f and module[GlobalVar("g")] is g
    assert "f" in module and GlobalVar("g") in module and "h" not in module and module.attrs == {"k": (1,)}
    assert module.items() == [("f", f), ("g", g)]
    with pytest.raises(TirError, match=r"no function 'ff'.*\n.*did you mean 'f'"):
        module["ff"]
    with pytest.raises(WellFormedError, match="prim funcs"):
        IRModule({"f": 3})
    assert IRModule.from_expr(f)["f"] is f and IRModule(f)["f"] is f
    assert module.get_global_var("f") == GlobalVar("f")
    assert [var.name_hint for var in module.get_global_vars()] == list(module)
    assert all(module[var] is func for var, func in module.functions_items())
    with pytest.raises(TirError):
        module.get_global_var("h")


def test_modules_are_read_as_mappings():
    f, g = func("f"), func("g")
    module = IRModule({"f": f, "g": g}, {"k": 1})
    assert module.keys() == ["f", "g"] and module.values() == [f, g] and dict(module) == {"f": f, "g": g}
    assert (
        module.get("f") is f and module.get(GlobalVar("g")) is g and module.get("h") is None and module.get("h", f) is f
    )
    assert module.get_attr("k") == 1 and module.get_attr("l") is None and module.get_attr("l", 2) == 2
    assert module.with_attrs({"l": 2}).attrs == {"k": 1, "l": 2} and module.attrs == {"k": 1}
    copy = module.clone()
    assert copy is not module and copy.functions == module.functions and copy.attrs == module.attrs


def test_functions_have_other_names():
    call = ir.Evaluate(ir.Call(GlobalVar("g"), (), "int32"))
    f, g = PrimFunc((), {}, None, {"global_symbol": "f"}, call), func(None)
    module = IRModule({"f": f, "g": g}, {"k": 1})
    renamed = module.replace_global_vars({"g": "h", GlobalVar("f"): GlobalVar("main")})
    assert renamed.keys() == ["main", "h"] and renamed.attrs == {"k": 1} and renamed["main"].name == "main"
    assert renamed["main"].body.value.op == GlobalVar("h") and renamed["h"].attrs == {}
    swapped = module.replace_global_vars({"f": "g", "g": "f"})
    assert swapped.keys() == ["g", "f"] and swapped["g"].body.value.op == GlobalVar("f")
    kept = module.replace_global_vars({})
    assert kept["f"] is f and kept["g"] is g
    with pytest.raises(TirError, match="no function 'h'"):
        module.replace_global_vars({"h": "i"})
    with pytest.raises(TirError, match=r"two functions .* the name 'g'"):
        module.replace_global_vars({"f": "g"})


def test_a_change_of_a_module_is_refused_with_what_to_do():
    module, g = IRModule({"f": func("f")}), func("g")
    with pytest.raises(TirError, match=r"with_func\('g', func\)"):
        module["g"] = g
    with pytest.raises(TirError, match=r"with_func\('g', func\)"):
        module.update_func(GlobalVar("g"), g)
    with pytest.raises(TirError, match="with_functions"):
        module.update(IRModule({"g": g}))
    with pytest.raises(TirError, match="another one"):
        del module["f"]
    assert module.keys() == ["f"]


def test_modules_do_not_change():
    f, g = func("f"), func("g")
    module = IRModule({"f": f})
    assert module.with_functions({"f": f}) is module and module.map_functions(lambda one: one) is module
    assert list(module.with_func("g", g)) == ["f", "g"] and list(module) == ["f"]
    changed = module.map_functions(lambda one: one.with_attr("x", 1))
    assert changed["f"].attrs["x"] == 1 and changed is not module and "x" not in f.attrs
    assert module.with_attr("k", [1]).attrs == {"k": (1,)} and module.with_attr("k", 1).without_attr("k").attrs == {}
    # Another order is another module only where a function differs.
    assert module.with_functions({"f": g})["f"] is g


def test_what_is_usual_is_left_out():
    A, B, n = ir.Buffer("A", (8,), "int32"), ir.Buffer("B", (4,), "float32"), ir.Var("n")
    i = ir.Var("i")
    block = ir.Block("b", (), body=ir.BufferStore(A, i, (i,)))
    body = ir.For(i, 0, n, body=block.body)
    f = PrimFunc([A, n, B], body=body)
    assert [p.name for p in f.params] == ["A_handle", "n", "B_handle"] and f.buffers == (A, B) and f.attrs == {}
    assert f.ret_type == "void" and f.body is body and all(f.params[k].dtype == "handle" for k in (0, 2))
    assert ir.structural_equal(parse(f.script()), f)
    assert (body.kind, body.thread_tag, body.annotations) == (ir.ForKind.SERIAL, None, {})
    assert (block.reads, block.writes, block.init, block.match_buffers) == ((), (), None, ()) and block.predicate == 1
    assert ir.For(i, 0, 4, body=ir.Evaluate(0)).annotations is not ir.For(i, 0, 4, body=ir.Evaluate(0)).annotations
    for make in (lambda: PrimFunc([A]), lambda: ir.For(i, 0, 4), lambda: ir.Block("b", ())):
        with pytest.raises(
            TypeError, match=r"(\w+)\(\) missing 1 required argument: 'body'; the order is \1\(.*body\)$"
        ):
            make()
    mapped = PrimFunc([n, A], {}, "int32", {"k": 1}, ir.Evaluate(0))
    assert mapped.buffer_map == {mapped.params[1]: A} and mapped.with_(attrs={}).buffers == (A,)
