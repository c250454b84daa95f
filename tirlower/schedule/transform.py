"""Compositions that users of TVM know by name, made of the verbs of a schedule."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir.expr import Var
from tirlower.ir.stmt import For
from tirlower.ir.tensor_intrin import TensorIntrin
from tirlower.schedule.handles import BlockRV, Handle, LoopRV
from tirlower.schedule.intrin_mapping import get_tensorize_loop_mapping
from tirlower.schedule.registry import method_kind
from tirlower.schedule.schedule import Schedule

__all__ = ["tile_with_tensor_intrin"]


def tile_with_tensor_intrin(
    sch: Schedule, block: BlockRV | str, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Split the loops around a block so that those of an intrinsic's description stand innermost; the outermost of these,
    which ``tensorize`` takes. None, and nothing done, where the description does not lie on the block.

    ``allow_padding`` lets ``pad_einsum`` round the iterators up first where that is needed.

    >>> from tirlower.script import parse
    >>> text = '''
    ... def f(A: T.Buffer((SIZE, 4), "int32")):
    ...     for i, j in T.grid(SIZE, 4):
    ...         with T.block("A"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             A[vi, vj] = 7
    ... '''
    >>> if TensorIntrin.get("example.fill_8x4", allow_missing=True) is None:
    ...     fill = parse(text.replace("SIZE", "8"))
    ...     _ = TensorIntrin.register("example.fill_8x4", fill, fill)
    >>> sch = Schedule(parse(text.replace("SIZE", "32")))
    >>> loop = tile_with_tensor_intrin(sch, "A", "example.fill_8x4")
    >>> loop.extent.value, [one.extent.value for one in sch.get_loops("A")]
    (8, [4, 1, 8, 4])
    """
    handle = sch.block(block) if isinstance(block, str) else block
    intrin = TensorIntrin.get(intrin_name)
    assert intrin is not None
    info = get_tensorize_loop_mapping(sch, handle, intrin.desc, allow_padding)
    if info is None:
        return None
    if info.block_iter_paddings is not None:
        _take(sch, "pad_einsum", handle, info.block_iter_paddings)
        info = get_tensorize_loop_mapping(sch, handle, intrin.desc)
        if info is None:
            raise BadArgument(f"the padded block is not one that {intrin_name!r} can be laid on")
    described = {mine.stmt: its for mine, its in info.loop_map.items()}
    found = [(loop, described.get(sch.loop_at(loop))) for loop in sch.loops_around(handle)]
    inner = {info.desc_loop_indexer[its]: _split(sch, loop, its) for loop, its in found if its is not None}
    wanted = [inner[at] for at in sorted(inner)]
    mine = {id(sch.loop_at(one)) for one in wanted}
    loops = sch.loops_around(handle)
    first = next(at for at, loop in enumerate(loops) if id(sch.loop_at(loop)) in mine)
    rest = [loop for loop in loops[first:] if id(sch.loop_at(loop)) not in mine]
    _take(sch, "reorder", *rest, *wanted)
    return wanted[0]


def _split(sch: Schedule, loop: LoopRV, described: For) -> LoopRV:
    *_, inner = _take(sch, "split", loop, [None, described.extent])
    assert isinstance(inner, LoopRV)
    return inner


def _take(sch: Schedule, verb: str, *args: object) -> list[Handle | Var]:
    kind = method_kind(verb)
    return sch.apply_kind(kind, kind.bind(args, {}))
