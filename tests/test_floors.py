"""The floors of the house: who may import whom (docs: a room imports from lower floors and from its own)."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "tirlower"

# Lowest first; rooms of one floor do not import each other.
FLOORS: list[set[str]] = [
    {"support"},
    {"diagnostics"},
    {"machine"},
    {"ir"},
    {"script", "arith"},
    {"interp", "poly"},
    {"analysis"},
    {"validate"},
    {"rewrite"},
    {"transforms", "schedule"},
    {"autoschedule", "call"},
    {"emit"},
    {"llvm", "gpu", "c"},
    {"legality"},
    {"driver"},
    {"tuning"},
    {"graph"},
    {"demo"},
    {"__main__"},
]
FLOOR_OF = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}

# The groups of passes have an order too.
GROUPS: list[set[str]] = [
    {"cleanup", "dtypes"},
    {"blocks", "loops", "memory", "threads", "tensorcores", "host"},
    {"tir_only"},
]
GROUP_OF = {group: level for level, groups in enumerate(GROUPS) for group in groups}

# Files whose functions import, each for its reason. The first may import from the package, the others only what they wrap.
LAZY = {
    "__init__.py": "the public surface imports what is used when it is first used",
    "transforms/__init__.py": "a pass is imported when it is first asked for",
    "rewrite/registry.py": "where each pass stands: the one door to the passes, which stand a floor above",
    "arith/rewrite.py": "the rules are imported when something is simplified: no kernel from the disk cache needs them",
    "support/lazy.py": "the one place that imports the names of packages when they are first asked for",
    "support/collector.py": "the one place that imports modules while the collector rests",
    "ir/text.py": "the one door from the language to its printer, which stands a floor above",
    "ir/index_map.py": "whether two maps are equal is a question to the analyzer, which stands a floor above",
    "ir/func.py": "specializing rewrites functions: it stands on what stands on them",
    "machine/target.py": "the one door to what devices of this machine are, whose driver stands floors above",
    "poly/isl.py": "the one wrapper of islpy",
    "driver/api.py": "what compiles is imported to compile, what a GPU needs for a GPU",
    "driver/kernel.py": "unpickling builds again: the road stands on the kernel",
    "driver/backend.py": "the passes and the backend of a target are imported when it is asked for",
    "driver/cpu.py": "the compiler is imported for what is not in the disk cache; finds the exception classes that an entry names",
    "driver/progress.py": "logging is imported by builds that take over a second",
    "driver/result.py": "a kernel from the disk cache is lowered, and scheduled, when somebody looks at its stages",
    "driver/tuned.py": "the database of plans is opened, and SQLite imported, where there is one",
    "driver/pipelines/__init__.py": "the passes of a GPU are imported for a GPU",
    "schedule/registry.py": "a primitive is imported when it is first asked for",
    "schedule/schedule.py": "running both programs needs the interpreter, proofs do not",
    "llvm/codegen/symbols.py": "profiles stand on the passes, and only code with marks needs them",
    "graph/__init__.py": "the public surface of graphs imports what is used when it is first used",
    "graph/api.py": "backends are imported for options that name one, what reads files for what is loaded",
    "graph/ops/interpret.py": "the interpreter of prim funcs is imported for graphs that hold kernels",
    "graph/ops/kernels.py": "what a kernel writes is asked of the interpreter, for graphs that hold kernels",
    "graph/passes/base.py": "what validates passes is imported by a context that validates: it prints and parses programs",
    "graph/run/executable.py": "pictures, profiles and files are imported when they are asked for",
    "graph/backends/openblas.py": "the one wrapper of the package with OpenBLAS, which only that backend needs",
    "graph/backends/registry.py": "a backend that comes with the package is imported when it is first asked for",
    "graph/patterns/nodes.py": "the one door from a pattern to what is done with it, which stands on patterns",
    "graph/core/nodes.py": "the one door from graphs to their printer, which knows the operations",
    "graph/core/module.py": "the one door from modules to their printer, which knows the operations",
    "graph/frontend/onnx_file.py": "the one wrapper of onnx, which only imports of models need",
    "graph/frontend/onnx_ops/table.py": "the families of operators are imported when a model is, and stand on the table",
    "graph/frontend/tensor.py": "NumPy's functions of tensors are made of tensors: methods and protocols look them up",
    "call/dtypes.py": "the one place of calls that needs ml_dtypes",
    "graph/ops/families.py": "the operations are defined when one is first asked for: their modules stand on the registry",
    "tuning/executors.py": "the one wrapper of Ray, which only its executor needs",
    "call/extents.py": "extents with more in them than integer arithmetic are rare, and left to the interpreter",
}


@functools.cache
def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module given as its path below the package."""
    return parts[0]


