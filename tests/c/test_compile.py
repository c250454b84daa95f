"""Finding the compiler, and what is said where there is none, or where it refuses."""

from __future__ import annotations

import os
import stat

import pytest

from tests.c.batch import needs_compiler
from tirlower.c import compile as c_compile
from tirlower.c.compile import compile_text, compiler
from tirlower.diagnostics import CodegenError


def test_cc_names_the_compiler_and_its_options(monkeypatch, tmp_path):
    mine = tmp_path / "mycc"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)
    monkeypatch.setenv("CC", f"{mine} -m64")
    assert compiler() == (str(mine), "-m64")


@pytest.mark.parametrize(
    ("chosen", "said"), [("no-such-compiler", "'no-such-compiler' that CC names"), ("", r"\(cc, gcc, clang\)")]
)
def test_no_compiler_is_told_with_a_remedy(monkeypatch, tmp_path, chosen, said):
    monkeypatch.setenv("CC", chosen)
    monkeypatch.setenv("PATH", str(tmp_path))
    c_compile._find.cache_clear()
    with pytest.raises(CodegenError, match=said) as caught:
        compile_text("int x;\n")
    assert "install one" in str(caught.value.help) and "CC" in str(caught.value.help)
    c_compile._find.cache_clear()


@needs_compiler
def test_what_the_compiler_says_is_in_the_error():
    with pytest.raises(CodegenError, match="refuses the text") as caught:
        compile_text("int f(void) { return nothing_of_this_name; }\n", name="given")
    assert "nothing_of_this_name" in caught.value.message and "given.c:1" in caught.value.message
    assert "/given.c:1" not in caught.value.message


def test_a_compiler_that_does_not_run_is_told(monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("no program\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(CodegenError, match="does not run"):
        compile_text("int x;\n")


@needs_compiler
def test_the_folder_is_the_owners_alone_and_goes():
    made = compile_text("int x;\n")
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700 and made.size == made.path.stat().st_size > 0
    made.discard()
    assert not made.folder.exists()


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no modes")
def test_a_folder_that_others_may_write_to_is_refused(monkeypatch, tmp_path):
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    monkeypatch.setattr(c_compile.tempfile, "tempdir", str(loose))
    with pytest.raises(CodegenError, match="is not safe") as caught:
        compile_text("int x;\n")
    assert "TMPDIR" in str(caught.value.help) and not list(loose.iterdir())
