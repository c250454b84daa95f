"""The ways in: ``@T.prim_func``, ``@T.macro``, ``@I.ir_module``, and :func:`parse` for a text."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from types import FrameType, FunctionType
from typing import ParamSpec, TypeAlias, TypeVar, cast, overload

from tirlower.diagnostics import ScriptError, Source, TirError, deep_recursion, paused_collection, user_frames
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.func import IRModule, Origin, PrimFunc
from tirlower.ir.verify import verify_well_formed
from tirlower.script.macro import Macro
from tirlower.script.namespace import NAMESPACES, GlobalCallee, ModuleRef
from tirlower.script.parse_function import Parser
from tirlower.script.scope import SAFE_BUILTINS, PythonScope
from tirlower.script.source import class_at, definition_at, parse_text, source_lines

__all__ = ["ir_module", "macro", "parse", "prim_func"]


P = ParamSpec("P")
Written: TypeAlias = Callable[P, object]
"""What a decorator is given: a function."""


@overload
def prim_func(
    func: Written[P], private: bool = ..., check_well_formed: bool = ..., s_tir: bool = ..., tirx: bool = ...
) -> PrimFunc: ...
@overload
def prim_func(
    func: None = None,
    private: bool = ...,
    check_well_formed: bool = ...,
    s_tir: bool = ...,
    tirx: bool = ...,
    **options: object,
) -> Callable[[Written[P]], PrimFunc]: ...
def prim_func(
    func: Written[P] | None = None,
    private: bool = False,
    check_well_formed: bool = True,
    s_tir: bool = False,
    tirx: bool = False,
    **options: object,
) -> PrimFunc | Callable[[Written[P]], PrimFunc]:
    """Decorator: the function of a script, as a :class:`~tirlower.ir.PrimFunc`.

    ``private=True`` leaves out the attribute ``global_symbol``; ``check_well_formed=False`` skips
    :func:`~tirlower.ir.verify.verify_well_formed`. Other keywords that TVM knows mean nothing here.
    In a class under ``@I.ir_module`` the function stays as it is for the class's decorator to read.
    Raises :class:`~tirlower.diagnostics.ScriptError`, which points into the script.
    """
    frame = sys._getframe(1)

    def decorate(target: object, where: FrameType = frame) -> PrimFunc:
        if isinstance(target, PrimFunc):
            return target
        if not isinstance(target, FunctionType):
            raise TirError(f"@T.prim_func decorates a function, got {type(target).__name__}")
        if _in_ir_module(target, where):
            return cast("PrimFunc", target)  # till the class's decorator makes it one
        with user_frames(), deep_recursion(), paused_collection():
            tree, source, shift = definition_at(target.__code__, target.__globals__, target.__name__)
            parser = Parser(source, PythonScope.of_function(target, where), shift)
            return _parsed(lambda: _written(target, parser.function(tree, private)), source, check_well_formed)

    return decorate if func is None else decorate(func)


def _written(function: FunctionType, made: PrimFunc) -> PrimFunc:
    """A prim func that knows the Python function it was written as."""
    return made.with_(origin=Origin(made.origin.doc, function.__module__, function))


Parsed = TypeVar("Parsed", bound=PrimFunc | IRModule)


def _parsed(run: Callable[[], Parsed], source: Source, check: bool) -> Parsed:
    try:
        made = run()
        if check:
            verify_well_formed(made)
        return made
    except RecursionError:
        raise ScriptError(
            f"the script in {source.name} nests too deeply for Python's recursion limit",
            help="split it into statements with `x = T.meta_var(…)`",
        ) from None


def macro(func: Written[P] | None = None, *, hygienic: bool = True) -> Macro | Callable[[Written[P]], Macro]:
    """Decorator: a piece of script that is parsed at each of its calls (see :class:`~tirlower.script.macro.Macro`)."""
    frame = sys._getframe(1)

    def decorate(target: object) -> Macro:
        if not isinstance(target, FunctionType):
            raise TirError(f"@T.macro decorates a function, got {type(target).__name__}")
        with user_frames():
            return Macro.of_function(target, hygienic, frame)

    return decorate if func is None else decorate(func)


def _in_ir_module(func: FunctionType, frame: FrameType) -> bool:
    """Whether a function stands in the body of a class that is decorated as a module."""
    owner = func.__qualname__.rpartition(".")[0]
    if not owner or owner.endswith("<locals>") or frame.f_code.co_name != owner.rpartition(".")[2]:
        return False
    first = frame.f_code.co_firstlineno
    lines = source_lines(frame.f_code, owner.rpartition(".")[2], frame.f_globals)
    if len(lines) < func.__code__.co_firstlineno:
        return False  # no source: which reading the function says
    # The class's code begins at its first decorator or at its `class`, by the version of Python.
    above = first - 1
    while above > 0 and lines[above - 1].lstrip().startswith("@"):
        above -= 1
    for line in lines[above : func.__code__.co_firstlineno]:
        text = line.strip()
        if text.startswith("class "):
            return False
        if text.startswith("@") and "ir_module" in text:
            return True
    return False


@overload
def ir_module(mod: type, check_well_formed: bool = ..., s_tir: bool = ...) -> IRModule: ...
@overload
def ir_module(
    mod: None = None, check_well_formed: bool = ..., s_tir: bool = ..., **options: object
) -> Callable[[type], IRModule]: ...
def ir_module(
    mod: type | None = None, check_well_formed: bool = True, s_tir: bool = False, **options: object
) -> IRModule | Callable[[type], IRModule]:
    """Decorator: the functions of a class as an :class:`~tirlower.ir.IRModule`."""
    frame = sys._getframe(1)

    def decorate(cls: object) -> IRModule:
        with user_frames():
            if not isinstance(cls, type):
                raise TirError(f"@I.ir_module decorates a class, got {type(cls).__name__}")
            functions = {name: f for name, f in vars(cls).items() if isinstance(f, FunctionType)}
            codes = [f.__code__ for f in functions.values()]
            first = min((code.co_firstlineno for code in codes), default=frame.f_lineno)
            first = first if codes else first + 8
            tree, source, shift = class_at(cls, first, codes[0] if codes else frame.f_code, frame.f_globals)
            outer = PythonScope.of_frame(cls.__qualname__, frame, _class_values(cls))
            scopes = {name: PythonScope.of_function(f, frame) for name, f in functions.items()}
            with deep_recursion():
                made = _parsed(lambda: _module(tree, source, shift, outer, scopes, False), source, check_well_formed)
                return made.with_functions({name: _written(functions[name], func) for name, func in made.items()})

    return decorate if mod is None else decorate(mod)


def _class_values(cls: type) -> dict[str, object]:
    return {k: v for k, v in vars(cls).items() if not k.startswith("__") and not isinstance(v, FunctionType)}


def _module(
    tree: ast.ClassDef,
    source: Source,
    shift: int,
    outer: PythonScope,
    scopes: Mapping[str, PythonScope],
    text_only: bool,
) -> IRModule:
    parser = Parser(source, outer, shift, text_only)
    attrs: dict[str, object] = {}
    definitions: list[tuple[ast.FunctionDef, bool]] = []
    callees: dict[str, GlobalCallee] = {}
    for node in tree.body:
        parser.current = node
        if isinstance(node, ast.FunctionDef):
            decorator = _decorator(parser, node)
            if isinstance(decorator, dict):
                definitions.append((node, bool(decorator.get("private", False))))
                continue
            if decorator == "macro" and not text_only:
                continue  # it stands in the class's namespace
            raise parser.error(f"the function {node.name!r} of a module is decorated with @T.prim_func", node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if name == "module_attrs":
                attrs.update(parser.entries_of(call.args[0]))
                continue
            if name == "module_global_infos":
                continue
        if isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = parser.eval(node.value)
            parser.take_name(value, node.targets[0].id)
            parser.names.set(node.targets[0].id, value)
            continue
        raise parser.error("a module holds functions under @T.prim_func and I.module_attrs({…})", node)
    for node, _ in definitions:
        inner = Parser(source, scopes.get(node.name, outer), shift, text_only)
        inner.current = node
        kind = inner.return_type(node)
        callees[node.name] = GlobalCallee(node.name, DataType("handle") if isinstance(kind, PointerType) else kind)
    functions: dict[str, PrimFunc] = {}
    for node, private in definitions:
        if node.name in functions:
            raise parser.error(f"the module has two functions {node.name!r}", node)
        inner = Parser(source, scopes.get(node.name, outer), shift, text_only)
        inner.functions = callees
        inner.names.table.update(parser.names.table)
        inner.names.table[tree.name] = ModuleRef(tree.name, callees)
        functions[node.name] = inner.function(node, private)
    return IRModule(functions, attrs)


def _decorator(parser: Parser, node: ast.FunctionDef | ast.ClassDef) -> dict[str, object] | str | None:
    """What a definition is decorated as: a prim_func (its options), "macro", "ir_module", or nothing known."""
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        value = parser.eval(target)
        if value is prim_func:
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            return {k.arg: parser.eval(k.value) for k in keywords if k.arg}
        if value is macro:
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            options = {k.arg: parser.eval(k.value) for k in keywords if k.arg}
            return "macro" if options.get("hygienic", True) else "macro, not hygienic"
        if value is ir_module:
            return "ir_module"
    return None


def parse(
    text: str, extra_vars: Mapping[str, object] | None = None, check_well_formed: bool = True, *, name: str = "<script>"
) -> PrimFunc | IRModule:
    """The function or module that a text defines.

    ``T`` and ``I`` are known without an import; ``extra_vars`` adds names that the text may use; ``name`` is shown in
    messages. Nothing of the text runs as Python: only the dialect is evaluated. A ``def`` without a decorator is a
    prim_func. Constants, variables (``n = T.int32()``) and macros may stand before the definition.
    ``check_well_formed=False``, here or in the decorator of the definition, skips the check of the IR's rules. Raises :class:`~tirlower.diagnostics.ScriptError`.

    >>> func = parse('''
    ... def f(A: T.Buffer((8,), "float32")):
    ...     for i in T.parallel(8):
    ...         A[i] = 0.0
    ... ''')
    >>> func.body.kind.name, func.body.extent.value
    ('PARALLEL', 8)
    """
    values: dict[str, object] = {
        "T": NAMESPACES["tirlower.script.tir"].module,
        "I": NAMESPACES["tirlower.script.ir"].module,
        **(extra_vars or {}),
    }
    with user_frames(), deep_recursion(200_000), paused_collection():
        return _parse_text(text, name, values, check_well_formed)


def _parse_text(text: str, name: str, values: dict[str, object], check_well_formed: bool) -> PrimFunc | IRModule:
    # A function of its own, so that the syntax tree is gone before the garbage collector looks around again.
    scope = PythonScope([values, SAFE_BUILTINS])
    tree, source = parse_text(text, name)
    return _parsed(lambda: _text(tree, source, scope, values), source, check_well_formed and not _unchecked(tree))


def _unchecked(tree: ast.Module) -> bool:
    """Whether the decorator of a text's definition says that it is not checked."""
    calls = [d for node in tree.body for d in getattr(node, "decorator_list", ()) if isinstance(d, ast.Call)]
    said = [k.value for call in calls for k in call.keywords if k.arg == "check_well_formed"]
    return any(isinstance(value, ast.Constant) and value.value is False for value in said)


