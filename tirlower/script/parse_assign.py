"""Assignments of a script: bindings of names, stores to buffers, annotated and augmented forms."""

from __future__ import annotations

import ast
from typing import Any

from tirlower.diagnostics import ScriptError
from tirlower.ir.buffer import Buffer, IterVar
from tirlower.ir.expr import BufferLoad, Expr, PointerType, Var, as_expr
from tirlower.ir.stmt import BufferStore
from tirlower.script.parse_expr import Evaluator
from tirlower.script.values import Frame, LetAnnotation, MetaVar, Sliced, is_number, is_unnamed, type_of_annotation

__all__ = ["Assignments"]


class Assignments(Evaluator):
    """The statements that assign. What a name stands for afterwards is decided by :meth:`bound`."""

    def annotation(self, node: ast.expr) -> Any:
        """The value of an annotation; one given as a string is an expression too."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.text_expression(node.value, node)
        return self.eval(node)

    def text_expression(self, text: str, node: ast.AST) -> Any:
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
        if len(node.targets) != 1:
            raise self.error("an assignment has one target", node.targets[1], help="write one assignment for each")
        target = node.targets[0]
        value = self.eval(node.value)
        if target.__class__ is ast.Name:
            self.names.set(target.id, self.bound(target.id, value))
        else:
            self._assign(target, value, node.value)

    def _assign(self, target: ast.expr, value: Any, source: ast.AST) -> None:
        if isinstance(target, ast.Name):
            self.names.set(target.id, self.bound(target.id, value))
        elif isinstance(target, ast.Subscript):
            buffer = self.eval(target.value)
            if not isinstance(buffer, Buffer):
                raise self.error("only an element of a buffer is assigned", target)
            self._store(buffer, self.indices(target.slice), value, target, source)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, MetaVar):
                self.assign_names(target, value.value)
                return
            if len(target.elts) == 1 and isinstance(value, Var):
                value = [value]
            if not isinstance(value, (tuple, list)):
                raise self.error(f"{len(target.elts)} names need as many values, got one", target)
            starred = any(isinstance(t, ast.Starred) for t in target.elts)
            if starred:
                self.assign_names(target, value)
                return
            if len(value) != len(target.elts):
                raise self.error(f"{len(target.elts)} names for {len(value)} values", target)
            for part, item in zip(target.elts, value, strict=True):
                self._assign(part, item, source)
        else:
            raise self.error("a name, an element of a buffer, or a tuple of names is assigned", target)

    def _store(self, buffer: Buffer, indices: tuple[Any, ...], value: Any, target: ast.AST, source: ast.AST) -> None:
        try:
            exprs, wanted = self.store_indices(buffer, indices)
        except Exception as err:
            raise self.explain(err, target) from err
        try:
            expr = self.convert(value, wanted, f"buffer {buffer.name!r}")
        except Exception as err:
            raise self.explain(err, source) from err
        self.emit(BufferStore(buffer, expr, exprs))

    def bound(self, name: str, value: Any) -> Any:
        """What a name stands for after ``name = value``: expressions are bound in the program."""
        if isinstance(value, MetaVar):
            self.take_name(value.value, name)
            return value.value
        if isinstance(value, Frame):
            made = value.enter(self, name)
            if made is None:
                raise self.error(f"{value.what} has no value to assign")
            self.take_name(made, name)
            return made
        if value.__class__ is Var and self.func is not None and not value.name:
            # The symbol that a string in a parameter's shape has named already.
            symbol = self.func.symbols.get(name)
            if symbol is not None and symbol.dtype is value.dtype and self.names.table.get(name) is symbol:
                return symbol
        if isinstance(value, (Buffer, IterVar)) or (value.__class__ is Var and not self._is_known(value)):
            self.take_name(value, name)
            return value
        if isinstance(value, (Expr, Sliced)) or is_number(value):
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
        annotation = self.annotation(node.annotation)
        value = self.eval(node.value)
        if isinstance(value, Frame):
            self.names.set(node.target.id, self.bound(node.target.id, value))
            return
        if (
            annotation is not None
            and getattr(annotation, "__getitem__", None)
            and not isinstance(annotation, (str, LetAnnotation))
        ):
            self.names.set(node.target.id, self.bind(node.target.id, value))  # `x: T.let = value`
            return
        kind = type_of_annotation(annotation)
        if kind is None:
            raise self.error("the annotation of a scalar is a type such as T.int32", node.annotation)
        var = annotation if is_unnamed(annotation) else Var(node.target.id, kind)
        var.name = node.target.id
        if isinstance(kind, PointerType) and not isinstance(value, Expr):
            value = as_expr(value)
        self.names.set(node.target.id, self.bind(node.target.id, value, var))

    def stmt_AugAssign(self, node: ast.AugAssign) -> None:
        """``A[i] += value``; of a name, a new binding of it."""
        target = node.target
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
            self.names.set(target.id, self.bound(target.id, value))
        else:
            raise self.error("a name or an element of a buffer is assigned", target)

    def _combined(self, node: ast.AugAssign, old: Any) -> Any:
        right = self.eval(node.value)
        try:
            return self.binary(node.op, old, right, node)
        except ScriptError:
            raise
        except Exception as err:
            raise self.explain(err, node) from err
