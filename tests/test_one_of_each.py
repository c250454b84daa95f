"""Whether each concept has one home (``tools/one_of_each.py``), and that its detectors see what they are for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _tool() -> ModuleType:
    """The script, which imports what stands beside it."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module("one_of_each")
    finally:
        sys.path.remove(str(ROOT / "tools"))


tool = _tool()


def test_each_concept_has_one_home(capsys: pytest.CaptureFixture[str]) -> None:
    code = tool.main([])
    assert code == 0, capsys.readouterr().out


def places(name: str, text: str) -> list[str]:
    """The definitions of a file in which a concept's detector sees another implementation."""
    (concept,) = [concept for concept in tool.CONCEPTS if concept.name == name]
    return [place.name for place in tool.betrayals(concept, [tool.File("somewhere.py", text)])]


@pytest.mark.parametrize(
    ("name", "path", "seen"),
    [
        ("who accesses what", "tirlower/poly/pointers.py", "Pointers"),
        ("affine forms", "tirlower/arith/affine.py", "collect_terms"),
        ("scopes of binders", "tirlower/ir/binding.py", "ScopeWalker"),
        ("wrong arguments", "tirlower/call/rules.py", ""),
    ],
)
def test_what_a_concept_is_shows_at_its_home(name: str, path: str, seen: str) -> None:
    found = places(name, (ROOT / path).read_text())
    assert seen in found if seen else found


COLLECTOR = """
class Uses(Visitor):
    def visit_BufferLoad(self, op):
        self.read.add(op.buffer)

    def visit_BufferStore(self, op):
        self.written.add(op.buffer)
        self.generic(op)
"""
DISPATCHED = "class Uses:\n    def look(self, op):\n        if op.__class__ in (BufferLoad, BufferStore):\n            self.n += 1\n"
KNOWN = "if assured(op):\n            assert isinstance(op, BufferLoad | BufferStore)"
RENAMER = COLLECTOR.replace("Visitor", "StmtMutator")
LOADS_ALONE = COLLECTOR.replace("visit_BufferStore", "visit_Evaluate")


def test_a_second_collector_of_accesses() -> None:
    assert places("who accesses what", COLLECTOR) == ["Uses"]
    assert places("who accesses what", DISPATCHED) == ["Uses"]
    assert not places("who accesses what", RENAMER)
    assert not places("who accesses what", DISPATCHED.replace("if op.__class__ in (BufferLoad, BufferStore):", KNOWN))
    assert not places("who accesses what", LOADS_ALONE)
    assert not places("who accesses what", "found = [op for op in each((BufferLoad, BufferStore), body)]")


SUMS = """
def form(root):
    terms = {}
    stack = [(root, 1)]
    while stack:
        op, factor = stack.pop()
        if isinstance(op, Add):
            stack += [(op.a, factor), (op.b, factor)]
        elif isinstance(op, ir.Mul):
            stack.append((op.a, factor * op.b.value))
        else:
            terms[op] = terms.get(op, 0) + factor
    return terms
"""
METHODS = """
class Forms(Dispatch):
    def on_Add(self, op, into, factor):
        self.dispatch(op.a, into, factor)
        self.dispatch(op.b, into, factor)

    def on_Mul(self, op, into, factor):
        self.dispatch(op.a, into, factor * op.b.value)

    def on_Var(self, op, into, factor):
        into[op] += factor
"""
COUNTS = "def sizes(ops):\n    n = {}\n    for op in ops:\n        n[op] = n.get(op, 0) + 1\n    return n, Add, Mul\n"


def test_a_second_affine_form() -> None:
    assert places("affine forms", SUMS) == ["form"]
    assert places("affine forms", METHODS) == ["Forms"]
    assert not places("affine forms", COUNTS)
    assert not places(
        "affine forms", SUMS.replace("terms[op] = terms.get(op, 0) + factor", "terms.append((op, factor))")
    )


