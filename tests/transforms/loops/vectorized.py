"""What tests of VectorizeLoop count."""

from __future__ import annotations

from tirlower.ir import For, pre_order_visit


def loops(func) -> int:
    """The loops that are left."""
    found = []
    pre_order_visit(func.body, lambda op: found.append(op) if isinstance(op, For) else None)
    return len(found)
