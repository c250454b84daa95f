"""The namespace ``I``: modules."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tirlower.ir.op import GlobalVar
from tirlower.script.namespace import NAMESPACES, Namespace
from tirlower.script.parse import ir_module
from tirlower.script.statement_forms import range_

__all__ = ["GlobalVar", "Range", "ir_module", "module_attrs", "module_global_infos"]


Range = range_


def module_attrs(attrs: Mapping[str, object]) -> None:
    """Attributes of the module: a line of its own in a class under ``@I.ir_module``, which reads it."""


def module_global_infos(infos: Mapping[str, object]) -> None:
    """Accepted for texts written for TVM; it means nothing here."""


NAMESPACES[__name__] = Namespace(
    sys.modules[__name__],
    {
        "ir_module": ir_module,
        "module_attrs": module_attrs,
        "module_global_infos": module_global_infos,
        "GlobalVar": GlobalVar,
        "Range": range_,
    },
)
