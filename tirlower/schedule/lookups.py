"""Look-ups: blocks by name, the loops around them, the blocks inside, what feeds and what reads them."""

from __future__ import annotations

from tirlower.diagnostics import Ambiguous, NotFound, nearest_name
from tirlower.ir.stmt import AllocBuffer, Block, For
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.scopes import blocks_below
from tirlower.schedule.sites import Change, Site
from tirlower.schedule.state import State
from tirlower.schedule.step import Step

__all__ = [
    "GET_BLOCK",
    "GET_CHILD_BLOCKS",
    "GET_CONSUMERS",
    "GET_LOOPS",
    "GET_OUTPUT_BLOCKS",
    "GET_PRODUCERS",
    "consumers_of",
    "function_of",
    "loops_around",
]


def function_of(state: State, name: str | None = None) -> str:
    """The name of the function that is worked on, or of a given one. Raises ValueError where there is none worked on."""
    functions = state.mod.functions
    given = name if name is not None else state.working_on
    if given is None:
        raise ValueError(
            f"the schedule does not know which function to be working on: {', '.join(functions)}; say sch.work_on(name)"
        )
    if given not in functions:
        raise NotFound(f"no function {given!r} in the module", help=f"it has: {', '.join(functions)}")
    return given


def _get_block(step: Step) -> Change:
    name, where = step["name"], str(step["func_name"])
    func = step.state.mod[where]
    named = step.facts.named(func.body, str(name))
    found = [Site(where, ("body", *way)) for way, stmt in named if isinstance(stmt, Block)]
    if not found and name == "root" and not isinstance(func.body, Block):
        found = [Site(where)]
    if len(found) != 1:
        if found:
            raise Ambiguous(f"Found {len(found)} blocks with the specified name {name!r}", help="rename all but one")
        names = dict.fromkeys(stmt.name for _, stmt in step.facts.inside(func.body) if isinstance(stmt, Block))
        near = nearest_name(str(name), names)
        raise NotFound(
            f"Cannot find a block with the specified name {name!r}",
            help=f"did you mean {near!r}?" if near else f"the blocks are: {', '.join(names) or 'none'}",
        )
    return Change(outputs=(found[0],))


GET_BLOCK = Kind(
    "GetBlock",
    "get_block",
    (
        Slot("name", Takes.STRING, attr=True),
        Slot("func_name", Takes.FUNCTION, default=None, attr=True),
    ),
    _get_block,
    "The only block of a name, in the function worked on or a named one. Raises NotFound and Ambiguous.",
    returns="one",
    pure=True,
)


def loops_around(step: Step, site: Site) -> list[Site]:
    """The loops around a place up to the next block outside, outermost first."""
    found: list[Site] = []
    for place, stmt in step.way(site):
        if isinstance(stmt, Block):
            found = []
        elif isinstance(stmt, For):
            found.append(place)
    return found


def _get_loops(step: Step) -> Change:
    return Change(outputs=tuple(loops_around(step, step.site(step.handle("block")))))


GET_LOOPS = Kind(
    "GetLoops",
    "get_loops",
    (Slot("block", Takes.BLOCK),),
    _get_loops,
    "The loops around a block up to the next block outside, outermost first.",
    returns="many",
    pure=True,
)


def _children(step: Step, site: Site) -> list[tuple[Site, Block]]:
    stmt = step.chain(site)[-1] if site.steps else step.func(site)
    return [(Site(site.func, way), block) for way, block in blocks_below(stmt, site.steps)]


def _get_child_blocks(step: Step) -> Change:
    site = step.site(step.handle("block_or_loop"))
    return Change(outputs=tuple(child for child, _ in _children(step, site)))


GET_CHILD_BLOCKS = Kind(
    "GetChildBlocks",
    "get_child_blocks",
    (Slot("block_or_loop", Takes.LOOP_OR_BLOCK, keyword=""),),
    _get_child_blocks,
    "The blocks directly inside a block or loop, in the order of the text; not those inside these, nor of an init.",
    returns="many",
    pure=True,
)


def consumers_of(step: Step, site: Site, backwards: bool = False) -> list[Site]:
    """The blocks of the scope that a block feeds by a flow or output edge, or that feed it (``backwards``)."""
    if not site.steps or not step.chain(site)[:-1]:
        return []  # the root has no blocks beside it
    children = _children(step, step.scope(site))
    here = next(at for at, (place, _) in enumerate(children) if place == site)
    found: dict[int, None] = {}
    pairs = [(at, here) for at in range(here)] if backwards else [(here, at) for at in range(here + 1, len(children))]
    for first, second in pairs:
        written = {region.buffer for region in children[first][1].writes}
        later = children[second][1]
        touched = {region.buffer for region in (*later.reads, *later.writes)}
        if written & touched:
            found[first if backwards else second] = None
    return [children[at][0] for at in found]


def _get_producers(step: Step) -> Change:
    return Change(outputs=tuple(consumers_of(step, step.site(step.handle("block")), backwards=True)))


def _get_consumers(step: Step) -> Change:
    return Change(outputs=tuple(consumers_of(step, step.site(step.handle("block")))))


GET_PRODUCERS = Kind(
    "GetProducers",
    "get_producers",
    (Slot("block", Takes.BLOCK),),
    _get_producers,
    "The blocks of the same scope that write what a block reads or writes again, in the order of the text.",
    returns="many",
    pure=True,
)
GET_CONSUMERS = Kind(
    "GetConsumers",
    "get_consumers",
    (Slot("block", Takes.BLOCK),),
    _get_consumers,
    "The blocks of the same scope that read what a block writes, or write it again, in the order of the text.",
    returns="many",
    pure=True,
)


def _get_output_blocks(step: Step) -> Change:
    scope = step.site(step.handle("scope_block"))
    found: list[Site] = []
    todo = [(place, block, _allocated(step, scope)) for place, block in _children(step, scope)][::-1]
    while todo:
        place, block, own = todo.pop()
        if any(region.buffer not in own for region in block.writes):
            found.append(place)
        inner = _allocated(step, place)
        todo += [(at, child, inner) for at, child in _children(step, place)][::-1]
    return Change(outputs=tuple(found))


def _allocated(step: Step, scope: Site) -> set[object]:
    """The buffers that a scope allocates."""
    node = step.func(scope).body if not scope.steps else step.chain(scope)[-1]
    if isinstance(node, Block):
        return set(node.alloc_buffers)
    return {stmt.buffer for _, stmt in step.facts.inside(node) if isinstance(stmt, AllocBuffer)}


GET_OUTPUT_BLOCKS = Kind(
    "GetOutputBlocks",
    "get_output_blocks",
    (Slot("scope_block", Takes.BLOCK),),
    _get_output_blocks,
    "The blocks below that write a buffer which their scope does not allocate.",
    returns="many",
    pure=True,
)
