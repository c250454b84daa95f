"""Modules as text, and back: states, a function for each graph, and a line that says what the module is made of.

>>> import tirlower.graph as tg
>>> print(tg.Module({"f": tg.trace(lambda x: x + x, tg.spec((4,), "float32"))}))
@tg.graph
def f(x: tg.Tensor((4,), "float32")):
    add: tg.Tensor((4,), "float32") = tg.add(x, x)
    return add
<BLANKLINE>
module = tg.module({"f": f})
"""

from __future__ import annotations

import ast
import json
from functools import partial

from tirlower.diagnostics import Span
from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Graph
from tirlower.graph.core.parser import Parser, Store, parsed
from tirlower.graph.core.printer import graph_lines, identifier, state_line
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.control import State
from tirlower.graph.frontend.modules import kernels
from tirlower.ir import IRModule

__all__ = ["module_text", "parse_module"]

_OWN = ("tg", "module", "float")


def module_text(module: Module) -> str:
    """A module as text."""
    held: dict[object, str] = {}
    for one in module.globals:
        held[one] = identifier(one.name, {*_OWN, *held.values()})
    parts = [[state_line(one, held[one]) for one in module.globals]] if module.globals else []
    names: dict[str, str] = {}
    for key, graph in module.graphs.items():
        names[key] = identifier(key, {*_OWN, *held.values(), *names.values()})
        parts.append(graph_lines(graph.with_(name=names[key]), held))
    arguments = [f"{{{', '.join(f'{_quoted(key)}: {name}' for key, name in names.items())}}}"]
    if module.globals:
        arguments.append(f"globals=({', '.join(held.values())}{',' * (len(held) == 1)})")
    if module.kernels.functions:
        arguments.append(f"kernels=tg.kernels({_quoted(module.kernels.script())})")
    parts.append([f"module = tg.module({', '.join(arguments)})"])
    return "\n\n".join("\n".join(lines) for lines in parts)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def parse_module(text: str, constants: Store | None = None) -> Module:
    """The module of a text that ``str(module)`` made, or that is written so; ``constants`` as for :func:`tirlower.graph.parse`.

    Raises :class:`GraphError`, pointing into the text, for what is no module.
    """
    tree, source = parsed(text)
    nothing = ast.FunctionDef("module", ast.arguments([], [], None, [], [], None, []), [], [])
    reader = Parser(source, nothing, constants or {})
    graphs: dict[str, Graph] = {}
    for n, statement in enumerate(tree.body):
        if isinstance(statement, ast.FunctionDef):
            # Each graph has dims of its own; states are those of all.
            one = Parser(source, statement, constants or {})
            one.shared.update({name: thing for name, thing in reader.shared.items() if isinstance(thing, State)})
            if statement.name in graphs or statement.name in reader.shared:
                reader.fail(f"{statement.name!r} is made twice", statement)
            graphs[statement.name] = one.graph()
        elif _is_module(statement):
            if n + 1 != len(tree.body):
                reader.fail("nothing stands behind the module", tree.body[n + 1])
            return _made(reader, statement, graphs)
        elif not reader.declares(statement):
            reader.fail("this is no state, graph or module", statement, "module = tg.module({'main': main})")
    raise GraphError(
        "the text has no module",
        span=Span(source, 1, 0, 1, 0) if text else None,
        help="its last line is `module = tg.module({'main': main})`",
    )


def _is_module(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "tg.module"


def _made(reader: Parser, statement: ast.stmt, graphs: dict[str, Graph]) -> Module:
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(call, ast.Call) or len(call.args) != 1 or not isinstance(call.args[0], ast.Dict):
        reader.fail("a module is made of a dict of graphs", statement, "tg.module({'main': main})")
    named: dict[str, Graph] = {}
    for key, value in zip(call.args[0].keys, call.args[0].values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str) or key.value in named:
            reader.fail("each graph has a name of its own", call.args[0])
        if not isinstance(value, ast.Name) or value.id not in graphs:
            reader.fail(f"this is no graph that stands before this line: {ast.unparse(value)}", value)
        named[key.value] = graphs[value.id]
    held: list[State] = []
    written = IRModule({})
    for each in call.keywords:
        if each.arg == "globals" and isinstance(each.value, ast.Tuple):
            for one in each.value.elts:
                found = reader.shared.get(one.id) if isinstance(one, ast.Name) else None
                if not isinstance(found, State):
                    reader.fail(f"this is no state that stands before this line: {ast.unparse(one)}", one)
                held.append(found)
        elif each.arg == "kernels" and isinstance(each.value, ast.Call) and len(each.value.args) == 1:
            written = reader.at(each.value, partial(kernels, str(reader.literal(each.value.args[0]))))
        else:
            reader.fail("a module has graphs, globals and kernels", each.value)
    return reader.at(call, lambda: Module(named, [one.held for one in held], written))
