"""Whether each concept has one home: where code betrays a second one, and how many of those are left.

``python tools/one_of_each.py`` reads the code and looks, outside the home of each concept, for the syntax that betrays
another one. ``tools/one_of_each.toml`` lists exceptions (a definition, a file, or a folder), each with the reason that
makes it another concept, and limits: how many second ones are left. The command ends with 1 where there are more, or
where an exception names what is there no more; where there are fewer it says so, and the limit is to be lowered.
``--all`` prints every place that a detector sees outside the homes, ``--homes`` what it sees at home.
"""

from __future__ import annotations

import argparse
import ast
import gc
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from definitions import HANDLER, Assignment, Definition, File, Function, Place, of_self, walk, words

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ARITHMETIC = _names("Add Sub Mul Div Mod FloorDiv FloorMod Min Max")
BINDERS = _names("For Let Bind Block AllocBuffer AllocConst DeclBuffer AttrStmt PrimFunc")
NODES = ARITHMETIC | BINDERS | _names("EQ NE LT LE GT GE And Or Not Select Cast Call IfThenElse While Seq")
OPERATORS = _names("+ - * / // % < <= > >= == != and or & | ^ << >> min max T.min T.max floordiv floormod")
BOUND = _names("loop_var var iters params")
"""The fields of nodes that hold the variables that they bind."""
PLANS = _names("DECLARING DEFINES")
"""The tables of the language that say what nodes bind, and for how long."""

# The syntax that betrays a concept


def collects_accesses(found: Definition) -> bool:
    """A class that visits loads and stores and rewrites nothing."""
    if not isinstance(found.node, ast.ClassDef):
        return False
    handled = {HANDLER.sub("", name) for name in found.methods}
    together = any(
        {"BufferLoad", "BufferStore"} <= Definition(name, method, "", found.file).asked
        for name, method in found.methods.items()
    )
    bases = words(*[part for base in found.node.bases for part in walk(base)])
    rewrites = any(re.search("Mutator|Rewrit|Substitut", base) for base in bases)
    return not rewrites and (together or {"BufferLoad", "BufferStore"} <= handled)


def adds_up_terms(found: Definition) -> bool:
    """What tells sums from products and adds coefficients up in a mapping."""
    if isinstance(found.node, Assignment) or not {"Add", "Mul"} <= found.asked:
        return False
    counted = any(len(call.args) == 2 and getattr(call.args[1], "value", None) == 0 for call in found.calls("get"))
    for part in found.parts:
        if isinstance(part, ast.AugAssign) and isinstance(part.op, ast.Add) and isinstance(part.target, ast.Subscript):
            return True
        if counted and isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
            return True
    return False


def computes_intervals(found: Definition) -> bool:
    """Rules for three and more operations of arithmetic that give a least and a greatest value."""
    if isinstance(found.node, Assignment):
        rules = [
            value
            for table in found.parts
            if isinstance(table, ast.Dict)
            for key, value in zip(table.keys, table.values, strict=True)
            if key is not None and words(key) & ARITHMETIC
        ]
        return sum(_gives_pair(rule, found.file) for rule in rules) >= 3
    if isinstance(found.node, ast.ClassDef):
        handled = [method for name, method in found.methods.items() if HANDLER.sub("", name) in ARITHMETIC]
        return sum(_gives_pair(method, found.file) for method in handled) >= 3
    pairs = sum(isinstance(part, ast.Return) and _is_pair(part.value) for part in found.parts)
    return len(found.asked & ARITHMETIC) >= 3 and pairs >= 3


def _gives_pair(rule: ast.AST, file: File) -> bool:
    if isinstance(rule, ast.Name) and rule.id in file.functions:
        rule = file.functions[rule.id].node
    if isinstance(rule, ast.Lambda):
        return _is_pair(rule.body)
    return any(isinstance(part, ast.Return) and _is_pair(part.value) for part in walk(rule))


def _is_pair(value: ast.AST | None) -> bool:
    if isinstance(value, ast.IfExp):
        return _is_pair(value.body) or _is_pair(value.orelse)
    if isinstance(value, ast.Call):
        return bool(words(value.func) & {"IntervalSet", "Interval", "Bound", "ConstIntBound"})
    return isinstance(value, ast.Tuple) and len(value.elts) == 2