TABLE = """
def _product(a, b):
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)

RULES = {Add: lambda a, b: (a[0] + b[0], a[1] + b[1]), Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]), ir.Mul: _product}
"""
CHAIN = """
def interval(op):
    if isinstance(op, Add):
        return low(op.a) + low(op.b), high(op.a) + high(op.b)
    if op.__class__ is Mul:
        return 0, high(op.a) * high(op.b)
    match op:
        case Min():
            return Interval(0, 1)
    return None
"""
RULES_BY_METHOD = """
class Bounds(Dispatch):
    def on_Add(self, op):
        return self.low + 1, self.high + 1

    def on_Sub(self, op):
        return (self.low, self.high) if op.a else None

    def on_Mul(self, op):
        return IntervalSet(self.low, self.high)
"""
VALUES = "RULES = {Add: lambda a, b: a + b, Sub: lambda a, b: a - b, Mul: lambda a, b: a * b}\n"


def test_a_second_evaluator_over_intervals() -> None:
    assert places("intervals of expressions", TABLE) == ["RULES"]
    assert places("intervals of expressions", TABLE.replace("= {", "= cast('dict[type, Rule]', {") + ")") == ["RULES"]
    assert places("intervals of expressions", CHAIN) == ["interval"]
    assert places("intervals of expressions", RULES_BY_METHOD) == ["Bounds"]
    assert not places("intervals of expressions", VALUES)
    assert not places("intervals of expressions", 'SIGNS = {Add: ("+", 4), Sub: ("-", 4), Mul: ("*", 5)}\n')


BOUND_AROUND = """
class Finder(Visitor):
    def visit_For(self, op):
        self.bound.add(op.loop_var)
        self.visit(op.body)
        self.bound.discard(op.loop_var)

    def visit_Let(self, op):
        self.visit(op.value)
"""
FRAMES = """
class Numbers:
    def node(self, op):
        self.scopes.append([])
        if isinstance(op, For | Block):
            self.numbers[op] = len(self.numbers)
        self.scopes.pop()
"""
HIDDEN = """
class Renamer(Substituter):
    def define(self, var):
        self.trail.append((var, self.now.get(var)))
        self.now[var] = copy(var)

    def visit_For(self, op):
        self.define(op.loop_var)
        while self.trail:
            var, self.now[var] = self.trail.pop()

    def visit_Bind(self, op):
        self.define(op.var)
"""
HOOKS = BOUND_AROUND.replace("Visitor", "ScopeWalker")
DEPTH = """
class Deep(Visitor):
    def visit_For(self, op):
        self.path.append(op)
        self.visit(op.body)
        self.path.pop()

    def visit_Block(self, op):
        self.blocks.append(op)
"""


def test_a_second_walk_over_scopes() -> None:
    assert places("scopes of binders", BOUND_AROUND) == ["Finder"]
    assert places("scopes of binders", FRAMES) == ["Numbers"]
    assert places("scopes of binders", HIDDEN) == ["Renamer"]
    assert not places("scopes of binders", HOOKS)
    assert not places("scopes of binders", DEPTH)
    assert not places("scopes of binders", BOUND_AROUND.replace("self.bound.discard(op.loop_var)", "pass"))


def test_a_second_generator_of_programs() -> None:
    assert places("random programs", "def expr(rng):\n    return rng.choice([Add, Sub])(x, y)\n") == ["expr"]
    assert places("random programs", "def expr(rng):\n    return f\"a {rng.choice('+-*')} b\"\n") == ["expr"]
    assert places("random programs", "def test(rng):\n    return rng.choice(['//', '%'])\n") == ["test"]
    assert places("random programs", "kinds = st.sampled_from([ir.Add, ir.Mul])\n") == ["kinds"]
    assert not places(
        "random programs", "def pick(rng):\n    return rng.choice(['int8', 'int16']), rng.choice([-1, 1])\n"
    )
    assert not places("random programs", "def test(rng):\n    return rng.choice(['serial', '+'])\n")


