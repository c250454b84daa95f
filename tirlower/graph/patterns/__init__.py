"""Patterns of values: a language, the matcher of it, and why something does not match (``tg.dpl``)."""

from tirlower.graph.patterns.build import (
    FunctionPattern,
    dominates,
    is_call_dps_packed,
    is_call_packed,
    is_call_tir,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from tirlower.graph.patterns.constraints import PatternContext, PatternSeq
from tirlower.graph.patterns.explain import explain
from tirlower.graph.patterns.from_graph import pattern_of
from tirlower.graph.patterns.fusion import FusionPattern, PatternCheckContext
from tirlower.graph.patterns.match import Match
from tirlower.graph.patterns.nodes import DFPattern
