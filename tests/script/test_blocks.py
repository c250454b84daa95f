"""Blocks: axes, regions given and inferred, the implicit root."""

from __future__ import annotations

import pytest

from tirlower.diagnostics import ScriptError
from tirlower.ir import AllocBuffer, Block, IterKind, Seq
from tirlower.script import parse
from tirlower.script import tir as T

HEAD = "A: T.Buffer((16, 16), 'float32'), B: T.Buffer((16, 16), 'float32'), n: T.int32"


def function(text, head=HEAD):
    lines = "\n".join("    " + line for line in text.strip("\n").split("\n"))
    return parse(f"def f({head}):\n{lines}\n")


def first_block(text, head=HEAD):
    """The outermost block that is not the implicit root."""
    root = function(text, head).body
    assert isinstance(root, Block) and root.name == "root"
    stmt = root.body
    while not isinstance(stmt, Block):
        stmt = stmt.stmts[-1] if isinstance(stmt, Seq) else stmt.body
    return stmt


def show(regions):
    """Regions as text: ``A[i:+4, 0:+1]``."""

    def term(e):
        kind = type(e).__name__
        if kind == "IntImm":
            return str(e.value)
        if kind == "Var":
            return e.name
        if kind == "BufferLoad":
            return f"{e.buffer.name}[{', '.join(map(term, e.indices))}]"
        sign = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%", "Min": "min", "Max": "max"}[kind]
        return f"({term(e.a)} {sign} {term(e.b)})"

    return [
        f"{r.buffer.name}[{', '.join(f'{term(part.min)}:+{term(part.extent)}' for part in r.region)}]" for r in regions
    ]


def test_axes_and_their_kinds():
    block = first_block(
        """
for i, j, k, l in T.grid(4, 8, 2, T.int64(3)):
    with T.block("name"):
        vi = T.axis.spatial(4, i)
        vj = T.axis.reduce((0, 8), j)
        vk = T.axis.scan(T.Range(0, 2), k)
        vl = T.axis.opaque(3, l)
        vm = T.axis.spatial(T.int64(16), i * 4 + k)
        A[vi, vj] = 1.0
"""
    )
    assert block.name == "name"
    assert [it.var.name for it in block.iters] == ["vi", "vj", "vk", "vl", "vm"]
    assert [it.kind for it in block.iters] == [
        IterKind.SPATIAL, IterKind.REDUCE, IterKind.SCAN, IterKind.OPAQUE, IterKind.SPATIAL,
    ]  # fmt: skip
    assert [it.domain.extent.value for it in block.iters] == [4, 8, 2, 3, 16]
    assert [it.var.dtype for it in block.iters] == ["int32", "int32", "int32", "int64", "int64"]
    assert all(it.value.dtype == it.var.dtype for it in block.iters)


def test_remap_takes_the_loops_ranges():
    block = first_block(
        """
for i in range(2, 10):
    for j in T.serial(T.int64(4)):
        with T.block("b"):
            vi, vj = T.axis.remap("SR", [i, j])
            A[vi, vj] = 0.0
"""
    )
    first, second = block.iters
    assert (first.domain.min.value, first.domain.extent.value, first.var.dtype) == (2, 8, "int32")
    assert second.var.dtype == "int64" and second.kind is IterKind.REDUCE
    single = first_block(
        "for i in range(4):\n    with T.block('b'):\n        vi = T.axis.remap('S', [i])\n        A[vi, 0] = 0.0"
    )
    assert single.iters[0].var.name == "vi" and single.body.indices[0] is single.iters[0].var