def test_a_second_binder_of_arguments() -> None:
    said = "def bind(name, x):\n    raise TypeError(f'argument {name!r} has dtype {x.dtype}, got {x}')\n"
    assert places("wrong arguments", said) == ["bind"]
    assert places("wrong arguments", 'CHECKS = "argument `{0}` has shape {1}"\n') == ["CHECKS"]
    assert not places("wrong arguments", said.replace("argument {name!r}", "operation {name!r}"))
    assert not places("wrong arguments", 'def f(x):\n    """An argument `x` of some dtype."""\n')


def counted(count: Callable[[list[Any]], list[Any]], text: str, path: str = "tirlower/somewhere.py") -> list[str]:
    return [place.name for place in count([tool.File(path, text)])]


def test_chains_of_class_tests() -> None:
    tests = [f"isinstance(op, {name})" for name in ("Add", "Sub", "Mul", "Div", "Mod")]
    branches = "def f(op):\n    if " + ": return 1\n    elif ".join(tests) + ": return 2\n"
    returns = "def f(op):\n" + "".join(f"    if {test}:\n        return 1\n" for test in tests)
    nested = "def f(op):\n    for x in y:\n        if op.kind:\n            pass\n" + returns[len("def f(op):\n") :]
    of_classes = returns.replace("isinstance(op, ", "kind is (")
    for text in (branches, returns, nested, of_classes):
        assert counted(tool.long_chains, text) == ["f"]
    assert not counted(tool.long_chains, returns.replace("(op, Mod)", "(other, Mod)"))
    assert not counted(tool.long_chains, returns.replace("isinstance(op, Mod)", "op.name == 'Mod'"))
    assert not counted(tool.long_chains, of_classes.replace("Add", "LIMIT"))
    inside = "def f(op):\n    def g(op):\n" + returns[len("def f(op):\n") :].replace("    ", "        ")
    assert counted(tool.long_chains, inside) == ["f.g"]


def test_modules_of_transforms_without_a_pass() -> None:
    def modules(text: str, path: str) -> list[Any]:
        return tool.modules_without_pass([tool.File(path, text)])  # type: ignore[no-any-return]

    assert modules("class _Helper(StmtMutator): ...\n", "tirlower/transforms/loops/helper.py")
    assert not modules("class Unroll(base.FuncPass): ...\n", "tirlower/transforms/loops/unroll.py")
    assert not modules("", "tirlower/transforms/loops/__init__.py") and not modules("", "tirlower/rewrite/facts.py")


def test_modules_and_the_tests_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)

    def missing(path: str, text: str = "LIMIT = 1\n") -> list[str]:
        return [place.path for place in tool.modules_without_test([tool.File(path, text)])]

    (tmp_path / "tests" / "ir").mkdir(parents=True)
    assert missing("tirlower/ir/query.py") == ["tirlower/ir/query.py"]
    (tmp_path / "tests" / "test_query.py").touch()
    assert missing("tirlower/ir/query.py")
    (tmp_path / "tests" / "ir" / "test_query.py").touch()
    assert not missing("tirlower/ir/query.py")
    assert missing("tirlower/__main__.py") and not missing("tirlower/query.py")
    (tmp_path / "tests" / "test_main.py").touch()
    assert not missing("tirlower/__main__.py")
    # What only imports, and what is no module of the package.
    assert not missing("tirlower/ir/names.py", 'from tirlower.ir.query import each\n\n__all__ = ["each"]\n')
    assert not missing("tirlower/ir/__init__.py") and not missing("bench/kernels.py")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("KNOWN = {1: 2}\ndef f(x):\n    KNOWN[x] = 1\n", ["KNOWN"]),
        ("KNOWN = {}\n", ["KNOWN"]),
        ("KNOWN = {1: 2}\ndef f(x):\n    return KNOWN[x]\n", []),
        ("LIST = [1]\ndef f(x):\n    LIST.append(x)\n", ["LIST"]),
        ("LIST = [1]\ndef f(x):\n    LIST = []\n    LIST.append(x)\n", []),
        ("_engine = None\ndef f():\n    global _engine\n    _engine = 1\n", ["_engine"]),
        ("_NOW = ContextVar('now', default=None)\n", ["_NOW"]),
        ("_state = threading.local()\n", ["_state"]),
        ("state = State()\ndef f():\n    state.depth = 1\n", ["state"]),
        ("state = State()\ndef f():\n    return state.depth\n", []),
        ("class C:\n    all = {}\n    def add(self, x):\n        self.all[x] = 1\n", ["C.all"]),
        ("class C:\n    all = {}\ndef add(x):\n    C.all[x] = 1\n", ["C.all"]),
        ("class C:\n    all = {1: 2}\n    def get(self, x):\n        return self.all[x]\n", []),
        ('__all__ = ["f"]\n', []),
    ],
)
def test_mutable_values_of_modules(text: str, seen: list[str]) -> None:
    assert counted(tool.mutable_values, text) == seen


