from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from tirlower.emit.compile import CompileOptions, optimized_ir
from tirlower.emit.llvm_text import FLOAT, I8, I32, I64, PTR, VOID, Attachments, Builder, Module, const, i32


def _kernel(module: Module, loop=None, scopes=(None, None)):
    """``b[i] = a[i] * 3`` with nothing known about the two pointers but what the metadata says."""
    f = module.function("f", VOID, [(PTR, "a"), (PTR, "b"), (I64, "n")])
    b = Builder(f, f.block("entry"))
    read, write = [s or Attachments({}) for s in scopes]
    with b.for_range(b.i64(0), f.args[2], loop=loop) as i:
        x = b.load(FLOAT, b.gep(FLOAT, f.args[0], i), 4, md=read)
        b.store(b.fmul(x, const(FLOAT, 3)), b.gep(FLOAT, f.args[1], i), 4, md=write)
    b.ret()
    return module.text()


def _optimized(text: str) -> str:
    return optimized_ir(text, CompileOptions.for_host())


def test_nodes_are_made_once_and_distinct_ones_each_time():
    module = Module("m")
    assert module.metadata("a", i32(1), None) is module.metadata("a", i32(1), None)
    assert module.distinct("a") is not module.distinct("a")
    me = module.distinct("name", self_reference=True)
    assert f'{me} = distinct !{{{me}, !"name"}}' in module.text()
    assert '!{!"a", i32 1, null}' in module.text()
    llvm.parse_assembly(module.text()).verify()


def test_alias_scopes_make_a_runtime_check_unnecessary():
    # The vectorizer compares the pointers, as integers, unless it knows that the accesses are disjoint.
    assert "ptrtoint" in _optimized(_kernel(Module("m")))
    module = Module("m")
    domain = module.alias_domain("buffers")
    scopes = module.alias_attachments([module.alias_scope(domain, name) for name in "ab"])
    done = _optimized(_kernel(module, scopes=tuple(scopes)))
    assert "x float>" in done and "ptrtoint" not in done


def test_one_scope_alone_excludes_nothing():
    module = Module("m")
    (only,) = module.alias_attachments([module.alias_scope(module.alias_domain(), "a")])
    assert "noalias" not in only.text and "alias.scope" in only.text


def test_loop_hints_are_followed():
    module = Module("m")
    assert "x float>" not in _optimized(_kernel(module, loop=module.loop_metadata(vectorize=False)))
    module = Module("m")
    hints = module.loop_metadata(vectorize=True, vector_width=2, interleave=1, unroll=False, must_progress=True)
    done = _optimized(_kernel(module, loop=hints))
    assert "<2 x float>" in done and "<4 x float>" not in done
    for hint in ({"unroll": True}, {"unroll": 4}, {"extra": [None]}):
        module = Module("m")
        llvm.parse_assembly(_kernel(module, loop=module.loop_metadata(**hint))).verify()


def test_parallel_accesses_make_a_runtime_check_unnecessary():
    module = Module("m")
    group = module.access_group()
    mark = Attachments({"llvm.access.group": group})
    loop = module.loop_metadata(parallel_accesses=group)
    done = _optimized(_kernel(module, loop=loop, scopes=(mark, mark)))
    assert "x float>" in done and "ptrtoint" not in done


def test_ranges_are_used():
    module = Module("m")
    f = module.function("f", I32, [(PTR, "p")])
    b = Builder(f, f.block())
    x = b.load(I8, f.args[0], md=Attachments({"range": module.value_range(I8, 0, 10)}))
    b.ret(b.zext(b.icmp("ult", x, const(I8, 10)), I32))
    assert "ret i32 1" in _optimized(module.text())
    with pytest.raises(ValueError, match="empty"):
        module.value_range(I8, 3, 3)


def test_attachments_add_up():
    module = Module("m")
    both = Attachments({"a": module.metadata("x")}) | Attachments({"b": module.empty_metadata()})
    assert both.text == ", !a !0, !b !1"


def test_flags_and_named_metadata():
    module = Module("m")
    module.module_flag(7, "PIC Level", i32(2))
    module.module_flag(7, "PIC Level", i32(2))
    module.named_metadata("custom", module.metadata("one"), module.metadata("two"))
    f = module.function("f")
    Builder(f, f.block()).ret()
    f.attach("note", module.metadata("attached"))
    parsed = llvm.parse_assembly(module.text())
    parsed.verify()
    text = str(parsed)
    assert text.count("PIC Level") == 1
    assert "!llvm.module.flags = !{!0}" in text and "!custom = !{!1, !2}" in text and "!note" in text


def test_metadata_as_an_argument():
    module = Module("m")
    f = module.function("f", I64)
    b = Builder(f, f.block())
    b.ret(b.intrinsic("llvm.read_register", I64, [module.metadata("rsp").as_value()], [I64]))
    llvm.parse_assembly(module.text()).verify()