def module_parts(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports(
    tree: ast.AST, package: tuple[str, ...], exists: frozenset[tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], int]]:
    """The modules of the package that a file imports (below ``tirlower``), with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = tuple(alias.name.split("."))
                if parts[0] == "tirlower" and len(parts) > 1:
                    yield parts[1:], node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = tuple((node.module or "").split(".")) if node.module else ()
            if node.level:
                base = ("tirlower", *package[: len(package) - node.level + 1], *base)
            if base[:1] != ("tirlower",):
                continue
            if len(base) > 1:
                yield base[1:], node.lineno
            else:
                for alias in node.names:
                    if (alias.name,) in exists:
                        yield (alias.name,), node.lineno


@functools.cache
def existing() -> frozenset[tuple[str, ...]]:
    return frozenset(module_parts(path) for path in files())


def edges(path: Path) -> Iterator[tuple[str, str, int]]:
    parts = module_parts(path)
    package = parts if path.name == "__init__.py" else parts[:-1]
    for target, line in imports(ast.parse(path.read_text()), package, existing()):
        yield room_of(parts), room_of(target), line


def broken(source: str, target: str) -> str | None:
    if source == target:
        return None
    for room in (source, target):
        if room not in FLOOR_OF:
            return f"the room {room!r} has no floor"
    if FLOOR_OF[target] > FLOOR_OF[source]:
        return f"{source} imports {target}, which is on a higher floor"
    if FLOOR_OF[target] == FLOOR_OF[source]:
        return f"{source} imports {target}, which is on the same floor"
    return None


def test_groups_of_passes_import_from_lower_groups_alone():
    found = []
    for path in files():
        parts = module_parts(path)
        if parts[:1] != ("transforms",) or len(parts) < 3:
            continue
        for target, line in imports(ast.parse(path.read_text()), parts[:-1], existing()):
            if target[0] == "transforms" and len(target) > 2 and target[1] != parts[1]:
                if GROUP_OF[target[1]] >= GROUP_OF[parts[1]]:
                    found.append(f"{'/'.join(parts)}:{line} imports {'.'.join(target)}")
    assert not found, found
    assert GROUP_OF.keys() == {
        path.name for path in (PACKAGE / "transforms").iterdir() if (path / "__init__.py").exists()
    }


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_file_imports_upward(path: Path):
    if path == PACKAGE / "__init__.py":
        pytest.skip("the public surface stands above all floors")
    found = [f"line {line}: {why}" for a, b, line in edges(path) if (why := broken(a, b))]
    assert not found, found


def test_every_room_has_a_floor():
    rooms = {room_of(module_parts(path)) for path in files() if module_parts(path)}
    assert rooms <= set(FLOOR_OF), rooms - set(FLOOR_OF)


def hidden(path: Path) -> list[tuple[int, bool]]:
    """The lines of a file on which a function imports, and whether it imports from the package."""
    found: dict[int, bool] = {}
    left: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while left:
        node, inside = left.pop()
        inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        left += [(child, inside) for child in ast.iter_child_nodes(node)]
        if inside:
            if isinstance(node, ast.Import):
                found[node.lineno] = any(alias.name.split(".")[0] == "tirlower" for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found[node.lineno] = bool(node.level) or (node.module or "").split(".")[0] == "tirlower"
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
                found[node.lineno] = not node.args or "tirlower" in ast.unparse(node.args[0])
    return sorted(found.items())


def own_allowed(name: str) -> bool:
    """Whether a file may import the project's own modules late."""
    return name in LAZY and not name.startswith(("poly/", "call/dtypes"))


def test_no_import_is_hidden_in_a_function():
    found = {}
    for path in files():
        name = str(path.relative_to(PACKAGE))
        lines = [line for line, own in hidden(path) if name not in LAZY or (own and not own_allowed(name))]
        if lines:
            found[name] = lines
    assert not found, found


def test_the_rules_find_what_they_should(tmp_path: Path):
    assert broken("ir", "arith") and broken("script", "arith") and broken("arith", "script")
    assert broken("interp", "poly") and broken("transforms", "llvm") and broken("driver", "__main__")
    assert broken("ir", "ir") is None and broken("llvm", "ir") is None and broken("ir", "nowhere")
    exists = frozenset({("ir",), ("script",), ("ir", "expr")})
    code = "from tirlower import script, ir\nfrom ..arith import x\nfrom . import y\nimport tirlower.poly.isl, numpy"
    found = [room for room, _ in imports(ast.parse(code), ("ir",), exists)]
    assert found == [("script",), ("ir",), ("arith",), ("ir",), ("poly", "isl")]
    file = tmp_path / "m.py"
    file.write_text("import os\ndef f():\n    import numpy\n    return lambda: __import__('re')\n")
    assert hidden(file) == [(3, False), (4, False)]
    file.write_text("def f():\n    from tirlower.ir import Var\n")
    assert hidden(file) == [(2, True)]


HEAVY = ("llvmlite", "islpy", "cuda", "torch", "numba", "tirlower.llvm", "tirlower.emit", "tirlower.poly")


def test_importing_the_package_imports_nothing_heavy():
    code = f"import sys, tirlower; print([m for m in sys.modules if m.startswith({HEAVY!r})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_importing_the_language_imports_no_higher_floor():
    code = "import sys, tirlower.ir; print(sorted({m.split('.')[1] for m in sys.modules if m.startswith('tirlower.')}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['diagnostics', 'ir', 'machine', 'support']"
