"""Loops read from assembly text."""

from __future__ import annotations

from tirlower.llvm.machine_loops import machine_loops

X86 = """
	.globl	first
first:
	xorl	%eax, %eax
.LBB0_1:                                # =>This Loop Header
	xorl	%ecx, %ecx
.LBB0_2:                                # Parent Loop
	vmovups	(%rdi,%rcx,4), %ymm0
	vextractf128	$1, %ymm0, %xmm1
	vpextrd	$2, %xmm1, %edx
	vmulss	%xmm1, %xmm0, %xmm2
	vmovups	%ymm0, 32(%rsp)
	callq	expf@PLT
	addq	$8, %rcx
	cmpq	$64, %rcx
	jne	.LBB0_2
	incq	%rax
	cmpq	$4, %rax
	jne	.LBB0_1
	retq
.Lfunc_end0:
second:
	jmp	.LBB1_3
.LBB1_1:
	addl	(%rdi), %eax
	addq	$4, %rdi
	decq	%rsi
	jne	.LBB1_1
.LBB1_3:
	retq
"""

ARM = """
scale:
	mov	x8, xzr
.LBB0_1:
	ldr	q0, [x0, x8]
	fmul	v0.4s, v0.4s, v1.s[0]
	str	q0, [x1, x8]
	ldr	x9, [sp, #8]
	add	x8, x8, #16
	cmp	x8, #1024
	b.ne	.LBB0_1
	ret
"""


def test_an_inner_loop_and_what_is_wrong_with_it():
    inner, _ = machine_loops(X86)
    assert inner.function == "first"
    assert inner.instructions == 9
    assert inner.vector_bits == 256
    assert (inner.lane_moves, inner.scalar_floats, inner.spills, inner.calls) == (1, 1, 1, 1)
    assert "first: 9 instructions, vectors of 256 bits" in str(inner)
    for flaw in ("1 lane moves", "1 scalar float operations", "1 stack accesses", "1 calls"):
        assert flaw in str(inner)


def test_a_scalar_loop_of_another_function():
    _, loop = machine_loops(X86)
    assert (loop.function, loop.instructions, loop.vector_bits) == ("second", 4, 0)
    assert str(loop) == "second: 4 instructions, scalar"


def test_a_jump_forward_is_no_loop():
    assert machine_loops("f:\n\tje\t.LBB0_2\n\tnop\n.LBB0_2:\n\tretq\n") == ()
    assert machine_loops("") == ()


def test_the_other_architecture():
    (loop,) = machine_loops(ARM)
    assert (loop.function, loop.instructions, loop.vector_bits) == ("scale", 7, 128)
    assert (loop.lane_moves, loop.spills) == (1, 1)
