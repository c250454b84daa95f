"""The corpus: one small prim_func for each form of the dialect.

``FORMS`` maps names to :class:`~tests.script.forms_base.Form`: the function, what it does in NumPy, and how to make
arguments. Round-trip, interpreter and compiler tests run over all of it.
"""

from __future__ import annotations

from tests.script import forms_blocks, forms_control, forms_values
from tests.script.forms_base import FORMS, Form

__all__ = ["FORMS", "Form"]

_MODULES = (forms_control, forms_blocks, forms_values)
