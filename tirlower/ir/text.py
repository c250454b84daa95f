"""The one door from the language to its printer, which stands a floor above and is imported when a text is asked for.

Nodes have texts whatever was imported: ``str(node)``, ``func.script()``, ``func.show()``, and the places that errors
underline in printed IR all come through here. Nothing installs itself anywhere.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from tirlower.diagnostics import Span

__all__ = ["locate", "script", "show", "text"]


@functools.cache
def _printer() -> ModuleType:
    # All of the script: the printer writes calls by the names that its namespaces declare.
    importlib.import_module("tirlower.script")
    return importlib.import_module("tirlower.script.printer")


def text(node: object) -> str:
    """The text of a node: an expression on one line, statements and functions as their script.

    >>> from tirlower.ir import Add, Var
    >>> text(Add(Var("x"), 1))
    'x + 1'
    """
    found: str = _printer().text(node)
    return found


def script(node: object, **options: object) -> str:
    """The script of a function or module (see :func:`tirlower.script.printer.script`)."""
    found: str = _printer().script(node, **options)
    return found


def show(node: object, *style: str, **options: object) -> None:
    """Print the script (see :func:`tirlower.script.printer.show`)."""
    _printer().show(node, *style, **options)


def locate(root: object, name: str, chain: list[object]) -> Span | None:
    """Where the last of the nodes from the root along a chain that has a place stands in the root's printed text.

    ``name`` is what messages call that text.
    """
    found: Span | None = _printer().locate(root, name, chain)
    return found