def walks_scopes(found: Definition) -> bool:
    """A class that keeps what binders bind and forgets it, or finds what it hid, where their scopes end."""
    if not isinstance(found.node, ast.ClassDef) or len((found.asked | found.words) & (BINDERS | PLANS)) < 2:
        return False
    if "ScopeWalker" in words(*found.node.bases):
        return False  # the walk itself, with hooks
    kept: set[str | None] = set()
    forgotten: set[str | None] = set()
    for part in found.parts:
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            held = of_self(part.func.value)
            if part.func.attr in ("append", "add", "update", "setdefault") and (
                _binds(part.args) or _saves(part.args) or _is_empty(part.args)
            ):
                kept.add(held)
            if part.func.attr in ("pop", "discard", "remove", "difference_update", "popitem"):
                forgotten.add(held)
        elif isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store) and _binds([part.slice]):
            kept.add(of_self(part))
        elif isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Del):
            forgotten.add(of_self(part))
        elif isinstance(part, ast.Assign):
            targets = {of_self(target) for target in part.targets if isinstance(target, ast.Attribute)}
            if isinstance(part.value, ast.Name):
                forgotten |= targets
            elif isinstance(part.value, ast.BinOp | ast.Tuple | ast.Dict | ast.Set) and _binds([part.value]):
                kept |= targets
    return bool((kept & forgotten) - {None})


def _binds(values: Iterable[ast.AST]) -> bool:
    """Whether values name what a node binds (``op.loop_var``)."""
    parts = [part for value in values for part in walk(value)]
    return any(isinstance(part, ast.Attribute) and part.attr in BOUND and of_self(part) is None for part in parts)


def _saves(values: Iterable[ast.AST]) -> bool:
    """Whether values hold what a table of the object has for a key: what stood there before."""
    parts = [part for value in values for part in walk(value)]
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr == "get"
        and of_self(part.func.value) is not None
        for part in parts
    )


def _is_empty(values: list[ast.expr]) -> bool:
    """Whether the value is a new, empty list, mapping or set: the frame of a scope."""
    if len(values) != 1:
        return False
    value = values[0]
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("set", "dict", "list") and not value.args
    return (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Dict) and not value.keys)


def draws_nodes(found: Definition) -> bool:
    """A random choice among classes of nodes, or among operators of the script."""
    for call in found.calls("choice", "choices", "sampled_from"):
        parts = [part for arg in call.args for part in walk(arg)]
        texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if len(words(*parts) & NODES) >= 2 or len({text.strip() for text in texts} & OPERATORS) >= 2:
            return True
        if any(len(text) > 1 and set(text) <= set("+-*/%<>") and text not in OPERATORS for text in texts):
            return True
    return False


BINDER_WORDS = re.compile(
    r"\barguments? (?:_|`|').*\b(?:array|scalar|dtype|dimensions|shape|strides?|read-only|aligned|offset|overlap|expected)\b",
    re.DOTALL,
)
"""What messages about the arguments of a call say; an underscore stands where a value is filled in."""


def says_arguments_are_wrong(found: Definition) -> bool:
    """The message of a wrong argument of a call, as a text."""
    if isinstance(found.node, ast.ClassDef):
        return False
    prose = {id(part.value) for part in found.parts if isinstance(part, ast.Expr)}
    for part in found.parts:
        texts = [part] if isinstance(part, ast.Constant) else part.values if isinstance(part, ast.JoinedStr) else []
        text = "".join(str(t.value) if isinstance(t, ast.Constant) else "_" for t in texts)
        if id(part) not in prose and BINDER_WORDS.search(text):
            return True
    return False


@dataclass(frozen=True)
class Concept:
    """What is done in one place: where that is, what betrays another one, and what is in any text that does."""

    name: str
    homes: tuple[str, ...]
    betrays: Callable[[Definition], bool]
    hint: str
    folders: tuple[str, ...] = ("tirlower",)


CONCEPTS = (
    Concept("who accesses what", ("tirlower/poly/",), collects_accesses, "BufferLoad"),
    Concept("affine forms", ("tirlower/arith/",), adds_up_terms, r"\bMul\b|_Mul\b"),
    Concept("intervals of expressions", ("tirlower/arith/",), computes_intervals, r"\bMul\b|_Mul\b"),
    Concept(
        "scopes of binders",
        ("tirlower/ir/binding.py", "tirlower/ir/field_walk.py"),
        walks_scopes,
        r"\.(pop|discard|remove)\(|outer|del ",
    ),
    Concept("random programs", ("tests/generate/",), draws_nodes, r"\.(choices?|sampled_from)\(", ("tests", "bench")),
    Concept("wrong arguments", ("tirlower/call/",), says_arguments_are_wrong, "argument"),
)


