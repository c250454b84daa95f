"""The printer: IR as a script that parses back to a structurally equal program.

:func:`script` gives the text, :func:`print_with_spans` also where each node stands in it, so that errors can
underline printed IR. Ill-formed IR is printed too, with marks: undefined variables are declared under a comment, what
no script can say is a comment itself; the printer never raises for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypedDict, Unpack

from tirlower.diagnostics import Span, TirError, deep_recursion
from tirlower.ir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.expr import Expr, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.node import Node
from tirlower.ir.path import Path
from tirlower.ir.stmt import BlockIter, Stmt
from tirlower.script.namespace import NAMESPACES
from tirlower.script.printer.deep import cuts
from tirlower.script.printer.document import Document, NodeSpans, PrintedScript
from tirlower.script.printer.expressions import ExprPrinter
from tirlower.script.printer.functions import print_function, print_module
from tirlower.script.printer.highlight import colored, wants_color
from tirlower.script.printer.literals import type_text
from tirlower.script.printer.marks import marked, with_prefixes
from tirlower.script.printer.names import Names
from tirlower.script.printer.scan import ROOT, Scan
from tirlower.script.printer.statements import StmtPrinter
from tirlower.script.printer.style import USUAL, Style

__all__ = [
    "NodeSpans",
    "PrintedScript",
    "ScriptOptions",
    "colored",
    "locate",
    "print_with_spans",
    "script",
    "show",
    "text",
]

HEADER = "# from tirlower.script import tir as T"
MODULE_HEADER = "# from tirlower.script import ir as I\n" + HEADER


class ScriptOptions(TypedDict, total=False):
    """What :func:`script` takes besides the node."""

    header: bool
    indent: int
    name: str | None
    ir_prefix: str
    tir_prefix: str
    module_alias: str | None
    buffer_dtype: str
    int_dtype: str
    float_dtype: str
    verbose_expr: bool
    syntax_sugar: bool
    indent_spaces: int | None
    print_line_numbers: bool
    num_context_lines: int | None
    show_meta: bool
    show_object_address: bool
    path_to_underline: Iterable[Path]
    path_to_annotate: Mapping[Path, str] | None
    obj_to_underline: Iterable[object]
    obj_to_annotate: Mapping[object, str] | None


def _lookup(name: str) -> object:
    """A function of the dialect by its name after ``T.``."""
    return NAMESPACES["tirlower.script.tir"].find(name)


@dataclass(frozen=True)
class _Look:
    """How a text is to look."""

    indent: int = 4
    header: bool = False
    name: str | None = None
    addresses: bool = False
    metadata: bool = False
    declares: bool = False
    alias: str | None = None
    style: Style = USUAL


def _document(node: object, look: _Look, marks: bool) -> Document:
    doc = Document(look.indent, marks, look.addresses, [] if look.metadata else None, look.style)
    if look.header and isinstance(node, (IRModule, PrimFunc)):
        doc.lines += [*(MODULE_HEADER if isinstance(node, IRModule) else HEADER).split("\n"), ""]
    before = len(doc.lines)
    with deep_recursion():
        try:
            if isinstance(node, IRModule):
                print_module(doc, node, _lookup, look.name, look.alias)
            elif isinstance(node, PrimFunc):
                print_function(doc, node, _lookup, look.name)
            elif isinstance(node, Stmt):
                _fragment(doc, node, look.declares).rest(node)
            elif isinstance(node, (DataType, PointerType)):
                doc.line([type_text(node)])
            else:
                _print_part(doc, node, look.declares)
        except (AttributeError, LookupError, TirError, TypeError, ValueError) as err:
            # Outside its statements, which mark such things themselves, a function holds what no field can.
            doc.line([f"# ill-formed: {type(node).__name__}: {type(err).__name__}: {err}"])
    if doc.metadata:
        doc.insert(before, ['metadata = {"array": [' + ", ".join(doc.metadata) + "]}", ""])
    return doc


def _fragment(doc: Document, node: object, declares: bool = False) -> StmtPrinter:
    """A printer for something outside a function, in which what is free has its name from the start; with ``declares``
    lines in front make it."""
    scan = Scan()
    scan.node(node)
    printer = StmtPrinter(doc, _lookup, scan)
    views = scan.views.get(ROOT, ())
    for item in (*scan.free, *views):
        if not declares:
            printer.name_free(item)
        elif isinstance(item, Var):
            printer.make([item], [item.name])
    for buffer in views if declares else ():
        printer.view(buffer)
    return printer


def _print_part(doc: Document, node: object, declares: bool) -> None:
    """A node that is no statement: an expression, or an object of one."""
    printer = _fragment(doc, node, declares and isinstance(node, Expr))
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


def script(
    node: object,
    *,
    header: bool = False,
    indent: int = 4,
    name: str | None = None,
    ir_prefix: str = "I",
    tir_prefix: str = "T",
    module_alias: str | None = None,
    buffer_dtype: str = USUAL.buffer_dtype,
    int_dtype: str = USUAL.int_dtype,
    float_dtype: str = USUAL.float_dtype,
    verbose_expr: bool = False,
    syntax_sugar: bool = True,
    indent_spaces: int | None = None,
    print_line_numbers: bool = False,
    num_context_lines: int | None = None,
    show_meta: bool = False,
    show_object_address: bool = False,
    path_to_underline: Iterable[Path] = (),
    path_to_annotate: Mapping[Path, str] | None = None,
    obj_to_underline: Iterable[object] = (),
    obj_to_annotate: Mapping[object, str] | None = None,
) -> str:
    """The script of a function or module (or the text of any other node, type or layout).

    ``header`` puts the import line, as a comment, on top; ``indent`` (or TIR's ``indent_spaces``) is the width of an
    indentation; ``name`` that of the function or module; the prefixes name the namespaces, and ``module_alias`` the module
    where its functions are called. ``parse`` of a function's or module's text gives a structurally equal one, also with
    ``show_meta``, which puts the contents of constant arrays in front, out of the way.

    Declarations of buffers of ``buffer_dtype`` leave it out, integers of ``int_dtype`` are bare, floats of ``float_dtype``
    where an operand beside them or what they are stored to says it ("void": none is). The parser takes the defaults for
    granted, so texts with another ``buffer_dtype`` or ``int_dtype`` than these or "void" are for people. ``syntax_sugar=False``
    writes no ``T.grid``, ``T.axis.remap``, ``T.Buffer`` parameters and ``range``, and the root block. ``verbose_expr``
    declares the variables and buffers of an expression or statement on lines before it.

    ``obj_to_underline`` (nodes, wherever they stand) and ``path_to_underline`` (places) have ``^^^`` below them,
    ``obj_to_annotate`` and ``path_to_annotate`` a comment behind their line; ``num_context_lines`` leaves out what is
    farther from the underlined. ``show_object_address`` makes names of objects tell them apart. Such texts are for
    people. Raises :class:`TirError` for a mark on what the text does not show.

    >>> from tirlower.ir import Buffer, BufferStore, Var
    >>> i, A = Var("i"), Buffer("A", (8,), "int32")
    >>> store = BufferStore(A, i * 2 + 1, (i,))
    >>> print(script(store, obj_to_underline=[store.value.a], obj_to_annotate={store: "odd numbers"}))
    A[i] = i * 2 + 1  # odd numbers
           ^^^^^
    """
    style = Style(buffer_dtype, int_dtype, float_dtype, syntax_sugar)
    width = indent if indent_spaces is None else indent_spaces
    look = _Look(width, header, name, show_object_address, show_meta, verbose_expr, module_alias, style)
    wanted = (path_to_underline, path_to_annotate, obj_to_underline, obj_to_annotate)
    if not any(wanted) and not print_line_numbers:
        return with_prefixes(_document(node, look, False).text(), tir_prefix, ir_prefix)
    doc = _document(node, look, True)
    text = marked(
        PrintedScript(node, doc.text(), doc.places, "<printed>"),
        obj_to_underline=obj_to_underline,
        obj_to_annotate=obj_to_annotate,
        path_to_underline=path_to_underline,
        path_to_annotate=path_to_annotate,
        print_line_numbers=print_line_numbers,
        num_context_lines=num_context_lines,
    )
    return with_prefixes(text, tir_prefix, ir_prefix)


def print_with_spans(node: object, name: str = "<printed>", *, header: bool = False, indent: int = 4) -> PrintedScript:
    """The script with the place of every node: ``printed.spans[node]``; ``name`` is what messages call the text."""
    doc = _document(node, _Look(indent, header), True)
    return PrintedScript(node, doc.text(), doc.places, name)


def show(
    node: object,
    style: str | None = None,
    black_format: bool = False,
    *,
    color: bool | None = None,
    **options: Unpack[ScriptOptions],
) -> None:
    """Print the script to standard output; in colour on a terminal, or as ``color`` or a ``style`` says.

    The styles are ``"light"`` and ``"dark"``, for backgrounds, ``"ansi"``, the terminal's own colours, and ``"plain"``;
    ``options`` are those of :func:`script`; ``black_format``, which TVM has, changes nothing: a text has one form. Raises :class:`TirError` for another style.
    """
    text = script(node, **options)
    if style is None:
        style = "ansi" if (wants_color() if color is None else color) else "plain"
    print(colored(text, style))


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
