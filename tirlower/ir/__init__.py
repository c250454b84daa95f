"""The language: data types, nodes, traversal, and what works on any node."""

from tirlower.ir import intrinsics
from tirlower.ir.buffer import *
from tirlower.ir.builder import BufferPtr, IRBuilder
from tirlower.ir.constants import const
from tirlower.ir.dtype import *
from tirlower.ir.expr import *
from tirlower.ir.func import *
from tirlower.ir.functor import *
from tirlower.ir.index_map import IndexMap
from tirlower.ir.json_io import load_json, save_json
from tirlower.ir.layout import BijectiveLayout, Layout, bijective_layout, layout
from tirlower.ir.node import NODES, Field, Node, Role
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.ir.refresh import renew_defs
from tirlower.ir.specialize import specialize
from tirlower.ir.stmt import *
from tirlower.ir.structural import (
    StructuralMismatch,
    assert_structural_equal,
    expr_deep_equal,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
)
from tirlower.ir.tensor_intrin import TensorIntrin
from tirlower.ir.tir_names import INSTEAD, PrimType, SizeVar
from tirlower.ir.verify import verify_well_formed


def __getattr__(name: str) -> object:
    """Says of a name that TIR has what takes its place."""
    way = INSTEAD.get(name)
    raise AttributeError(f"tirlower.ir has no {name!r}" + (f"; here it is {way}" if way else ""))
