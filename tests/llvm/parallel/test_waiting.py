from __future__ import annotations

import pytest

from tirlower.emit.compile import CompileOptions, compile_object, emit_assembly
from tirlower.llvm.parallel.pool import EXPORTS, pool_module
from tirlower.llvm.parallel.waiting import WaitKind, wait_kind

TRIPLES = {
    "x86_64-unknown-linux-gnu": ("pause", "syscall"),
    "aarch64-unknown-linux-musl": ("isb", "syscall"),
    "riscv64-unknown-linux-gnu": ("lr.w", "syscall"),
    "arm64-apple-darwin23": ("isb", "__ulock_wait"),
    "x86_64-pc-windows-msvc": ("pause", "WaitOnAddress"),
    "x86_64-unknown-freebsd": ("pause", "usleep"),
}


@pytest.mark.parametrize("triple", TRIPLES)
def test_pool_compiles_for_every_system(triple):
    text = pool_module(triple).text()
    features = "+a" if triple.startswith("riscv") else ""
    assembly = emit_assembly(text, CompileOptions(triple=triple, features=features, pipeline="none"))
    for word in (*TRIPLES[triple], *EXPORTS):
        assert word in assembly


def test_number_of_the_futex_call_is_the_architecture_s():
    assert "i64 202, " in pool_module("x86_64-unknown-linux-gnu").text()
    assert "i64 98, " in pool_module("aarch64-unknown-linux-gnu").text()


def test_unknown_systems_poll():
    assert wait_kind("mips-unknown-linux-gnu") is WaitKind.POLL
    assert wait_kind("wasm32-unknown-wasi") is WaitKind.POLL


def test_pool_survives_the_optimizer():
    # The pool is compiled without passes; that LLVM may not break its ordering is worth knowing all the same.
    text = pool_module("x86_64-unknown-linux-gnu").text()
    assert compile_object(text, CompileOptions(triple="x86_64-unknown-linux-gnu")).object
