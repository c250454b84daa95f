"""The language: data types, nodes, traversal, and what works on any node."""

from tirlower.ir import intrinsics
from tirlower.ir.buffer import *
from tirlower.ir.dtype import *
from tirlower.ir.expr import *
from tirlower.ir.func import *
from tirlower.ir.functor import *
from tirlower.ir.node import NODES, Field, Node, Role
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.ir.stmt import *
