"""The recipes, one a file. Of those that take a nest the one that is predicted to be the fastest is tried first."""

from __future__ import annotations

from typing import Final

from tirlower.autoschedule.recipe import AnyRecipe
from tirlower.autoschedule.recipes.fallback import FALLBACK

__all__ = ["RECIPES"]

RECIPES: Final[tuple[AnyRecipe, ...]] = (FALLBACK,)
"""All recipes."""
