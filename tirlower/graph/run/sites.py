"""The places in ``main`` where kernels are called: what each is given, and ``main`` with a mark before and behind each.

The marks are those of :class:`~tirlower.transforms.InstrumentProfileIntrinsics`; here they stand in ``main`` and its parts
alone, so that the kernels are the ones that run without them, from the disk cache too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from tirlower.diagnostics import ArgumentTypeError
from tirlower.graph.errors import GraphError
from tirlower.graph.lower.main import PART
from tirlower.graph.ops.evaluate import extent_value
from tirlower.ir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    GlobalVar,
    IRModule,
    PrimFunc,
    Stmt,
    Var,
    build,
)  # fmt: skip
from tirlower.ir.dtype import Array
from tirlower.ir.functor import Mutator, substitute
from tirlower.ir.query import each
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import seq

__all__ = ["Arguments", "Site", "marked", "sites_of", "written_by"]


@dataclass(frozen=True)
class Site:
    """A call of a kernel: its number, counted from 1 in the order in which ``main`` names them, and its arguments as they
    would be in ``main``, also where the call stands in a part of it."""

    number: int
    kernel: str
    call: Call


def written_by(func: PrimFunc) -> tuple[Buffer, ...]:
    """The arrays that a kernel is given and writes, in the order of its parameters."""
    stored = {store.buffer for store in each(BufferStore, func.body)}
    return tuple(buffer for buffer in func.buffer_map.values() if buffer in stored)


def sites_of(module: IRModule) -> tuple[Site, ...]:
    """The calls of kernels in ``main`` and its parts, in order; those of a part as often as it is called.

    >>> import tirlower.graph as tg
    >>> exe = tg.compile(tg.trace(lambda x: (x + 1) * x, tg.spec((4,), "float32")))
    >>> [site.kernel for site in sites_of(exe.module)]
    ['add_4', 'multiply_4']
    """
    walk = _Walk(module)
    _Marker(walk, {}, {}).visit(module["main"].body)
    return tuple(walk.sites)


def marked(module: IRModule) -> IRModule:
    """The module that marks where each call of a kernel begins and ends, by the number of its site.

    Each call of a part is of a copy of its own, which has the numbers of its sites.
    """
    walk = _Walk(module, copies={})
    main = module["main"]
    body = _Marker(walk, {}, {}).visit(main.body)
    kernels = {name: func for name, func in module.items() if PART not in func.attrs}
    return IRModule({**kernels, **(walk.copies or {}), "main": main.with_(body=body)})


class _Walk:
    """The sites of a module so far, and the copies of its parts, where they are wanted."""

    def __init__(self, module: IRModule, copies: dict[str, PrimFunc] | None = None) -> None:
        self.module = module
        self.sites: list[Site] = []
        self.copies = copies

    def copy(self, name: str, func: PrimFunc) -> str:
        """The name of one more copy of a part."""
        assert self.copies is not None
        number = len(self.copies) + 1
        while (made := f"{name}_{number}") in self.module or made in self.copies:
            number += 1
        self.copies[made] = func
        return made


class _Marker(Mutator):
    """Goes through ``main``, or a part, of whose arrays and dims it is known what they are in ``main``."""

    def __init__(self, walk: _Walk, arrays: Mapping[Var, tuple[Buffer | None, Expr]], dims: Mapping[Var, Expr]) -> None:
        super().__init__()
        self.walk = walk
        self.arrays = arrays
        self.dims = dims

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        """A call of a kernel gets marks around it, one of a part is looked into."""
        call = op.value
        if not (isinstance(call, Call) and isinstance(call.op, GlobalVar) and call.op.name_hint in self.walk.module):
            return op
        name = call.op.name_hint
        func = self.walk.module[name]
        there = call.with_(args=tuple(map(self.in_main, call.args))) if self.arrays else call
        if PART in func.attrs:
            return self._part(op, call, name, func, there)
        site = Site(len(self.walk.sites) + 1, name, there)
        self.walk.sites.append(site)
        begin, end = (
            Evaluate(build.call(f"tir.{when}_profile_intrinsic", site.number, dtype="void"))
            for when in ("start", "end")
        )
        return seq([begin, op, end])

    def _part(self, op: Evaluate, call: Call, name: str, func: PrimFunc, there: Call) -> Stmt:
        if self.walk.copies is not None:
            func = _copied(func)
        given = dict(zip(func.params, there.args, strict=True))
        arrays = {buffer.data: _place(given[param]) for param, buffer in func.buffer_map.items()}
        dims = {param: value for param, value in given.items() if param not in func.buffer_map}
        body = _Marker(self.walk, arrays, dims).visit(func.body)
        if self.walk.copies is None:
            return op
        return op.with_(value=call.with_(op=GlobalVar(self.walk.copy(name, func.with_(body=body)))))

    def in_main(self, arg: Expr) -> Expr:
        """An argument of a call as it would be in ``main``."""
        if isinstance(arg, Var) and arg in self.arrays:
            buffer, offset = self.arrays[arg]
            return offset if buffer is None else _address(buffer, offset)
        if isinstance(arg, Call) and isinstance(arg.args[0], BufferLoad):
            load = arg.args[0]
            found, start = self.arrays[load.buffer.data]
            if found is not None:
                return _address(found, start + substitute(load.indices[0], self.dims))
        return substitute(arg, self.dims) if self.dims else arg


def _copied(func: PrimFunc) -> PrimFunc:
    """A part whose variables are new: its parameters, and their arrays; it has no others."""
    new = {var: copy_var(var) for var in (*func.params, *(buffer.data for buffer in func.buffer_map.values()))}
    arrays = [param for param in func.params if param in func.buffer_map]
    made = cast(
        PrimFunc, substitute(func.with_(params=tuple(arrays)), {v: n for v, n in new.items() if v not in arrays})
    )
    return made.with_(
        params=tuple(new[param] for param in func.params),
        buffer_map={new[param]: buffer for param, buffer in made.buffer_map.items()},
    )


def _place(arg: Expr) -> tuple[Buffer | None, Expr]:
    """The buffer and the offset in it of an address of one of its elements; an array's pointer is that itself."""
    if isinstance(arg, Call) and isinstance(arg.args[0], BufferLoad):
        return arg.args[0].buffer, arg.args[0].indices[0]
    return None, arg


