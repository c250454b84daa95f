"""Assignments of a script: bindings of names, stores to buffers, annotated and augmented forms."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tirlower.diagnostics import ScriptError, TirError
from tirlower.ir.buffer import Buffer, IterVar
from tirlower.ir.changes import may_change
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var, as_expr
from tirlower.ir.op import Op
from tirlower.ir.stmt import BufferStore, Evaluate
from tirlower.script.elementwise import Elements, is_elementwise
from tirlower.script.forms import (
    Frame,
    Let,
    LetAnnotation,
    MetaVar,
    Sliced,
    is_number,
    is_unnamed,
    type_of_annotation,
)
from tirlower.script.loops import grid
from tirlower.script.parse_expr import Evaluator
from tirlower.script.rebind import kind_of_value
from tirlower.script.weak import Weak

__all__ = ["Assignments"]


_CALL_EXTERN = Op.get("tir.call_extern")


class Assignments(Evaluator):
    """The statements that assign. What a name stands for afterwards is decided by :meth:`bound`."""

    def annotation(self, node: ast.expr) -> object:
        """The value of an annotation; one given as a string is an expression too."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.text_expression(node.value, node)
        return self.eval(node)

    def text_expression(self, text: str, node: ast.AST) -> object:
        """The value of an expression given as a string at a node."""
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError as err:
            raise self.error(f"{text!r} is not an expression: {err.msg}", node) from None
        for part in ast.walk(tree):
            if hasattr(part, "lineno"):
                ast.copy_location(part, node)
        return self.eval(tree)

    def stmt_Assign(self, node: ast.Assign) -> None:
        """``x = value``, ``A[i] = value``, ``a, b = values``."""
        if len(node.targets) == 1 and self._slices(node.targets[0], node):
            return
        value = self.eval(node.value)
        if len(node.targets) != 1:
            # The right side is evaluated once, whatever the first targets are.
            if isinstance(value, (Expr, Sliced)) and not isinstance(value, (Var, IntImm)):
                value = self.bind("value", value)
                self.names.set("value of an assignment", value)  # known: it is bound again, not renamed
            for target in node.targets:
                self._assign(target, value, node.value)
            return
        target = node.targets[0]
        if target.__class__ is ast.Name:
            self.assign_name(target, target.id, value)
        else:
            self._assign(target, value, node.value)

    def assign_name(self, node: ast.AST, name: str, value: object) -> None:
        """``name = value``: a binding, or an assignment of a variable."""
        flow = self.flow
        if flow is None:
            self.names.set(name, self.bound(name, value))
            return
        variable = flow.variable_at(node, name)
        if variable is None:
            new = is_unnamed(value)
            made = self.bound(name, value)
            self.names.set(name, made)
            kind = "an axis or a symbol" if new else _kind(value, made)
            flow.assign(node, name, kind, value if kind == "scalar" else made, self.span(node))
        else:
            flow.assign(node, name, "scalar", None, None)
            self.assign_variable(variable, value)

    def define_form(self, node: ast.AST, name: str, value: object) -> None:
        """A name for what a form of a ``with`` gives, which is no scalar."""
        self.names.set(name, value)
        if self.flow is not None:
            kind = f"the buffer {value.name!r}" if isinstance(value, Buffer) else "the value of a `with`"
            self.flow.assign(node, name, kind, value, self.span(node))

    def define(self, node: ast.AST, name: str, value: object) -> None:
        """A name for a value that the program has already (a loop's variable, a parameter); a copy for a variable."""
        flow = self.flow
        self.names.set(name, value)
        if flow is not None:
            variable = flow.variable_at(node, name)
            flow.assign(node, name, kind_of_value(value), value, self.span(node))
            if variable is not None:
                self.assign_variable(variable, value)

    def _assign(self, target: ast.expr, value: object, source: ast.AST) -> None:
        if isinstance(target, ast.Name):
            self.assign_name(target, target.id, value)
        elif isinstance(target, ast.Subscript):
            buffer = self.eval(target.value)
            if not isinstance(buffer, Buffer):
                raise self.error("only an element of a buffer is assigned", target)
            self._store(buffer, self.indices(target.slice), value, target, source)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, MetaVar):
                self.assign_names(target, value.value, self.define)
                return
            if len(target.elts) == 1 and isinstance(value, Var):
                value = [value]
            if not isinstance(value, (tuple, list)):
                raise self.error(f"{len(target.elts)} names need as many values, got one", target)
            starred = any(isinstance(t, ast.Starred) for t in target.elts)
            if starred:
                self.assign_names(target, value, self.define)
                return
            if len(value) != len(target.elts):
                raise self.error(f"{len(target.elts)} names for {len(value)} values", target)
            for part, item in zip(target.elts, self._values_first(target.elts, value), strict=True):
                self._assign(part, item, source)
        else:
            raise self.error("a name, an element of a buffer, or a tuple of names is assigned", target)

    def _values_first(self, targets: list[ast.expr], values: Sequence[object]) -> list[object]:
        """The values of several targets; those that a store to an earlier target may change are bound before it."""
        found = list(values)
        stored = False
        for at, (target, value) in enumerate(zip(targets, values, strict=True)):
            if stored:
                expr = value.as_expr() if isinstance(value, (Sliced, Weak)) else value
                if isinstance(expr, Expr) and may_change(expr):
                    name = target.id if isinstance(target, ast.Name) else f"value_{at}"
                    found[at] = self.bind(name, value)
            stored = stored or not isinstance(target, ast.Name) or self._is_variable(target)
        return found

    def _is_variable(self, target: ast.Name) -> bool:
        return self.flow is not None and self.flow.variable_at(target, target.id) is not None

    def _store(
        self, buffer: Buffer, indices: tuple[object, ...], value: object, target: ast.AST, source: ast.AST
    ) -> None:
        try:
            exprs, wanted = self.store_indices(buffer, indices)
        except Exception as err:
            raise self.explain(err, target) from err
        try:
            expr = self.convert(value, wanted, f"buffer {buffer.name!r}")
        except Exception as err:
            raise self.explain(err, source) from err
        self.emit(BufferStore(buffer, expr, exprs))

    def _slices(self, target: ast.expr, node: ast.Assign | ast.AugAssign) -> bool:
        """``A[i, 0:n] = value``: a store of a vector, or a loop over the elements; False for any other assignment."""
        if not isinstance(target, ast.Subscript) or not _has_slice(target.slice):
            return False
        buffer = self.eval(target.value)
        if not isinstance(buffer, Buffer):
            return False
        place = Sliced(buffer, self.indices(target.slice), self.span(target))
        try:
            loops = is_elementwise(place)
        except TirError as err:
            raise self.explain(err, target) from err
        if loops:
            self._loops_over(place, target, node)
        elif isinstance(node, ast.Assign):
            self._store(buffer, place.indices, self.eval(node.value), target, node.value)
        else:
            return False
        return True

    def _loops_over(self, place: Sliced, target: ast.expr, node: ast.Assign | ast.AugAssign) -> None:
        """A slice assignment as loops around the assignment of an element."""
        try:
            elements = Elements(place)
            frame = grid(*elements.once(self.bind))
        except TirError as err:
            raise self.explain(err, target) from err
        self.open()
        names = [f"{place.buffer.name}_{axis}" for axis in range(len(frame.loops))]
        elements.vars, finish = frame.start(self, names)
        self.elements = elements
        try:
            value = self.eval(node.value)
            if isinstance(node, ast.AugAssign):
                old = BufferLoad(place.buffer, elements.indices(), span=place.span)
                value = self.binary(node.op, old, value, node)
            self._store(place.buffer, elements.indices(), value, target, node.value)
            elements.check_order(self._levels[-1].out)
        except Exception as err:
            raise self.explain(err, node) from err
        finally:
            self.elements = None
        span = self.span(node)
        self.emit(finish(self.close(), span), span)

    def bound(self, name: str, value: object) -> object:
        """What a name stands for after ``name = value``: expressions are bound in the program."""
        if isinstance(value, MetaVar):
            self.take_name(value.value, name)
            return value.value
        if isinstance(value, Frame):
            made = value.enter(self, name)
            if made is None:
                raise self.error(f"{value.what} has no value to assign")
            if isinstance(made, Buffer):
                before = self.names.table.get(name)
                if isinstance(before, Buffer) and before is not made and self._defined.get(before) is not self.current:
                    raise self.error(
                        f"the buffer {name!r} is defined twice", self.current, help="give the second one another name"
                    )
                self._defined[made] = self.current
            self.take_name(made, name)
            return made
        if value.__class__ is Var and self.func is not None and not value.name:
            # The symbol that a string in a parameter's shape has named already.
            symbol = self.func.symbols.get(name)
            if symbol is not None and symbol.dtype is value.dtype and self.names.table.get(name) is symbol:
                return symbol
        self._need_new(name, value)
        return self._bound_value(name, value)

    def _bound_value(self, name: str, value: object) -> object:
        """The same of a value that is no form."""
        if isinstance(value, (Buffer, IterVar)) or (value.__class__ is Var and not self._is_known(value)):
            self.take_name(value, name)
            return value
        if isinstance(value, Call) and value.op is _CALL_EXTERN and value.dtype == "void":
            # It has no value, and the name stands for none: the call is a statement.
            self.emit(Evaluate(value))
            return None
        if isinstance(value, (Expr, Sliced, Weak)) or is_number(value):
            return self.bind(name, value)
        if isinstance(value, (list, tuple)):
            items = [
                self.bound(f"{name}_{i}", v) if isinstance(v, Frame) or is_unnamed(v) else v
                for i, v in enumerate(value)
            ]
            return type(value)(items) if type(value) in (list, tuple) else value
        if value is None:
            raise self.error(f"there is no value to assign to {name!r}")
        return value  # a Python value: strings, dtypes, functions, reducers, regions …

    def _need_new(self, name: str, value: object) -> None:
        """A buffer is not assigned to another one's name, an axis not to that of another axis of its block."""
        before = self.names.table.get(name)
        if isinstance(value, Buffer) and isinstance(before, Buffer) and value is not before and value.name:
            raise self.error(
                f"{name!r} is a buffer: `{name} = {value.name}` would copy nothing",
                self.current,
                help=f"copy element by element, e.g. `{name}[i] = {value.name}[i]` in a loop; "
                f"`{name} = T.meta_var({value.name})` gives the name another buffer",
            )
        if is_unnamed(value) and self.block is not None:
            for one in self.block.iters:
                if one.var is not value and one.var.name == name:
                    raise self.error(
                        f"the axis {name!r} of block {self.block.name!r} is defined twice",
                        self.current,
                        help="give each axis a name of its own",
                    )

    def _is_known(self, var: Var) -> bool:
        """Whether a name stands for a variable already; one that none does is new, and named, not bound."""
        table = self.names.table
        if not var.name:
            return False
        return table.get(var.name) is var or any(value is var for value in table.values())

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        """``x: T.int32 = value``."""
        if not isinstance(node.target, ast.Name):
            raise self.error("an annotated assignment has a name as its target", node.target)
        if node.value is None:
            raise self.error(f"{node.target.id!r} is annotated but has no value", node, help="write x: T.int32 = value")
        with self.values_only():
            annotation = self.annotation(node.annotation)
        value = self.eval(node.value)
        if isinstance(value, Frame):
            self.assign_name(node.target, node.target.id, value)
            return
        if (
            annotation is not None
            and getattr(annotation, "__getitem__", None)
            and not isinstance(annotation, (str, LetAnnotation))
        ):
            self._bind_let(node.target, self.bind(node.target.id, value))  # `x: T.let = value`
            return
        kind = type_of_annotation(annotation)
        if kind is None:
            raise self.error("the annotation of a scalar is a type such as T.int32", node.annotation)
        var = annotation if is_unnamed(annotation) else Var(node.target.id, kind)
        var.name = node.target.id
        if isinstance(kind, PointerType) and not isinstance(value, Expr):
            value = as_expr(value)
        flow = self.flow
        variable = None if flow is None else flow.variable_at(node.target, node.target.id)
        if variable is not None:
            flow.assign(node.target, node.target.id, "scalar", None, None)  # type: ignore[union-attr]
            self.assign_variable(variable, value)
            return
        made = self.bind(node.target.id, value, var)
        if isinstance(annotation, LetAnnotation):
            self._bind_let(node.target, made)
            return
        self.names.set(node.target.id, made)
        if flow is not None:
            stated = None if isinstance(kind, PointerType) else kind
            flow.assign(node.target, node.target.id, kind_of_value(made), made, self.span(node.target), stated)

    def _bind_let(self, target: ast.Name, var: Var) -> None:
        """A binding that is stated to be one."""
        self.names.set(target.id, var)
        if self.flow is not None:
            self.flow.assign(target, target.id, "a binding by T.let", var, self.span(target))

    def stmt_AugAssign(self, node: ast.AugAssign) -> None:
        """``A[i] += value``; of a name, a new binding of it."""
        target = node.target
        if self._slices(target, node):
            return
        if isinstance(target, ast.Subscript):
            buffer = self.eval(target.value)
            if not isinstance(buffer, Buffer):
                raise self.error("only an element of a buffer is assigned", target)
            indices = self.indices(target.slice)
            old = self.access(buffer, indices, target)
            if isinstance(old, Sliced):
                old = old.as_expr()
            if isinstance(old, BufferLoad):
                indices = old.indices
            value = self._combined(node, old)
            self._store(buffer, indices, value, target, node.value)
        elif isinstance(target, ast.Name):
            old = self.eval_Name(target)
            value = self._combined(node, old)
            self.assign_name(target, target.id, value)
        else:
            raise self.error("a name or an element of a buffer is assigned", target)

    def _combined(self, node: ast.AugAssign, old: object) -> object:
        right = self.eval(node.value)
        try:
            return self.binary(node.op, old, right, node)
        except ScriptError:
            raise
        except Exception as err:
            raise self.explain(err, node) from err


def _has_slice(index: ast.expr) -> bool:
    """Whether an index has slices of its own."""
    return isinstance(index, ast.Slice) or (isinstance(index, ast.Tuple) and any(map(_has_slice, index.elts)))


def _kind(value: object, made: object) -> str:
    """What ``name = value`` made: a scalar, or in words what cannot be a variable."""
    if isinstance(value, MetaVar):
        return "a name by T.meta_var"
    if isinstance(value, Let):
        return "a binding by T.let or T.bind"
    if isinstance(made, Buffer):
        return f"the buffer {made.name!r}"
    if isinstance(made, IterVar) or (isinstance(value, Frame) and isinstance(made, Var) and not made.dtype.is_handle):
        return "a thread axis"
    return kind_of_value(made)
