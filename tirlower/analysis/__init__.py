"""Analyses of functions: access regions, lowest common ancestors, purity, bounds, sizes and operation counts."""

from tirlower.analysis.access_region import *
from tirlower.analysis.anchor_block import *
from tirlower.analysis.equality import *
from tirlower.analysis.flops import *
from tirlower.analysis.gpu_code import *
from tirlower.analysis.host_memory import *
from tirlower.analysis.lca import *
from tirlower.analysis.memcpy import *
from tirlower.analysis.memory_use import *
from tirlower.analysis.out_of_bounds import *
from tirlower.analysis.purity import *
from tirlower.analysis.ssa import *
from tirlower.analysis.undefined import *
from tirlower.ir.verify import *
