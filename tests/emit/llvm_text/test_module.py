from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from tirlower.emit.llvm_text import FLOAT, I8, I32, I64, PTR, VOID, Builder, Module, array, const, const_bytes, zero


def _parsed(module: Module) -> llvm.ModuleRef:
    parsed = llvm.parse_assembly(module.text())
    parsed.verify()
    return parsed


def _returning(module: Module, name: str, **more):
    function = module.function(name, **more)
    Builder(function, function.block()).ret()
    return function


def test_head_of_the_module():
    parsed = _parsed(Module('a "name"\\', "x86_64-unknown-linux-gnu", "e-m:e-i64:64"))
    assert parsed.triple == "x86_64-unknown-linux-gnu"
    assert parsed.data_layout == "e-m:e-i64:64"
    assert parsed.source_file == 'a "name"\\'


def test_function_properties():
    module = Module("m")
    f = module.function(
        "f",
        PTR,
        [(PTR, "a", ["noalias", "readonly", "align 64"]), (I32, "a"), (I64, ""), (I64, "x.1"), (I8, "n m")],
        attrs=["nounwind", ("prefer-vector-width", "512")],
        ret_attrs=["noundef", "nonnull"],
        linkage="internal",
        callconv="fastcc",
        section=".text.hot",
        align=64,
        unnamed_addr=True,
    )
    Builder(f, f.block()).ret(f.args[0])
    function = _parsed(module).get_function("f")
    assert function.linkage is llvm.Linkage.internal
    text = str(function)
    for word in ("fastcc", "noundef nonnull ptr", "noalias readonly align 64", 'section ".text.hot"', "align 64"):
        assert word in text
    assert [a.name for a in function.arguments] == ["a", "a_1", "arg", "x_1", "n m"]


def test_attribute_groups_are_shared():
    module = Module("m")
    for name in "abc":
        _returning(module, name, attrs=["nounwind"])
    _returning(module, "d", attrs=["cold"])
    assert module.text().count("attributes #") == 2
    assert module.attribute_group() is None


def test_declarations():
    module = Module("m")
    puts = module.declare("puts", I32, [PTR], param_attrs={0: ["nocapture"]}, attrs=["nounwind"], ret_attrs=["signext"])
    assert module.get_or_declare("puts", I32, [PTR]) is puts
    printf = module.get_or_declare("printf", I32, [PTR], vararg=True)
    assert printf.signature == "i32 (ptr, ...)"
    with pytest.raises(ValueError, match=r"'puts' is i32 \(ptr\) already, and is used as i32 \(i64\)"):
        module.get_or_declare("puts", I32, [I64])
    module.global_variable("v", I32, zero(I32))
    with pytest.raises(ValueError, match="a variable already"):
        module.get_or_declare("v")
    parsed = _parsed(module)
    assert {f.name for f in parsed.functions} == {"puts", "printf"}


def test_globals():
    module = Module("m")
    table = module.global_constant("table", const_bytes(b"\1\2\3"), align=64)
    module.global_variable(
        "scratch",
        array(16, FLOAT),
        addrspace=3,
        align=16,
        linkage="internal",
        initializer=zero(array(16, FLOAT)),
    )
    outside = module.global_variable("outside", I64, constant=True)
    module.global_variable("dynamic", array(0, I8), addrspace=3, align=16)
    module.global_variable("local", I32, const(I32, 1), thread_local="initialexec", section=".tdata2")
    assert (table.type, table.text, outside.text) == (PTR, "@table", "@outside")
    parsed = {g.name: str(g) for g in _parsed(module).global_variables}
    assert "private unnamed_addr constant [3 x i8]" in parsed["table"] and "align 64" in parsed["table"]
    assert "addrspace(3) global [16 x float] zeroinitializer" in parsed["scratch"]
    assert "external constant i64" in parsed["outside"]
    assert "thread_local(initialexec)" in parsed["local"]
    with pytest.raises(ValueError, match="cannot start as"):
        module.global_variable("wrong", I32, zero(I64))


def test_strings_are_shared():
    module = Module("m")
    assert module.string_constant("same") is module.string_constant(b"same")
    assert module.string_constant("other").text != module.string_constant("same").text
    assert module.text().count("constant") == 2


def test_names_are_unique():
    module = Module("m")
    module.function("f")
    with pytest.raises(ValueError, match="symbol 'f' already"):
        module.declare("f")
    with pytest.raises(ValueError, match="symbol 'f' already"):
        module.global_variable("f", I32)
    assert module.unique_name("f") == "f.1"
    assert module.unique_name("g") == "g"
    assert module.symbol("f") is not None and module.symbol("g") is None


def test_parameters_cannot_clash_with_results_or_blocks():
    module = Module("m")
    f = module.function("f", I32, [(I32, "x.1"), (I32, "entry.0"), (I32, "entry")])
    b = Builder(f, f.block("entry"))
    b.ret(b.add(b.add(f.args[0], f.args[1], "x"), f.args[2], "x"))
    _parsed(module)


def test_long_names_stay_apart():
    module = Module("m")
    f = module.function("f", I32, [(I32, "a" * 2000 + end) for end in "xyz"])
    b = Builder(f, f.block("entry"))
    b.ret(b.add(b.add(f.args[0], f.args[1], "b" * 2000), f.args[2], "b" * 2000))
    _parsed(module)


def test_blocks_of_any_name():
    module = Module("m")
    f = module.function("f")
    b = Builder(f, f.block("two words"))
    later, last = f.new_block("later"), f.block("last")
    b.br(later)
    b.position_at_end(f.place(later))
    b.br(last)
    b.position_at_end(last)
    b.ret()
    assert [block.name.split(".")[0] for block in _parsed(module).get_function("f").blocks] == [
        "block",
        "last",
        "later",
    ]


def test_unfinished_functions_are_refused():
    module = Module("m")
    f = module.function("f")
    with pytest.raises(ValueError, match="@f has no blocks"):
        module.text()
    f.block("open")
    with pytest.raises(ValueError, match=r"%open\.0 of @f has no terminator"):
        module.text()


def test_ten_thousand_instructions():
    module = Module("m")
    f = module.function("f", FLOAT, [(FLOAT, "x")])
    b = Builder(f, f.block())
    x = f.args[0]
    for _ in range(10_000):
        x = b.fadd(x, x)
    b.ret(x)
    assert len(f.text().splitlines()) == 10_004
    _parsed(module)


def test_void_is_the_default():
    assert _returning(Module("m"), "f").ref.ret is VOID
