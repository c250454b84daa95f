"""The road from a prim func to a callable: ``lower``, ``build``, ``jit``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from tirlower.artifact import Artifact, Recipe
from tirlower.diagnostics import CodegenError, LoweringError, TirError
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.json_io import save_json
from tirlower.ir.target import Target
from tirlower.ir.verify import verify_well_formed
from tirlower.kernel import Executable, Kernel
from tirlower.llvm import host
from tirlower.llvm.cache import CacheEntry, CacheKey, default_cache
from tirlower.llvm.codegen import KernelInfo, generate, signature_of
from tirlower.llvm.compile import CompileOptions
from tirlower.llvm.engine import engine
from tirlower.llvm.entry import ErrorSite, GilPolicy, add_entry, entry_cache_key, entry_imports, entry_parts
from tirlower.pipeline import pipeline_for
from tirlower.transforms import PassContext, PassTimingInstrument

__all__ = ["JitFunction", "build", "generate_text", "jit", "lower"]
