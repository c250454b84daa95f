"""Analyses of functions: access regions, lowest common ancestors, purity, sizes."""

from tirlower.analysis.lca import *
from tirlower.analysis.purity import *
from tirlower.analysis.ssa import *
from tirlower.analysis.undefined import *