def _text(tree: ast.Module, source: Source, scope: PythonScope, values: dict[str, object]) -> PrimFunc | IRModule:
    found: PrimFunc | IRModule | None = None
    for node in tree.body:
        parser = Parser(source, scope, 0, True)
        parser.current = node
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            _import(parser, node, values)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            value = parser.eval(node.value)
            if isinstance(node.targets[0], ast.Name):
                parser.take_name(value, node.targets[0].id)
            parser.assign_names(node.targets[0], value)
            values.update(parser.names.table)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            decorator = _decorator(parser, node)
            if isinstance(node, ast.FunctionDef) and isinstance(decorator, str) and decorator.startswith("macro"):
                signature = _signature(parser, node)
                values[node.name] = Macro(
                    node.name, node, source, 0, scope, decorator == "macro", signature, text_only=True
                )
                continue
            if found is not None:
                raise parser.error(
                    "a text defines one function or one module", node, help="put several functions under @I.ir_module"
                )
            if isinstance(node, ast.ClassDef):
                found = _module(node, source, 0, scope, {}, True)
            else:
                private = bool(decorator.get("private", False)) if isinstance(decorator, dict) else False
                found = parser.function(node, private)
        else:
            raise parser.error("a text defines one prim_func or one ir_module", node)
    if found is None:
        raise ScriptError(f"the text {source.name} defines no function", help="write `@T.prim_func` and a `def`")
    return found


def _import(parser: Parser, node: ast.Import | ast.ImportFrom, values: dict[str, object]) -> None:
    """Imports of the dialect's namespaces bind their names; nothing is imported."""
    for alias in node.names:
        module = NAMESPACES.get(f"tirlower.script.{alias.name}")
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("script") and module is not None:
            values[alias.asname or alias.name] = module.module
        elif not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            raise parser.error(
                "a script given as text imports nothing but the dialect",
                node,
                help="from tirlower.script import tir as T, ir as I",
            )


def _signature(parser: Parser, node: ast.FunctionDef) -> inspect.Signature:
    spec = node.args
    names = [a.arg for a in [*spec.posonlyargs, *spec.args]]
    defaults = [parser.eval(d) for d in spec.defaults]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = len(names) - len(defaults)
    params = [
        inspect.Parameter(n, kind, default=defaults[i - first] if i >= first else inspect.Parameter.empty)
        for i, n in enumerate(names)
    ]
    if spec.vararg:
        params.append(inspect.Parameter(spec.vararg.arg, inspect.Parameter.VAR_POSITIONAL))
    return inspect.Signature(params)
