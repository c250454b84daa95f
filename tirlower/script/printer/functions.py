"""Functions and modules as text."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.ir.buffer import Buffer
from tirlower.ir.digest import variables_of_buffer
from tirlower.ir.dtype import HANDLE, DataType, PointerType
from tirlower.ir.expr import Call, Var, is_const_int
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.op import GlobalVar
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, Stmt, true_condition
from tirlower.script.printer.deep import cuts
from tirlower.script.printer.document import Document, Piece
from tirlower.script.printer.literals import annotation_text, new_var, type_text
from tirlower.script.printer.names import identifier
from tirlower.script.printer.scan import ROOT, Scan
from tirlower.script.printer.statements import StmtPrinter

__all__ = ["print_function", "print_module"]

MODULE = "Module"


class _FunctionPrinter(StmtPrinter):
    """Prints one function."""

    first = ""
    """A line that the body starts with."""

    def header(self, func: PrimFunc, name: str) -> None:
        """The decorator and the ``def`` line, then the declarations that the parameters need."""
        scan = self.scan
        self.parameter_data = set()
        scalars = {p for p in func.params if p not in func.buffer_map}
        for param in func.params:
            if param in scalars:
                self.names.define(param, param.name)
        inline: dict[Var, Buffer] = {}
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is not None and self._is_inline(param, buffer, scalars, inline):
                inline[param] = buffer
        params: list[Piece] = []
        for param in func.params:
            if params:
                params.append(", ")
            buffer = inline.get(param)
            if buffer is not None:
                spec = self.spec(buffer)
                self.discard()
                params += [*self.mark(buffer, self.introduce(buffer)), ": T.Buffer(", *spec, ")"]
                self.parameter_data.add(buffer.data)
            else:
                text = self.names.of.get(param) if param in scalars else self.names.define(param, param.name)
                params += [*self.mark(param, str(text)), f": {annotation_text(param)}"]
        returns = "" if func.ret_type == "void" else f" -> {_return_text(func.ret_type)}"
        exported = "global_symbol" in func.attrs
        self.doc.line(["@T.prim_func" if exported else "@T.prim_func(private=True)"])
        self.doc.line([f"def {name}(", *params, f"){returns}:"], func)
        self.doc.level += 1
        if self.first:
            self.doc.line([self.first])
        attrs = {k: v for k, v in func.attrs.items() if not (k == "global_symbol" and v == name)}
        for var in scan.free:
            self.doc.line([f"{self.names.define(var, var.name)} = {new_var(var)}  # undefined: nothing binds it"])
        # Attributes may mention the variables that the buffers define, so those come first where they do.
        late = any(not isinstance(v, (str, int, float, bool, type(None))) for v in attrs.values())
        if attrs and not late:
            self.emit(["T.func_attr(", *self.attr_pieces(attrs), ")"])
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is not None and param not in inline:
                self._match_param(param, buffer)
        for view in (*scan.views.get(ROOT, ()), *scan.views.get(id(func), ())):
            self.view(view)
        if attrs and late:
            self.emit(["T.func_attr(", *self.attr_pieces(attrs), ")"])

    def _is_inline(self, param: Var, buffer: Buffer, scalars: set[Var], before: dict[Var, Buffer]) -> bool:
        """Whether a parameter is printed as ``A: T.Buffer(…)``: nothing but its static shape needs to be said."""
        return (
            self.style.sugar
            and param.type == HANDLE
            and not param.nonneg
            and param not in self.scan.used
            and not self.scan.symbolic.get(id(buffer))
            and not buffer.strides
            and is_const_int(buffer.elem_offset, 0)
            and buffer.elem_offset.dtype is (buffer.shape[0].dtype if buffer.shape else buffer.elem_offset.dtype)
            and buffer.offset_factor == 1
            and buffer.buffer_type == "default"
            and self.usual_pointer(buffer)
            and all(v is buffer.data or v in scalars for v in variables_of_buffer(buffer))
            and not any(cuts(extent) for extent in buffer.shape)
            and not any(b is buffer or b.data is buffer.data for b in before.values())
        )

    def _match_param(self, param: Var, buffer: Buffer) -> None:
        self.symbolic(buffer)
        data = self.own_data(buffer)
        self.parameter_data = {*self.parameter_data, buffer.data}
        spec = self.spec(buffer, data, self.style.implied)
        name = self.introduce(buffer)
        source = self.mark(param, self.var(param))
        self.emit([*self.mark(buffer, name), " = T.match_buffer(", *source, ", ", *spec, ")"], buffer)

    def function(self, func: PrimFunc, name: str) -> None:
        """The whole function."""
        self.header(func, name)
        before = len(self.doc.lines)
        body = func.body
        if self.root_is_implied(body):
            assert isinstance(body, Block)
            body = body.body
        self.names.push()
        self.rest(body)
        self._need_line(before)
        self.names.pop()
        self.doc.level -= 1

    def root_is_implied(self, body: Stmt) -> bool:
        """Whether the parser puts this root block around the body again."""
        if not isinstance(body, Block) or body.iters or body.name != "root":
            return False
        inner = body.body
        return (
            self.style.sugar
            and true_condition(body.predicate)
            and body.reads == ()
            and body.writes == ()
            and body.init is None
            and not body.match_buffers
            and not body.annotations
            and self.scan.blocks > 1
            and not (isinstance(inner, Block) and not inner.iters)
        )


def _return_text(kind: DataType | PointerType) -> str:
    if isinstance(kind, DataType) and kind.is_custom:
        return new_var(Var("r", kind))
    return type_text(kind)


def print_function(
    doc: Document,
    func: PrimFunc,
    lookup: Callable[[str], object],
    name: str | None = None,
    module: IRModule | None = None,
    title: str = MODULE,
    alias: str | None = None,
) -> None:
    """Print a function under a name (its own by default); as a member of a module, calls go by the module, or by an
    ``alias`` of it that the function starts with."""
    scan = Scan()
    scan.node(func)
    printer = _FunctionPrinter(doc, lookup, scan)
    if module is not None:
        printer.module = title
        printer.names.define(None, title)
        if alias is not None and any(isinstance(call.op, GlobalVar) for call in each(Call, func)):
            printer.module = printer.names.fresh(alias)
            printer.first = f"{printer.module} = {title}"
        printer.ret_types = {
            key: HANDLE if isinstance(f.ret_type, PointerType) else f.ret_type
            for key, f in module.functions.items()
            if key.isidentifier()
        }
    printer.function(func, identifier(name if name is not None else func.name, "main"))


def print_module(
    doc: Document,
    module: IRModule,
    lookup: Callable[[str], object],
    class_name: str | None = None,
    alias: str | None = None,
) -> None:
    """Print a module as a class."""
    title = MODULE if class_name is None else identifier(class_name, MODULE)
    doc.line(["@I.ir_module"])
    doc.line([f"class {title}:"], module)
    doc.level += 1
    if module.attrs:
        printer = StmtPrinter(doc, lookup, Scan())
        printer.emit(["I.module_attrs(", *printer.attr_pieces(module.attrs), ")"])
    if not module.functions and not module.attrs:
        doc.line(["pass"])
    for i, (name, func) in enumerate(module.items()):
        if i or module.attrs:
            doc.blank()
        print_function(doc, func, lookup, name, module, title, alias)
    doc.level -= 1
