"""What a schedule takes for legal, and on whose word."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Policy"]

_ACCEPT = ("legal", "tvm")
_TRUST = ("regions", "axes")
_REASSOCIATE = ("declared", True, False)
_LEVELS = ("detail", "fast", "none")


@dataclass(frozen=True)
class Policy:
    """The options of a schedule (:class:`tirlower.schedule.schedule.Schedule` says what each means)."""

    debug_mask: str | int = "none"
    error_render_level: str = "detail"
    enable_check: bool = True
    accept: str = "legal"
    trust: tuple[str, ...] = ("regions",)
    reassociate: str | bool = "declared"
    unchecked: str = ""

    def __post_init__(self) -> None:
        """Each option has a value that it takes. Raises TypeError and ValueError."""
        if not isinstance(self.debug_mask, (str, int)) or isinstance(self.debug_mask, bool):
            raise TypeError(f"debug_mask= is 'none', 'all' or bits, got {self.debug_mask!r}")
        if isinstance(self.debug_mask, str) and self.debug_mask not in ("none", "all"):
            raise ValueError(f"debug_mask= is 'none', 'all' or bits, got {self.debug_mask!r}")
        if not isinstance(self.enable_check, bool):
            raise TypeError(f"enable_check= is True or False, got {self.enable_check!r}")
        for word, value, known in (
            ("error_render_level", self.error_render_level, _LEVELS),
            ("accept", self.accept, _ACCEPT),
        ):
            if not isinstance(value, str):
                raise TypeError(f"{word}= is one of {', '.join(map(repr, known))}, got {value!r}")
            if value not in known:
                raise ValueError(f"{word}= is one of {', '.join(map(repr, known))}, got {value!r}")
        if not isinstance(self.trust, tuple):
            raise TypeError(f"trust= is a tuple of 'regions' and 'axes', got {self.trust!r}")
        if not all(word in _TRUST for word in self.trust):
            raise ValueError(f"trust= has 'regions' and 'axes' in it, got {self.trust!r}")
        if not any(self.reassociate is value or self.reassociate == value == "declared" for value in _REASSOCIATE):
            raise ValueError(f"reassociate= is 'declared', True or False, got {self.reassociate!r}")

    @property
    def proves_again(self) -> bool:
        """Whether a step that only changes the order is proved anew from the two programs."""
        return self.debug_mask == "all" or (isinstance(self.debug_mask, int) and bool(self.debug_mask & 4))

    @property
    def verifies(self) -> bool:
        """Whether a changed function is verified after each step."""
        return self.debug_mask == "all" or (isinstance(self.debug_mask, int) and bool(self.debug_mask & 1))

    @property
    def recomputes(self) -> bool:
        """Whether what is remembered of a changed function is compared with what is found anew."""
        return self.debug_mask == "all" or (isinstance(self.debug_mask, int) and bool(self.debug_mask & 2))