def _address(buffer: Buffer, offset: Expr) -> Expr:
    return build.call("tir.address_of", BufferLoad(buffer, (offset,)), dtype="handle")


class Arguments:
    """What ``main`` was called with, and through it what each kernel is given."""

    def __init__(self, module: IRModule, given: Sequence[object]) -> None:
        self.module = module
        main = module["main"]
        self.dims: dict[Var, int] = {}
        self.arrays: dict[Var, Array] = {}
        for param, value in zip(main.params, given, strict=True):
            if param in main.buffer_map:
                self.arrays[main.buffer_map[param].data] = _bytes_of(value)
            elif isinstance(value, int):
                self.dims[param] = value

    def views(self, site: Site) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """The arrays that a kernel reads, and those that it writes, in the order of its parameters."""
        func = self.module[site.kernel]
        written = written_by(func)
        values = {
            param: extent_value(arg, self.dims)
            for param, arg in zip(func.params, site.call.args, strict=True)
            if param not in func.buffer_map
        }
        inputs: list[Array] = []
        outputs: list[Array] = []
        for param, arg in zip(func.params, site.call.args, strict=True):
            buffer = func.buffer_map.get(param)
            if buffer is not None:
                (outputs if buffer in written else inputs).append(self._view(arg, buffer, values))
        return tuple(inputs), tuple(outputs)

    def _view(self, arg: object, buffer: Buffer, values: Mapping[Var, int]) -> Array:
        data, offset = arg, 0
        if isinstance(arg, Call) and isinstance(arg.args[0], BufferLoad):
            load = arg.args[0]
            data, offset = load.buffer.data, extent_value(load.indices[0], self.dims)
        whole = self.arrays.get(data) if isinstance(data, Var) else None
        if whole is None:
            raise GraphError(f"what main gives {buffer.name!r} is no array of a call: {arg}")
        shape = tuple(extent_value(e, values) for e in buffer.shape)
        dtype = buffer.dtype.numpy
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        return whole[offset : offset + size].view(dtype).reshape(shape)


def _bytes_of(value: object) -> Array:
    if not isinstance(value, np.ndarray) and not hasattr(value, "__dlpack__"):
        raise ArgumentTypeError(f"an array is wanted, got {type(value).__name__}")
    array = value if isinstance(value, np.ndarray) else np.from_dlpack(value)
    return array.reshape(-1).view(np.uint8)
