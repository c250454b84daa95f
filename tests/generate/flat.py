"""Programs whose arrays are flat: they compute the places of elements themselves."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

__all__ = ["flattened"]


class _Flat(ast.NodeTransformer):
    def __init__(self, shapes: Mapping[str, Sequence[str]]) -> None:
        self.shapes = shapes

    def visit_Subscript(self, op: ast.Subscript) -> ast.AST:
        self.generic_visit(op)
        if isinstance(op.value, ast.Name) and isinstance(op.slice, ast.Tuple) and op.value.id in self.shapes:
            place, *others = op.slice.elts
            for index, size in zip(others, self.shapes[op.value.id][1:], strict=True):
                scaled = ast.BinOp(place, ast.Mult(), ast.parse(size, mode="eval").body)
                place = ast.BinOp(scaled, ast.Add(), index)
            op.slice = place
        return op


def flattened(text: str, shapes: Mapping[str, Sequence[str]]) -> str:
    """A program with ``A[i * n + j]`` for ``A[i, j]`` of the arrays that have shapes; its head stays as it is.

    >>> flattened("B[i] = A[i, j + 1]", {"A": ("m", "n")})
    'B[i] = A[i * n + (j + 1)]'
    """
    return ast.unparse(_Flat(shapes).visit(ast.parse(text)))
