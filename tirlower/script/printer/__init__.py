"""The printer: IR as a script that parses back to a structurally equal program.

:func:`script` gives the text, :func:`print_with_spans` also where each node stands in it, so that errors can
underline printed IR. Ill-formed IR is printed too, with marks: undefined variables are declared under a comment, what
no script can say is a comment itself; the printer never raises for it.
"""

from __future__ import annotations

from tirlower.diagnostics import Span, TirError, deep_recursion
from tirlower.ir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tirlower.ir.expr import Expr
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.node import Node
from tirlower.ir.stmt import BlockIter, Stmt
from tirlower.script.namespace import NAMESPACES
from tirlower.script.printer.deep import cuts
from tirlower.script.printer.document import Document, NodeSpans, PrintedScript
from tirlower.script.printer.expressions import ExprPrinter
from tirlower.script.printer.functions import print_function, print_module
from tirlower.script.printer.highlight import colored, wants_color
from tirlower.script.printer.names import Names
from tirlower.script.printer.scan import ROOT, Scan
from tirlower.script.printer.statements import StmtPrinter

__all__ = ["NodeSpans", "PrintedScript", "colored", "locate", "print_with_spans", "script", "show", "text"]

HEADER = "# from tirlower.script import tir as T"
MODULE_HEADER = "# from tirlower.script import ir as I\n" + HEADER


def _lookup(name: str) -> object:
    """A function of the dialect by its name after ``T.``."""
    return NAMESPACES["tirlower.script.tir"].find(name)


def _document(node: object, indent: int, marks: bool, header: bool) -> Document:
    doc = Document(indent, marks)
    if header and isinstance(node, (IRModule, PrimFunc)):
        doc.lines += [*(MODULE_HEADER if isinstance(node, IRModule) else HEADER).split("\n"), ""]
    with deep_recursion():
        try:
            if isinstance(node, IRModule):
                print_module(doc, node, _lookup)
            elif isinstance(node, PrimFunc):
                print_function(doc, node, _lookup)
            elif isinstance(node, Stmt):
                _fragment(doc, node).rest(node)
            else:
                _print_part(doc, node)
        except (AttributeError, LookupError, TirError, TypeError, ValueError) as err:
            # Outside its statements, which mark such things themselves, a function holds what no field can.
            doc.line([f"# ill-formed: {type(node).__name__}: {type(err).__name__}: {err}"])
    return doc


def _fragment(doc: Document, node: object) -> StmtPrinter:
    """A printer for something outside a function, in which what is free has its name from the start."""
    scan = Scan()
    scan.node(node)
    printer = StmtPrinter(doc, _lookup, scan)
    for item in (*scan.free, *scan.views.get(ROOT, ())):
        printer.name_free(item)
    return printer


def _print_part(doc: Document, node: object) -> None:
    """A node that is no statement: an expression, or an object of one."""
    printer = _fragment(doc, node)
    if isinstance(node, Expr):
        pieces = printer.pieces(node)
    elif isinstance(node, (BufferRegion, MatchBufferRegion)):
        pieces = printer.region(node.source if isinstance(node, MatchBufferRegion) else node)
    elif isinstance(node, BlockIter):
        printer.axis(node)
        return
    elif isinstance(node, Buffer):
        pieces = ["T.Buffer(", *printer.spec(node), ")"]
    else:
        pieces = printer.attr_pieces(node)
    printer.emit(pieces)


def script(node: object, *, header: bool = False, indent: int = 4) -> str:
    """The script of a function or module (or the text of any other node).

    ``header`` puts the import line, as a comment, on top; ``indent`` is the width of an indentation. ``parse`` of a
    function's or module's text gives a structurally equal one.
    """
    return _document(node, indent, False, header).text()


def print_with_spans(node: object, name: str = "<printed>", *, header: bool = False, indent: int = 4) -> PrintedScript:
    """The script with the place of every node: ``printed.spans[node]``; ``name`` is what messages call the text."""
    doc = _document(node, indent, True, header)
    return PrintedScript(node, doc.text(), doc.places, name)


def show(node: object, *, color: bool | None = None, header: bool = False, indent: int = 4) -> None:
    """Print the script to standard output; in colour on a terminal, or as ``color`` says."""
    text = script(node, header=header, indent=indent)
    print(colored(text) if (wants_color() if color is None else color) else text)


def _expr_text(expr: Expr) -> str:
    """An expression on one line; what is shared and would explode stands on lines before it."""
    if cuts(expr, deep=False):
        return script(expr)
    printer = ExprPrinter(Names(), _lookup)
    text = printer.text(expr)
    if not printer.prelude:
        return text
    # With a Let inside, free variables need their names first, so that none is taken for a bound one.
    scan = Scan()
    scan.expr(expr)
    printer = ExprPrinter(Names(), _lookup)
    for item in (*scan.free, *scan.views.get(ROOT, ())):
        printer.name_free(item)
    return printer.text(expr)


def text(node: Node) -> str:
    """The text of a node: an expression or a range on one line, anything else as its script."""
    if isinstance(node, Expr):
        return _expr_text(node)
    return f"{node.min}:{node.min + node.extent}" if isinstance(node, Range) else script(node)


def locate(root: object, name: str, chain: list[object]) -> Span | None:
    """Where the last of the nodes of a chain (from the root down) that has a place stands in the root's script."""
    return print_with_spans(root, name).spans.locate(chain)
