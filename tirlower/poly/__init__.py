"""Polyhedral analysis with isl: dependences, legality, bounds, footprints.

``extract`` makes a :class:`Scop` of a function; each question takes either. Answers are :class:`Verdict` objects: proved,
refuted with a witness, or unknown with a reason. islpy is imported at the first question that simple arithmetic does
not decide; without it such questions are answered "unknown".
"""

from tirlower.poly.bounds import AccessBounds, check_bounds
from tirlower.poly.dataflow import Flow, LastWriters, covers, last_writer, unchanged_between
from tirlower.poly.dependences import Dependence, dependences
from tirlower.poly.extract import extract
from tirlower.poly.extract_calls import PureFunctions
from tirlower.poly.footprint import Footprint, footprint
from tirlower.poly.in_place import in_place
from tirlower.poly.inside import where_inside
from tirlower.poly.isl import Solver, available
from tirlower.poly.legality import (
    Race,
    can_bind,
    carried_reductions,
    is_parallel,
    is_unrollable,
    is_vectorizable,
    races,
)
from tirlower.poly.order_kept import order_kept
from tirlower.poly.pointers import Pointers
from tirlower.poly.reductions import Reduction
from tirlower.poly.reorder import can_distribute, can_fuse, can_reorder
from tirlower.poly.scop import Access, Loop, Scop, Statement
from tirlower.poly.thread_copies import OtherCopy, other_copies
from tirlower.poly.verdict import Point, Verdict, Witness
