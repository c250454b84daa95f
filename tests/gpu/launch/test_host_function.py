from __future__ import annotations

import subprocess
import sys

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import split
from tirlower.gpu.launch.host_function import launches_of


def test_the_launches_of_a_function() -> None:
    module = split(programs.staged)
    found = launches_of(module["main"])
    assert list(found) == [name for name in module if name != "main"]
    assert [len(calls) for calls in found.values()] == [1, 1, 1, 1]
    first = next(iter(found.values()))[0]
    assert [str(arg) for arg in first[-1:]] == ["24"]


def test_the_launch_is_imported_without_a_compiler() -> None:
    heavy = ("llvmlite", "tirlower.emit", "tirlower.llvm")
    code = f"import sys, tirlower.gpu.launch; print([m for m in sys.modules if m.startswith({heavy!r})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