def test_header_forms():
    block = first_block(
        """
for i in range(4):
    with T.sblock("b"):
        vi = T.axis.S(4, i)
        T.where(i < 3 and n > 2)
        T.reads(A[vi, 0:16], B[vi, 2 * vi : 2 * vi + 3])
        T.writes([A[vi, 4]])
        T.sblock_attr({"a": 1, "b": [1, "x"], "c": {"d": 2}})
        A[vi, 4] = A[vi, 3] + B[vi, 2 * vi]
"""
    )
    assert type(block.predicate).__name__ == "And"
    assert show(block.reads) == ["A[vi:+1, 0:+16]", "B[vi:+1, (vi * 2):+3]"] or show(block.reads) == [
        "A[vi:+1, 0:+16]",
        "B[vi:+1, (2 * vi):+3]",
    ]
    assert show(block.writes) == ["A[vi:+1, 4:+1]"]
    assert block.annotations == {"a": 1, "b": (1, "x"), "c": {"d": 2}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("T.where(n > 2)", "two T.where"),
        ("T.reads(A[vi, 0])", "two T.reads"),
        ("T.writes(A[vi, 4])", "two T.writes"),
        ('T.block_attr({"a": 2})', "two T.block_attr"),
        ("vi = T.axis.S(4, i)", "axis 'vi' of block 'b' is defined twice"),
        ("vj, vj = T.axis.remap('SS', [i, i])", "axis 'vj' of block 'b' is defined twice"),
    ],
)
def test_a_header_says_each_thing_once(line: str, message: str):
    with pytest.raises(ScriptError, match=message):
        first_block(f"""
for i in range(4):
    with T.block("b"):
        vi = T.axis.S(4, i)
        T.where(i < 3)
        T.reads(A[vi, 0:16])
        T.writes(A[vi, 4])
        T.block_attr({{"a": 1}})
        {line}
        A[vi, 4] = A[vi, 3]
""")


def test_empty_regions_are_kept():
    block = first_block("with T.block('b'):\n    vi = T.axis.S(1, 0)\n    T.reads()\n    T.writes()\n    A[0, 0] = 1.0")
    assert block.reads == () and block.writes == ()


def test_whole_buffers_and_missing_dimensions_as_regions():
    block = first_block(
        "with T.block('b'):\n    v = T.axis.S(1, 0)\n    T.reads(A)\n    T.writes(B[3])\n    B[3, 0] = 1.0"
    )
    assert show(block.reads) == ["A[0:+16, 0:+16]"] and show(block.writes) == ["B[3:+1, 0:+16]"]


def test_init_leaves_written_buffers_out_of_the_reads():
    block = first_block(
        """
for i, k in T.grid(16, 16):
    with T.block("sum"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi, 0] = 0.0
        B[vi, 0] += A[vi, vk]
"""
    )
    assert show(block.reads) == ["A[vi:+1, vk:+1]"] and show(block.writes) == ["B[vi:+1, 0:+1]"]
    assert block.init.value.value == 0.0
    update = first_block(
        "for i in range(16):\n    with T.block('u'):\n        vi = T.axis.S(16, i)\n        B[vi, 0] += A[vi, 1]"
    )
    assert show(update.reads) == ["B[vi:+1, 0:+1]", "A[vi:+1, 1:+1]"]


@pytest.mark.parametrize(
    ("inside", "reads"),
    [
        ("for k in range(4):\n    B[vi, k] = A[vi, k]", "A[vi:+1, 0:+4]"),
        ("for k in range(4):\n    B[vi, k] = A[vi * 4 + k, 0]", "A[(vi * 4):+4, 0:+1]"),
        ("for k in range(2, 5):\n    B[vi, k] = A[vi + k * 2, k - 1]", "A[(vi + 4):+5, 1:+3]"),
        ("for k, l in T.grid(3, 4):\n    B[vi, k] = A[k * 4 + l, 15 - l]", "A[0:+12, 12:+4]"),
        ("for k in range(vi, vi + 3):\n    B[vi, k] = A[k, k - vi]", "A[vi:+3, 0:+3]"),
        ("for k in range(8):\n    for l in range(k, k + 2):\n        B[vi, k] = A[l, k // 2]", "A[0:+9, 0:+4]"),
        ("for k in range(8):\n    B[vi, k] = A[k % 4, (k + 8) % 16]", "A[0:+4, 8:+8]"),
        ("for k in range(8):\n    x = k + vi\n    B[vi, k] = A[x, x + 1]", "A[vi:+8, (vi + 1):+8]"),
        ("B[vi, 0] = A[vi, 0] + A[vi, 3]", "A[vi:+1, 0:+4]"),
        ("B[vi, 0] = A[vi - 1, 0] + A[vi, 0] + A[vi + 1, 0]", "A[(vi - 1):+3, 0:+1]"),
        ("B[vi, 0:4] = A[vi, vi : vi + 4]", "A[vi:+1, vi:+4]"),
        ("for k in range(4):\n    B[vi, k] = A[T.min(k, 2), T.max(k, vi)]", "A[0:+3, max(0, vi):+((max(3, vi) - max(0, vi)) + 1)]"),
        ("for k in range(n):\n    B[vi, k] = A[k, k * n]", "A[0:+n, 0:+16]"),
        ("for k in range(4):\n    B[vi, k] = T.if_then_else(k < 2, A[k, 0], A[k, 5])", "A[0:+4, 0:+6]"),
        ("k = n\nwhile k > 0:\n    B[vi, 0] = A[k, 1]", "A[n:+1, 1:+1]"),
    ],
)  # fmt: skip
def test_inferred_reads_bound_the_accesses(inside, reads):
    lines = "\n".join("        " + line for line in inside.split("\n"))
    block = first_block(f"for i in range(4):\n    with T.block('b'):\n        vi = T.axis.S(4, i)\n{lines}")
    shown = [r for r in show(block.reads) if r.startswith("A")]
    assert shown == [reads.replace("max(0, vi)", "(0 max vi)").replace("max(3, vi)", "(3 max vi)")]


