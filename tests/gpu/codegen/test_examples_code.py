"""The examples' registers, spills, shared memory and main loops are those of docs/gpu_code.md."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.gpu.codegen.building import needs_ptxas
from tests.gpu.codegen.test_examples_ptx import SIMT, TENSOR
from tirlower.gpu.sass import find_nvdisasm

ROOT = Path(__file__).resolve().parents[3]


def _tool():
    spec = importlib.util.spec_from_file_location("make_gpu_code_page", ROOT / "tools" / "make_gpu_code_page.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


tool = _tool()
pytestmark = [needs_ptxas, pytest.mark.skipif(find_nvdisasm() is None, reason="there is no nvdisasm")]


def kept() -> list[str]:
    text = tool.PAGE.read_text()
    if not text.startswith(tool.head()):
        pytest.skip(f"{tool.PAGE.name} is of another ptxas or LLVM than {tool.versions()}: write it anew")
    return text.removeprefix(tool.head()).splitlines()


@pytest.mark.parametrize("name", [*SIMT, *TENSOR])
def test_an_example_is_what_it_was(name):
    lines = [line for line in kept() if line.split(" ")[1].rstrip(":") == name]
    assert tool.rows(name) == lines, "if it is meant: python tools/make_gpu_code_page.py"


def test_the_page_has_the_examples_that_there_are():
    assert list(dict.fromkeys(line.split(" ")[1].rstrip(":") for line in kept())) == tool.names() == [*SIMT, *TENSOR]
