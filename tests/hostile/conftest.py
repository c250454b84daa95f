"""The programs run in processes of their own alone: collecting them for doctests would import, and so run, them here."""

from __future__ import annotations

collect_ignore_glob = ["programs/*"]