def test_indices_that_are_loaded_stand_in_the_region():
    block = first_block(
        """
for i in range(4):
    with T.block("gather"):
        vi = T.axis.S(4, i)
        row = I[vi]
        B[vi, 0] = A[row, 0]
        B[vi, 1] = A[I[vi + 1], 0]
""",
        HEAD + ", I: T.Buffer((16,), 'int32')",
    )
    reads = show(block.reads)
    assert reads[0] == "I[vi:+2]" and reads[1].startswith("A[(I[vi] min I[(vi + 1)]):+")
    over = first_block(
        """
with T.block("gather"):
    v = T.axis.S(1, 0)
    for k in range(4):
        B[0, k] = A[I[k], 0]
""",
        HEAD + ", I: T.Buffer((16,), 'int32')",
    )
    assert show(over.reads) == ["A[0:+16, 0:+1]", "I[0:+4]"]


def test_variables_are_added_to_the_regions_that_are_stated():
    stated = """
s = 0.0
for k in range(4):
    with T.block("b"):
        vk = T.axis.reduce(4, k)
        T.reads(A[vk, 0:4])
        T.writes(B[vk, 0])
        s += A[vk, 0]
        B[vk, 0] = s
"""
    block = first_block(stated)
    assert show(block.reads) == ["A[vk:+1, 0:+4]", "s[0:+1]"] and show(block.writes) == ["B[vk:+1, 0:+1]", "s[0:+1]"]


def test_nested_blocks_count_by_their_declared_regions():
    block = first_block(
        """
for i in range(4):
    with T.block("outer"):
        vi = T.axis.S(4, i)
        for k in range(4):
            with T.block("inner"):
                vk = T.axis.S(16, vi * 4 + k)
                T.reads(A[vk, 0:8])
                T.writes(B[vk, 0])
                B[vk, 0] = A[vk, 3] + A[vk, 12]
"""
    )
    assert show(block.reads) == ["A[(vi * 4):+4, 0:+8]"] and show(block.writes) == ["B[(vi * 4):+4, 0:+1]"]


def test_buffers_allocated_inside_are_left_out():
    block = first_block(
        """
with T.block("b"):
    v = T.axis.S(1, 0)
    C = T.alloc_buffer((4,), "float32")
    with T.init():
        C[0] = 0.0
    C[0] = A[0, 0]
    B[0, 0] = C[0]
"""
    )
    assert show(block.reads) == ["A[0:+1, 0:+1]"] and show(block.writes) == ["B[0:+1, 0:+1]"]
    assert isinstance(block.body.stmts[0], AllocBuffer) and [b.name for b in block.alloc_buffers] == ["C"]


