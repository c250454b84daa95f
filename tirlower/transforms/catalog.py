"""The catalog: every pass with its summary, stage and needs, read off the passes themselves."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from tirlower.rewrite.base import Pass
from tirlower.rewrite.registry import load_all

__all__ = ["CatalogEntry", "catalog"]


@dataclass(frozen=True)
class CatalogEntry:
    """A pass: its name, one line about it, the stage of its input, what must have run before, its options."""

    name: str
    summary: str
    stage: str
    needs: tuple[str, ...]
    options: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        return f"{self.name:<44} {self.stage:<7} {self.summary}"


def catalog() -> list[CatalogEntry]:
    """All registered passes, by name. The summary is the first sentence of the pass's docstring."""
    load_all()
    entries = []
    for name, cls in sorted(Pass.registry.items()):
        if not name.startswith("tir."):
            continue
        text = " ".join(inspect.getdoc(cls).split()) if cls.__doc__ else ""  # type: ignore[union-attr]
        summary = text.split(". ")[0].rstrip(".") + "." if text else ""
        entries.append(
            CatalogEntry(
                name,
                summary,
                cls.stage.value,
                tuple(need for need in cls.needs if isinstance(need, str)),
                tuple((key, option.default) for key, option in cls.declared.items()),
            )
        )
    return entries
