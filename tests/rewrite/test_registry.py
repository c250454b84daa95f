"""The table of passes: complete, and what the type checker sees."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

from tirlower import transforms
from tirlower.rewrite.registry import WHERE, known_passes
from tirlower.transforms import Pass

HERE = pathlib.Path(transforms.__file__)


def imports_for_types() -> dict[str, str]:
    """What the type checker imports, and from where."""
    found = {}
    for node in ast.walk(ast.parse(HERE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for one in node.body:
                assert isinstance(one, ast.ImportFrom) and one.module is not None
                for alias in one.names:
                    found[alias.name] = one.module.removeprefix("tirlower.transforms.")
    return found


def test_the_type_checker_sees_what_is_there() -> None:
    assert imports_for_types() == WHERE


@pytest.mark.parametrize("name", WHERE)
def test_a_name_is_what_its_module_has(name) -> None:
    value = getattr(transforms, name)
    if isinstance(value, type) and issubclass(value, Pass) and value.name:
        assert value.__module__ == f"tirlower.transforms.{WHERE[name]}"
        assert value.name == f"tir.{name}"


def test_every_pass_of_the_package_is_in_the_table() -> None:
    transforms.load_all()
    ours = {cls.__name__ for cls in Pass.registry.values() if cls.__module__.startswith("tirlower.transforms.")}
    assert ours - {"Apply", "Filter", "Sequential"} <= set(WHERE)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="NoSuchPass"):
        transforms.NoSuchPass
    assert "VectorizeLoop" in dir(transforms)


def test_a_build_imports_no_pass_that_it_does_not_run() -> None:
    code = (
        "import sys, tirlower as tl\n"
        "tl.build\n"
        "print([name for name in sys.modules if name.startswith('tirlower.transforms.threads')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stdout


def test_known_passes_are_classes_and_no_helpers() -> None:
    known = known_passes()
    assert {"tir.Simplify", "tir.VectorizeLoop", "tir.UnrollLoop"} <= set(known)
    assert not [name for name in known if name.startswith("tir.") and not name[4].isupper()]
