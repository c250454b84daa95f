"""What a kernel shows of its machine code is what runs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import tirlower as tl
from tirlower.emit.compile import compile_object, join_parts
from tirlower.llvm.cache import default_cache
from tirlower.script import parse

PROGRAM = """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
    for i in range(64):
        B[i] = A[i] * T.float32(3) + T.exp(A[i])
    T.assume(n > 4)
    B[0] = T.float32(n // 3)
"""


@pytest.mark.parametrize("target", ["llvm", "llvm -opt-level=1", "llvm -mcpu=haswell", "llvm -fast-math"])
@pytest.mark.parametrize("options", [{}, {"gil": False}, {"outputs": ["B"]}])
@pytest.mark.by_day
def test_the_text_shown_is_the_one_compiled(target: str, options: dict, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TIRLOWER_CACHE", raising=False)
    kernel = tl.build(parse(PROGRAM), target, **options)
    artifact = kernel.artifact
    entry = default_cache().load(artifact.key)
    assert entry is not None
    made = [compile_object(part, artifact.spec.options).object for part in artifact.code.parts]
    assert join_parts(made) == entry.object
    again = tl.build(parse(PROGRAM), target, **options)
    assert again.source("asm") == kernel.source("asm")
    for kind in ("asm", "llvm-opt"):
        text = kernel.source(kind)
        assert "f.kernel" in text and "f.kernel.entry" not in text and "f.kernel.packed" not in text, kind


def test_assumptions_that_are_checked_are_seen() -> None:
    with tl.PassContext(config={"tir.enable_debug": True}):
        checked = tl.build(parse(PROGRAM), schedule="none").source("llvm")
    assert "fail" in checked and "fail" not in tl.build(parse(PROGRAM), schedule="none").source("llvm")


def test_builds_keep_nothing() -> None:
    """In a process of its own: what 60 builds leave behind, in KB of memory and in objects."""
    program = """
        import gc, os
        import tirlower as tl
        from tirlower.script import parse

        def one(i):
            tl.build(parse(f'''
        @T.prim_func
        def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            for i in range(64):
                B[i] = A[i] * T.float32({i}) + T.exp(A[i])
        '''))

        def state():
            gc.collect()
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024, len(gc.get_objects())

        for i in range(30):
            one(i)
        memory, objects = state()
        for i in range(60):
            one(1000 + i)
        after, more = state()
        print(after - memory, more - objects)
    """
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "TIRLOWER_CACHE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    memory, objects = map(int, done.stdout.split())
    # 80 KB a build once, where pass managers and linkers stayed.
    assert memory < 60 * 8
    assert objects < 80
