"""Buffers as text: how they are declared, and the lines that a statement needs before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tirlower.ir.buffer import Buffer, BufferRegion, MatchBufferRegion, pointer_dtype
from tirlower.ir.dtype import INT32, Array, DataType, PointerType
from tirlower.ir.expr import Expr, IntImm, Var
from tirlower.ir.stmt import AllocBuffer, AllocConst, DeclBuffer, true_condition
from tirlower.script.printer.deep import cuts
from tirlower.script.printer.document import Document, Piece
from tirlower.script.printer.expressions import ExprPrinter, Item
from tirlower.script.printer.literals import float_text, new_var, string_text
from tirlower.script.printer.names import Names, identifier
from tirlower.script.printer.scan import Scan

__all__ = ["BufferPrinter"]


class BufferPrinter(ExprPrinter):
    """An expression printer that writes to a document, and knows how buffers are declared."""

    def __init__(self, doc: Document, lookup: Callable[[str], object], scan: Scan) -> None:
        super().__init__(Names(doc.addresses), lookup, doc.marks, doc.style)
        self.doc = doc
        self.scan = scan
        self.loops: dict[Var, tuple[Expr, Expr]] = {}
        self.claims: set[Buffer] = set()
        """Buffers printed as a data variable first (``T.allocate``), then as a buffer of it."""
        self._before: list[list[Piece]] = []

    # Lines

    def pieces(self, root: Expr, need: int = 0, explicit: bool = False) -> list[Piece]:
        """An expression's parts; what nests too deeply goes to lines before the statement."""
        for part in cuts(root):
            if id(part) in self.meta:
                continue
            text = super().pieces(part)
            name = self.names.fresh("expr")
            while name in self.prelude:
                name = self.names.fresh("expr")
            self._before.append([name, " = T.meta_var(", *text, ")"])
            self.meta[id(part)] = name
        return super().pieces(root, need, explicit)

    @property
    def needs_lines(self) -> bool:
        """Whether what was rendered last needs lines before it."""
        return bool(self._before or self.prelude)

    def discard(self) -> None:
        """Forget what was rendered since the last line."""
        self._before = []
        self.prelude = {}
        self.meta = {}

    def emit(self, pieces: Sequence[Piece], *nodes: object) -> None:
        """Write a line for nodes, after those that its expressions need."""
        for name, made in self.prelude.items():
            self.doc.line([name, " = ", made])
            # Taken from here on: a binding of the same name in an inner scope would make one variable of the two.
            self.names.take(name)
        for line in self._before:
            self.doc.line(line)
        if self._before or self.prelude or self.meta:
            self.discard()
        self.doc.line(pieces, *nodes)

    def make(self, variables: Sequence[Var], names: Sequence[str]) -> None:
        """Write the line that makes variables, ``m, n = T.int32(), T.int32()``, under names close to those given.

        The line stands before the statement whose expressions were rendered already, so its names are none of theirs.
        """
        made = []
        for var, wanted in zip(variables, names, strict=True):
            name = self.names.define(var, wanted)
            while name in self.prelude:
                name = self.names.define(var, wanted)
            made.append(name)
        if made:
            self.doc.line([", ".join(made), " = ", ", ".join(new_var(var) for var in variables)])

    def listed(self, exprs: Sequence[Expr]) -> list[Piece]:
        """Expressions separated by commas."""
        out: list[Piece] = []
        for expr in exprs:
            out += ([", "] if out else []) + self.pieces(expr)
        return out

    def shape(self, exprs: Sequence[Expr]) -> list[Piece]:
        """Expressions as a tuple."""
        return ["(", *self.listed(exprs), ",)" if len(exprs) == 1 else ")"]

    # Buffers

    def spec(self, buffer: Buffer, data: str | None = None, implied: DataType | None = None) -> list[Piece]:
        """The arguments that make a buffer: the shape, and what is not the default (``implied`` is the dtype's)."""
        out = self.shape(buffer.shape)
        if buffer.dtype != implied:
            out.append(f', "{buffer.dtype}"')
        if data is not None:
            out.append(f", data={data}")
        if buffer.strides:
            out += [", strides=", *self.shape(buffer.strides)]
        if not _usual_offset(buffer) or buffer.offset_factor != 1:
            out += [", elem_offset=", *self.pieces(buffer.elem_offset)]
        if data is None and buffer.scope != "global":
            out.append(f", scope={string_text(buffer.scope)}")
        if buffer.align:
            out.append(f", align={buffer.align}")
        if buffer.offset_factor != 1:
            out.append(f", offset_factor={buffer.offset_factor}")
        if buffer.buffer_type != "default":
            out.append(f", buffer_type={string_text(buffer.buffer_type)}")
        if buffer.axis_separators:
            out.append(f", axis_separators={list(buffer.axis_separators)}")
        return out

    def usual_pointer(self, buffer: Buffer) -> bool:
        """Whether a buffer's data variable has the type that is made for a new buffer."""
        wanted = PointerType(pointer_dtype(buffer.dtype), buffer.scope)
        return buffer.data.type == wanted and not buffer.data.nonneg

    def own_data(self, buffer: Buffer) -> str | None:
        """The text of the data variable of a buffer that defines it, where it has to be stated."""
        data = buffer.data
        known = self.names.of.get(data)
        if known is not None and (data in self.scan.early or (isinstance(buffer, Buffer) and self._shared(buffer))):
            return known
        if self.usual_pointer(buffer):
            return None
        self.make([data], [f"{buffer.name}_data"])
        return self.names.of[data]

    def _shared(self, buffer: Buffer) -> bool:
        return buffer.data in self.parameter_data

    parameter_data: frozenset[Var] | set[Var] = frozenset()
    """The data variables of the parameter buffers printed so far: two of them may share one."""

    def symbolic(self, buffer: Buffer) -> None:
        """Declare the variables that a buffer's definition defines."""
        made = [v for v in self.scan.symbolic.get(id(buffer), ()) if v not in self.names.of]
        self.make(made, [v.name for v in made])

    def introduce(self, buffer: Buffer, owner: bool = True) -> str:
        """Name a buffer from here on. ``name.data`` is its data variable, unless that has a name already.

        An ``owner`` defines its data variable, so what the variable was called before is hidden.
        """
        name = self.names.define(buffer, buffer.name, "buffer")
        known = self.names.of.get(buffer.data)
        if known is None or (owner and not known.isidentifier() and buffer.data not in self.parameter_data):
            self.names.alias(buffer.data, f"{name}.data")
        return name

    def view(self, buffer: Buffer) -> None:
        """``B = T.Buffer(…, data=A.data)``: a buffer that is used without a declaration."""
        data = self.names.of.get(buffer.data)
        spec = ["T.Buffer(", *self.spec(buffer, data), ")"]
        self.emit([*self.mark(buffer, self.introduce(buffer, owner=False)), " = ", *spec], buffer)

    def match(self, op: MatchBufferRegion) -> None:
        """``M = T.match_buffer(A[0:4], (4,), …)``."""
        buffer = op.buffer
        self.symbolic(buffer)
        source = self.flatten(self.attr_region(op.source))
        data = self.own_data(buffer)
        implied = buffer.dtype if buffer.dtype is op.source.buffer.dtype else None
        spec = self.spec(buffer, data, implied)
        name = self.introduce(buffer)
        self.emit([*self.mark(buffer, name), " = T.match_buffer(", *source, ", ", *spec, ")"], op)

    def attr_region(self, region: BufferRegion) -> Sequence[Item]:
        """A region; the statement printer knows how."""
        return self.attr_object(region)

    def declaration(self, op: AllocBuffer | AllocConst | DeclBuffer) -> tuple[str, list[Piece], Var | Buffer] | None:
        """The name, the form and the named object of a declaration, or None where the dialect has no form."""
        buffer = op.buffer
        if isinstance(op, DeclBuffer):
            form = ["T.decl_buffer(", *self.spec(buffer, self.var(buffer.data), self.style.implied), ")"]
            return self.introduce(buffer, owner=False), form, buffer
        options: list[Piece] = []
        if op.annotations:
            options += [", annotations=", *self.attr_pieces(op.annotations)]
        claimable = buffer.is_compact and self.usual_pointer(buffer) and _usual_offset(buffer)
        if isinstance(op, AllocBuffer) and (true_condition(op.condition) or not claimable):
            if not true_condition(op.condition):
                options = [", condition=", *self.pieces(op.condition), *options]
            self.symbolic(buffer)
            data = self.own_data(buffer)
            form = ["T.alloc_buffer(", *self.spec(buffer, data, self.style.implied), *options, ")"]
            return self.introduce(buffer), form, buffer
        if not claimable:
            return None
        if isinstance(op, AllocBuffer):
            options = [", condition=", *self.pieces(op.condition), *options]
            scope = string_text(buffer.scope)
            form = ["T.allocate([", *self.listed(buffer.shape), f'], "{buffer.dtype}", {scope}', *options, ")"]
        else:
            values = array_text(op.data, buffer.dtype)
            if values is None or buffer.scope != "global":
                return None
            if self.doc.metadata is not None:
                self.doc.metadata.append(values)
                values = f'metadata["array"][{len(self.doc.metadata) - 1}]'
            form = [
                "T.allocate_const(",
                values,
                f', "{buffer.dtype}", [',
                *self.listed(buffer.shape),
                "]",
                *options,
                ")",
            ]
        self.claims.add(buffer)
        return self.names.define(buffer.data, identifier(buffer.name, "buffer") + "_data"), form, buffer.data

    def claim(self, buffer: Buffer) -> None:
        """``A = T.Buffer(…, data=A_data)``: the buffer that was allocated as its data variable."""
        spec = self.spec(buffer, self.names.of[buffer.data])
        name = self.names.define(buffer, buffer.name, "buffer")
        self.emit([*self.mark(buffer, name), " = T.Buffer(", *spec, ")"])


def _usual_offset(buffer: Buffer) -> bool:
    """Whether a buffer has the offset that a new one has: 0, of the type of its shape."""
    offset = buffer.elem_offset
    index_type = buffer.shape[0].dtype if buffer.shape else INT32
    return offset.__class__ is IntImm and offset.dtype is index_type and offset.value == 0


def array_text(array: Array, dtype: DataType) -> str | None:
    """An array's elements as a flat list, or None where the dtype cannot hold them."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if dtype.is_bool:
        return "[" + ", ".join(str(bool(v)) for v in flat.tolist()) + "]"
    if dtype.is_integral:
        return "[" + ", ".join(str(int(v)) for v in flat.astype(object)) + "]"
    if not dtype.is_float:
        return None
    parts = []
    for value in flat.astype(np.float64).tolist():
        if value != value or value in (float("inf"), float("-inf")):
            parts.append(f'float("{value}")')
        else:
            parts.append(repr(float(float_text(value, dtype.element))))
    return "[" + ", ".join(parts) + "]"