def test_matched_regions_count_for_their_source():
    block = first_block(
        """
for i in range(4):
    with T.block("b"):
        vi = T.axis.S(4, i)
        a = T.match_buffer(A[vi, vi * 4 : vi * 4 + 4], (4,), offset_factor=1)
        b = T.match_buffer(B[0:8, 0:8])
        for k in range(2):
            b[k, 1] = a[k + 1]
"""
    )
    assert show(block.reads) == ["A[vi:+1, ((vi * 4) + 1):+2]"] and show(block.writes) == ["B[0:+2, 1:+1]"]
    first, second = block.match_buffers
    assert first.buffer.name == "a" and first.buffer.dtype == "float32"
    assert [e.value for e in second.buffer.shape] == [8, 8]


def test_pointers_need_declared_regions_except_access_pointers():
    text = "with T.block('b'):\n    v = T.axis.S(1, 0)\n    {}T.call_extern('int32', 'f', {})"
    with pytest.raises(ScriptError, match="block 'b' uses A through its data pointer") as caught:
        first_block(text.format("", "A.data"))
    assert "state T.reads and T.writes" in str(caught.value)
    declared = first_block(text.format("T.reads(A[0:4, 0:4])\n    T.writes()\n    ", "A.data"))
    assert show(declared.reads) == ["A[0:+4, 0:+4]"]
    masked = first_block(text.format("", "A.access_ptr('r'), B.access_ptr('rw')"))
    assert show(masked.reads) == ["A[0:+16, 0:+16]", "B[0:+16, 0:+16]"] and show(masked.writes) == ["B[0:+16, 0:+16]"]


def test_the_implicit_root():
    assert function("A[0, 0] = 1.0").body.__class__.__name__ == "BufferStore", "no block, no root"
    root = function("with T.block('only'):\n    A[0, 0] = 1.0").body
    assert root.name == "only" and show(root.writes) == ["A[0:+1, 0:+1]"]
    root = function("with T.block('b'):\n    v = T.axis.S(1, 0)\n    A[0, 0] = 1.0").body
    assert root.name == "root" and root.reads == () and root.writes == () and not root.iters
    root = function(
        "C = T.alloc_buffer((4,), 'float32')\nwith T.block('b'):\n    v = T.axis.S(1, 0)\n    A[0, 0] = 1.0"
    ).body
    assert root.name == "root" and root.alloc_buffers[0].name == "C"


def test_decorated_blocks_see_closures():
    tile = 4

    @T.prim_func
    def f(A: T.Buffer((16,), "int32")):
        for i in range(16 // tile):
            with T.block("b"):
                vi = T.axis.spatial(16 // tile, i)
                for k in T.vectorized(tile):
                    A[vi * tile + k] = k

    block = f.body.body.body
    assert show(block.writes) == ["A[(vi * 4):+4]"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vi = T.axis.spatial(4, n)", "T.axis.spatial stands directly in a block"),
        ("with T.block('b'):\n    for i in range(4):\n        T.reads(A[i, i])", "T.reads stands directly in a block"),
        ("with T.block('b'):\n    vi = T.axis.remap('S', [n + 1])", "remap binds loop variables"),
        ("for i in range(2):\n    with T.block('b'):\n        vi = T.axis.remap('X', [i])", "knows the kinds S"),
        ("for i in range(2):\n    with T.block('b'):\n        vi = T.axis.remap('SS', [i])", "2 kinds 'SS' for 1 loops"),
        ("with T.block('b'):\n    T.reads(n)", "T.reads takes regions of buffers"),
        ("with T.block('b'):\n    T.reads(A[0:4:2, 0])", "unit steps"),
        ("with T.block('b'):\n    T.block_attr(3)", "takes a dictionary"),
        ("T.block('b')", "`with T.block"),
        ("with T.block('b'):\n    x = T.match_buffer(A[0:4, 0:4], (4, 4), 'float32')\nwith T.init():\n    pass", "T.init"),
        ("for i in range(2):\n    B = T.match_buffer(A[0:4, 0:4], (4, 4))", "stands directly in a block"),
    ],
)  # fmt: skip
def test_mistakes(text, message):
    with pytest.raises(ScriptError, match=message.replace("(", r"\(")):
        function(text)
