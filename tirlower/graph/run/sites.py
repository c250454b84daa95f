"""The places in ``main`` where kernels are called: what each is given, and ``main`` with a mark before and behind each.

The marks are those of :class:`~tirlower.transforms.InstrumentProfileIntrinsics`; here they stand in ``main`` alone, so that
the kernels are the ones that run without them, from the disk cache too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tirlower.diagnostics import ArgumentTypeError
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.evaluate import extent_value
from tirlower.ir import Buffer, BufferLoad, BufferStore, Call, Evaluate, GlobalVar, IRModule, PrimFunc, Stmt, Var, build
from tirlower.ir.dtype import Array
from tirlower.ir.functor import Mutator
from tirlower.ir.query import each
from tirlower.ir.stmt import seq

__all__ = ["Arguments", "Site", "marked", "sites_of", "written_by"]


@dataclass(frozen=True)
class Site:
    """A call of a kernel in ``main``: its number, counted from 1 in the order of the text."""

    number: int
    kernel: str
    call: Call


def written_by(func: PrimFunc) -> tuple[Buffer, ...]:
    """The arrays that a kernel is given and writes, in the order of its parameters."""
    stored = {store.buffer for store in each(BufferStore, func.body)}
    return tuple(buffer for buffer in func.buffer_map.values() if buffer in stored)


def sites_of(module: IRModule) -> tuple[Site, ...]:
    """The calls of kernels in ``main``, in order.

    >>> import tirlower.graph as tg
    >>> exe = tg.compile(tg.trace(lambda x: (x + 1) * x, tg.spec((4,), "float32")))
    >>> [site.kernel for site in sites_of(exe.module)]
    ['add_4', 'multiply_4']
    """
    marker = _Marker(module)
    marker.visit(module["main"].body)
    return tuple(marker.sites)


def marked(module: IRModule) -> IRModule:
    """The module whose ``main`` marks where each call of a kernel begins and ends, by the number of its site."""
    main = module["main"]
    body = _Marker(module).visit(main.body)
    return IRModule({**module.functions, "main": main.with_(body=body)})


class _Marker(Mutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__()
        self.module = module
        self.sites: list[Site] = []

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        """A call of a function of the module gets marks around it."""
        call = op.value
        if not (isinstance(call, Call) and isinstance(call.op, GlobalVar) and call.op.name_hint in self.module):
            return op
        site = Site(len(self.sites) + 1, call.op.name_hint, call)
        self.sites.append(site)
        begin, end = (
            Evaluate(build.call(f"tir.{when}_profile_intrinsic", site.number, dtype="void"))
            for when in ("start", "end")
        )
        return seq([begin, op, end])


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
