"""Makes the helpers beside the tests importable, and expressions printable."""

from __future__ import annotations

import sys
from pathlib import Path

import tirlower.script  # noqa: F401  (installs the printer of expressions)

sys.path.insert(0, str(Path(__file__).parent))