def python_files(*folders: str) -> list[File]:
    """The Python files below folders of the repository."""
    return [
        File(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]


def betrayals(concept: Concept, files: Iterable[File]) -> list[Place]:
    """Where files do what a concept does: the innermost definitions."""
    places = []
    for file in files:
        if not re.search(concept.hint, file.text):
            continue
        names = [
            found.name for found in file.definitions if re.search(concept.hint, found.text) and concept.betrays(found)
        ]
        places += [
            Place(file.path, found.name, found.node.lineno)
            for found in file.definitions
            if found.name in names and not any(name.startswith(f"{found.name}.") for name in names)
        ]
    return places


# What is counted


def long_chains(files: Iterable[File]) -> list[Place]:
    """Functions with a chain of five and more class tests on one name."""
    return [
        Place(file.path, found.name, found.node.lineno)
        for file in files
        for found in file.definitions
        if isinstance(found.node, Function)
        if len(re.findall(r"\bisinstance\b|\bis\b|\bin\b", found.text)) >= 5 and _longest_chain(found.node) >= 5
    ]


def _longest_chain(function: Function) -> int:
    """The most class tests of one name in the statements of a block, those of functions inside left out."""
    longest = 0
    blocks: list[list[ast.stmt]] = [function.body]
    while blocks:
        counted: Counter[str] = Counter()
        for stmt in blocks.pop():
            if isinstance(stmt, Function | ast.ClassDef):
                continue
            while isinstance(stmt, ast.If):
                counted.update(_asked(stmt.test))
                blocks.append(stmt.body)
                if len(stmt.orelse) != 1:
                    break
                stmt = stmt.orelse[0]
            for name in ("body", "orelse", "finalbody"):
                blocks.append(getattr(stmt, name, []))
            for inner in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
                blocks.append(inner.body)
        longest = max([longest, *counted.values()])
    return longest


def _asked(test: ast.expr) -> set[str]:
    """The texts of what a condition asks the class of."""
    asked = set()
    for part in walk(test):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "isinstance":
            asked.add(ast.unparse(part.args[0]))
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Is | ast.In):
            named = words(*walk(part.comparators[0]))
            if named and all(name in NODES or (name[:1].isupper() and not name.isupper()) for name in named):
                asked.add(ast.unparse(part.left).removesuffix(".__class__"))
    return asked


def modules_without_pass(files: Iterable[File]) -> list[Place]:
    """The modules of ``transforms`` that define no pass: no class derived from one."""
    return [
        Place(file.path, "", 1)
        for file in files
        if file.path.startswith("tirlower/transforms/") and not file.path.endswith("__init__.py")
        if not any(
            isinstance(found.node, ast.ClassDef) and any(base.endswith("Pass") for base in words(*found.node.bases))
            for found in file.definitions
        )
    ]


def modules_without_test(files: Iterable[File]) -> list[Place]:
    """The modules of the package without a test file of their name at the place that mirrors theirs.

    ``tirlower/ir/query.py`` is tested by ``tests/ir/test_query.py``. What only imports has nothing to test.
    """
    return [
        Place(file.path, "", 1)
        for file in files
        if file.path.startswith("tirlower/") and not file.path.endswith("__init__.py")
        if any(found.name != "__all__" for found in file.definitions)
        if not (ROOT / _mirrored(file.path)).exists()
    ]


def _mirrored(path: str) -> str:
    """Where the test of a module stands."""
    folder, _, name = path.rpartition("/")
    return f"{folder.replace('tirlower', 'tests', 1)}/test_{name.removesuffix('.py').strip('_')}.py"


MUTABLE = _names("dict list set WeakValueDictionary WeakKeyDictionary WeakSet defaultdict Counter OrderedDict deque")
AMBIENT = _names("ContextVar local")
CHANGES = _names("append add update setdefault pop clear extend insert remove discard popitem")


def mutable_values(files: Iterable[File]) -> list[Place]:
    """What modules and classes hold and functions change: names assigned anew, containers, objects whose fields are set.

    A container that is empty where it is made is taken as one that is filled later, by whomever. Caches of functions
    (``functools.cache``) are left out: they show in the time alone.
    """
    places = []
    for file in files:
        held: dict[str, ast.stmt] = {}
        changed: set[str] = set()
        for found in file.definitions:
            stmts = found.node.body if isinstance(found.node, ast.ClassDef) else [found.node]
            for stmt in stmts:
                value = stmt.value if isinstance(stmt, Assignment) else None
                name = _assigned(stmt)
                if name is None or name == "__all__" or value is None:
                    continue
                made = words(value.func) if isinstance(value, ast.Call) else set()
                if isinstance(found.node, ast.ClassDef):
                    if _is_container(value):
                        held[f"{found.name}.{name}"] = stmt
                    continue
                held[name] = stmt
                if made & AMBIENT or (_is_container(value) and _is_empty([value])):
                    changed.add(name)
        for found in file.definitions:
            if isinstance(found.node, Function):
                changed |= _changed(found, held)
        places += [Place(file.path, name, held[name].lineno) for name in sorted(changed & held.keys())]
    return places


def _assigned(stmt: ast.AST) -> str | None:
    target = stmt.targets[0] if isinstance(stmt, ast.Assign) else getattr(stmt, "target", None)
    return target.id if isinstance(target, ast.Name) else None


