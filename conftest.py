"""What all tests and doctests find: the printer, by which nodes show themselves as scripts."""

from __future__ import annotations

import tirlower.script  # noqa: F401