def test_statements_are_counted_without_prose() -> None:
    text = '"""A module."""\n\ndef f(x):\n    """Prose."""\n    if x:\n        return 1\n    else:\n        pass\n'
    assert tool.statements([tool.File("a.py", text)]) == 4
    others = "try:\n    a = 1\nexcept E:\n    b = 1\nfinally:\n    c = 1\nmatch a:\n    case 1:\n        d = 1\n"
    assert tool.statements([tool.File("a.py", others)]) == 6


LIMITS = {
    "who accesses what": 0, "affine forms": 0, "intervals of expressions": 0, "scopes of binders": 0,
    "random programs": 0, "wrong arguments": 0, "mutable process-wide values": 0,
    "chains of five class tests on one name": 0, "modules of transforms without a pass": 0,
    "modules without a test of their name": 0, "statements": 9,
}  # fmt: skip


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str = "", **limits: int) -> int:
    """The command on a repository with one collector of accesses, and a list."""
    for folder in ("tirlower", "tests", "bench"):
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "tirlower" / "uses.py").write_text(COLLECTOR)
    (tmp_path / "tests" / "test_uses.py").touch()
    listed = LIMITS | {name.replace("_", " "): limit for name, limit in limits.items()}
    rows = "".join(f'"{name}" = {limit}\n' for name, limit in listed.items())
    (tmp_path / "one_of_each.toml").write_text(f"[limits]\n{rows}{text}")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "LIST", tmp_path / "one_of_each.toml")
    code: int = tool.main([])
    return code


def test_what_is_over_its_limit_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, monkeypatch) == 1
    out = capsys.readouterr().out
    assert "tirlower/uses.py:2: Uses: who accesses what: no reason is listed" in out
    assert "who accesses what: 1, and the limit is 0: use what is there, or list a reason in one_of_each.toml" in out
    assert run(tmp_path, monkeypatch, who_accesses_what=1, statements=5) == 1
    assert "statements: 6, and the limit is 5" in capsys.readouterr().out
    assert run(tmp_path, monkeypatch, who_accesses_what=2, statements=6) == 0
    assert capsys.readouterr().out == "who accesses what: 1, the limit of 2 may be lowered\n"


def test_exceptions_have_reasons_and_name_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = '["who accesses what"]\n'
    for key in ("tirlower/uses.py:Uses", "tirlower/uses.py", "tirlower/"):
        assert run(tmp_path, monkeypatch, f'{table}"{key}" = "a reason"\n', statements=6) == 0
        assert capsys.readouterr().out == "as listed\n"
    assert run(tmp_path, monkeypatch, f'{table}"tirlower/uses.py:Uses" = " "\n') == 1
    assert "who accesses what: tirlower/uses.py:Uses has no reason" in capsys.readouterr().out
    assert run(tmp_path, monkeypatch, f'{table}"tirlower/uses.py" = "a reason"\n"tirlower/gone.py" = "another"\n') == 1
    assert "who accesses what: tirlower/gone.py is there no more" in capsys.readouterr().out
    reason = '{}"tirlower/uses.py" = "asked in tests/test_uses.py, tests/gone/test_uses.py"\n'
    assert run(tmp_path, monkeypatch, reason.format(table)) == 1
    said = "who accesses what: the reason of tirlower/uses.py names tests/gone/test_uses.py, which is not there\n"
    assert said in capsys.readouterr().out