def _is_container(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp):
        return True
    return isinstance(value, ast.Call) and bool(words(value.func) & MUTABLE)


def _changed(found: Definition, held: dict[str, ast.stmt]) -> set[str]:
    """The names of a module, and the attributes of its classes, that a function changes."""
    if not re.search(r"\bglobal\b|" + "|".join(rf"\b{name.rpartition('.')[2]}\s*[.\[]" for name in held), found.text):
        return set()
    changed: set[str] = set()
    own: set[str] = set()
    for part in found.parts:
        target: ast.expr | None = None
        if isinstance(part, ast.Global):
            return {*part.names}
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            own.add(part.id)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in CHANGES:
            target = part.func.value
        elif isinstance(part, ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store | ast.Del):
            target = part.value
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            # A field of a class, or of an object that the module holds.
            holder = found.name.rpartition(".")[0] if target.value.id in ("cls", "self") else target.value.id
            changed.add(f"{holder}.{target.attr}")
            target = target.value
        if isinstance(target, ast.Name):
            changed.add(target.id)
    return changed - own


def statements(files: Iterable[File]) -> int:
    """How many statements files have; texts that stand alone are no statements."""
    count = 0
    for file in files:
        stack: list[ast.AST] = [file.tree]
        while stack:
            node = stack.pop()
            inner = [
                *getattr(node, "body", ()),
                *getattr(node, "orelse", ()),
                *getattr(node, "finalbody", ()),
                *getattr(node, "handlers", ()),
                *getattr(node, "cases", ()),
            ]
            stack += inner
            count += sum(
                isinstance(stmt, ast.stmt) and not (isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant))
                for stmt in inner
            )
    return count


def main(argv: list[str] | None = None) -> int:
    """Print what is wrong; 1 where something is."""
    gc.disable()  # a thousand syntax trees hold no cycles, and half the time went into looking for them
    try:
        return _report(argv)
    finally:
        gc.enable()


def _report(argv: list[str] | None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="print every place that a detector sees outside the homes")
    parser.add_argument("--homes", action="store_true", help="print every place that a detector sees at home")
    chosen = parser.parse_args(argv)
    package, others = python_files("tirlower"), python_files("tests", "bench")
    seen: dict[str, list[Place]] = {}
    for concept in CONCEPTS:
        places = betrayals(concept, package if concept.folders == ("tirlower",) else others)
        seen[concept.name] = [place for place in places if not place.path.startswith(concept.homes)]
        for place in sorted({*places} - {*seen[concept.name]}) if chosen.homes else ():
            print(f"{place.path}:{place.line}: {place.name}: {concept.name}: at home")
    seen["mutable process-wide values"] = mutable_values(package)
    seen["chains of five class tests on one name"] = long_chains(package)
    seen["modules of transforms without a pass"] = modules_without_pass(package)
    seen["modules without a test of their name"] = modules_without_test(package)
    wrong, notes = [], []
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))
    for name, places in seen.items():
        excused, limit = listed.get(name, {}), listed["limits"][name]
        left = [place for place in places if not excused.keys() & _keys(place)]
        for place in places if chosen.all else left if len(left) > limit else []:
            reason = next((excused[key] for key in _keys(place) if key in excused), "no reason is listed")
            print(f"{place.path}:{place.line}: {place.name}: {name}: {reason}")
        wrong += _against(name, len(left), limit, notes)
        known = {key for place in places for key in _keys(place)}
        wrong += [f"{name}: {key} is there no more" for key in sorted(excused.keys() - known)]
        wrong += [f"{name}: {key} has no reason" for key, reason in excused.items() if not reason.strip()]
        wrong += [
            f"{name}: the reason of {key} names {path}, which is not there"
            for key, reason in excused.items()
            for path in re.findall(r"\btests/[\w/.]*\w", reason)
            if not (ROOT / path).exists()
        ]
    wrong += _against("statements", statements(package), listed["limits"]["statements"], notes)
    print("\n".join(wrong + notes) or "as listed")
    return 1 if wrong else 0


def _keys(place: Place) -> dict[str, None]:
    """What an exception may name a place by: the definition, the file, the folder."""
    return dict.fromkeys((str(place), place.path, place.path.rpartition("/")[0] + "/"))


def _against(name: str, count: int, limit: int, notes: list[str]) -> list[str]:
    """What is wrong with a count; a limit that may be lowered is noted."""
    if count < limit:
        notes.append(f"{name}: {count}, the limit of {limit} may be lowered")
    if count <= limit:
        return []
    return [f"{name}: {count}, and the limit is {limit}: use what is there, or list a reason in {LIST.name}"]


if __name__ == "__main__":
    sys.exit(main())
