"""Facts: what holds of a program between passes, by which a pipeline's order is checked when it is made.

A pass ``needs`` facts and names of passes that must have run, ``breaks`` facts that no longer hold behind it, and
``gives`` facts back; having run is a fact too, under the pass's name. All facts stated here hold of a program as it is
written. That a pass must come *before* another is said so: it needs a fact that the other breaks.
"""

from __future__ import annotations

import enum

__all__ = ["Fact"]


class Fact(enum.Enum):
    """What holds of a program as it is written, until a pass ends it; the value is for messages."""

    INITS = "inits of blocks stand apart from their updates"
    ITERATORS = "blocks have iterators of known kinds"
    BLOCKS = "blocks say what is accessed"
    WHOLE_BUFFERS = "accesses are in the coordinates of whole buffers"
    AXES_APART = "thread loops have variables of their own"
    ONE_STAGE = "loops are not pipelined"
    FRAGMENT_BUFFERS = "matrices in registers have their written shapes"
    SINGLE_STATEMENTS = "no statement was copied or moved"
    VECTOR_LOOPS = "vectorized loops are loops"
    LANES = "loops and allocations are as written, for lanes to be made of"
    ONE_BUFFER = "no buffer was doubled"
    OWN_STORAGE = "allocations have memory of their own"
    PLAIN_EXPRESSIONS = "shared subexpressions have no names"
    UNMARKED = "no loop is marked for profiling"
    UNORDERED = "accesses may still move: no barriers stand"
    MARKED_COPIES = "copies are marked asynchronous, not yet instructions"
    WARP_MEMORY = "a warp's memory is memory, not registers and shuffles"
    CUSTOM_TYPES = "custom data types are still types"
    DIVISIONS = "divisions are divisions, not shifts and masks"
    WHOLE_PROGRAM = "host and device are one function"
    LAUNCHES_OPEN = "launches do not yet state their bytes"
