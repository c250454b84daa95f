"""Searching the neighbours of a plan by measuring them: :func:`tirlower.tune`.

``space`` has the candidates, ``job`` what is sent to be measured, ``process`` and ``apart`` the measuring, ``executors`` who
does it, ``search`` the way through. Results are kept by :mod:`tirlower.driver.plan_database`, where builds find them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tirlower.support.lazy import imported_when_asked

if TYPE_CHECKING:
    from tirlower.tuning.executors import RayExecutor
    from tirlower.tuning.job import Job, Outcome
    from tirlower.tuning.search import Tuned, tune

__getattr__ = imported_when_asked(
    __name__, {"Job": "job", "Outcome": "job", "RayExecutor": "executors", "Tuned": "search", "tune": "search"}
)
