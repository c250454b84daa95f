"""The recipes, one a file. Of those that take a nest the one that is predicted to be the fastest is tried first."""

from __future__ import annotations

from typing import Final

from tirlower.autoschedule.recipe import AnyRecipe
from tirlower.autoschedule.recipes.column_reduction import COLUMN_REDUCTION
from tirlower.autoschedule.recipes.contraction import CONTRACTION
from tirlower.autoschedule.recipes.elementwise import ELEMENTWISE
from tirlower.autoschedule.recipes.epilogue import EPILOGUE, UNKNOWN_EPILOGUE
from tirlower.autoschedule.recipes.fallback import FALLBACK
from tirlower.autoschedule.recipes.histogram import HISTOGRAM
from tirlower.autoschedule.recipes.one_apart import ONE_APART
from tirlower.autoschedule.recipes.permutation import PERMUTATION
from tirlower.autoschedule.recipes.row_chain import ROW_CHAIN
from tirlower.autoschedule.recipes.time_loop import TIME_LOOP
from tirlower.autoschedule.recipes.total import TOTAL
from tirlower.autoschedule.recipes.unknown_contraction import UNKNOWN_CONTRACTION
from tirlower.autoschedule.recipes.unknown_window import UNKNOWN_WINDOW
from tirlower.autoschedule.recipes.window import WINDOW

__all__ = ["RECIPES"]

RECIPES: Final[tuple[AnyRecipe, ...]] = (
    EPILOGUE,
    UNKNOWN_EPILOGUE,
    CONTRACTION,
    UNKNOWN_CONTRACTION,
    WINDOW,
    UNKNOWN_WINDOW,
    ROW_CHAIN,
    COLUMN_REDUCTION,
    HISTOGRAM,
    TOTAL,
    TIME_LOOP,
    PERMUTATION,
    ELEMENTWISE,
    ONE_APART,
    FALLBACK,
)
"""All recipes; of two that are predicted to be as fast as each other the first one is taken."""
