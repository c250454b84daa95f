"""Thread axes, memory by scope, launch bounds, parameters and their alias facts, and failures."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import tirlower as tl
from tests.gpu.codegen.building import ARCHITECTURES, build, check, has, instructions, kernel, lowered
from tirlower.diagnostics import CodegenError, LoweringError, TirError
from tirlower.gpu.codegen import compile_module, generate, is_kernel
from tirlower.gpu.codegen.machine import max_shared
from tirlower.ir import IRModule, PrimFunc
from tirlower.machine.target import Target
from tirlower.script import parse

AB = 'A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")'
TARGET = Target("nvptx -arch=sm_80")


def axes(*bound: tuple[str, int], body: str = "C[0] = 1") -> object:
    """A kernel with one loop for each (axis, extent)."""
    text = '@T.prim_func\ndef k(C: T.Buffer((4096,), "int32")):\n'
    for depth, (axis, extent) in enumerate(bound):
        text += "    " * (depth + 1) + f'for v{depth} in T.thread_binding({extent}, thread="{axis}"):\n'
    return parse(text + "    " * (len(bound) + 1) + body + "\n")


# -- threads ---------------------------------------------------------------------------------------------------------


def test_the_block_is_stated():
    module = build(
        axes(("blockIdx.x", 3), ("threadIdx.y", 4), ("threadIdx.x", 32), body="C[v0 * 128 + v1 * 32 + v2] = 1")
    )
    assert ".reqntid 32, 4" in module.ptx
    check(module)


@pytest.mark.parametrize("register", ["ctaid.x", "ctaid.y", "ctaid.z", "tid.x", "tid.y", "tid.z"])
def test_each_axis_is_its_register(register):
    name, axis = register.split(".")
    tag = {"ctaid": "blockIdx", "tid": "threadIdx"}[name]
    module = build(axes((f"{tag}.{axis}", 7), body="C[v0] = v0"))
    assert f"%{register};" in module.ptx
    check(module)


def test_minimums_are_added():
    func = parse("""
@T.prim_func
def k(C: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(5, 37, thread="threadIdx.x"):
        C[tx] = tx
""")
    module = build(func)
    assert ".reqntid 32" in module.ptx
    assert re.search(r"add\.s32\s+%r\d+, %r\d+, 5", module.ptx)
    check(module)


def test_ranges_of_indices_are_known():
    """A thread index is below its extent: quotients by it vanish."""
    module = build(kernel('C: T.Buffer((64,), "int32")', "C[tx] = tx // 32 + bx // 2", blocks=2))
    assert not any(line.startswith(("shr", "div")) for line in instructions(module))


def test_clusters():
    func = axes(("clusterIdx.x", 4), ("clusterCtaIdx.x", 2), ("threadIdx.x", 32), body="C[v0 * 64 + v1 * 32 + v2] = 1")
    module = build(func, "sm_90")
    assert ".reqnctapercluster 2, 1, 1" in module.ptx or ".reqnctapercluster 2" in module.ptx
    (image,) = module.kernels.values()
    assert image.cluster == (2, 1, 1)
    check(module)
    with pytest.raises(CodegenError, match="clusters of blocks, which need sm_90 or newer, and the target is sm_80"):
        build(func, "sm_80")


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        ((("threadIdx.x", 64), ("threadIdx.y", 32)), "64 x 32 x 1 = 2048 threads; 1024 is the most"),
        ((("threadIdx.x", 2), ("threadIdx.z", 65)), "65 threads along z; 64 is the most"),
    ],
)
def test_blocks_with_too_many_threads(bound, message):
    with pytest.raises(TirError, match=message):
        build(axes(*bound))


def test_an_unknown_axis():
    with pytest.raises(TirError, match="warpIdx"):
        build(axes(("warpIdx.x", 4), ("threadIdx.x", 32)))


def test_registers_limited_by_blocks():
    func = kernel(AB, "B[tx] = A[tx]", attrs='"tir.noalias": True, "tir.min_blocks_per_sm": 3')
    low = lowered(func, TARGET)
    # The attribute is read from the kernel: SplitHostDevice may keep it on the host's function.
    low = IRModule({key: f.with_attr("tir.min_blocks_per_sm", 3) for key, f in low.items()})
    assert ".minnctapersm 3" in compile_module(low, TARGET).ptx


# -- parameters ------------------------------------------------------------------------------------------------------


def test_arrays_that_are_only_read_go_by_the_read_only_path():
    module = build(kernel(AB, "B[tx] = A[tx] + B[tx]"))
    assert has(module, "ld.global.nc.b32", "ld.global.b32", "st.global.b32")
    aliased = build(kernel(AB, "B[tx] = A[tx] + B[tx]"), noalias=False)
    assert not has(aliased, "ld.global.nc")


def test_a_written_array_is_read_again_behind_a_barrier():
    """What another thread writes shows behind a barrier: a value from before it must not stand in for a second load."""
    body = """
    B[tx] = A[tx]
    T.tvm_storage_sync("shared")
    C[tx] = B[(tx + 1) % 64]
    T.tvm_storage_sync("shared")
    C[tx] = C[tx] + B[(tx + 1) % 64]
    """
    module = build(kernel(AB + ', C: T.Buffer((256,), "float32")', body, threads=64))
    text = module.ptx
    assert len(re.findall(r"ld\.global\.b32", text)) >= 2
    assert text.count("bar.sync") == 2
    check(module)


def test_the_images_parameters():
    func = kernel(AB + ", n: T.int64, x: T.float32", "if tx < n:\n    B[tx] = A[tx] * x")
    (image,) = build(func).kernels.values()
    assert [(p.name, str(p.dtype), p.pointer) for p in image.params] == [
        (p.name, {"A": "float32", "B": "float32", "n": "int64", "x": "float32"}[p.name], p.name in "AB")
        for p in image.params
    ]
    assert sorted(p.name for p in image.params) == ["A", "B", "n", "x"]
    assert (image.reports, image.sites, image.dynamic_shared, image.static_shared) == (False, (), False, 0)


# -- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool", "float64", "bfloat16"])
def test_static_shared_memory(dtype):
    body = f"""
    s = T.alloc_buffer((256,), "{dtype}", scope="shared")
    s[tx] = T.cast(A[tx], "{dtype}")
    T.tvm_storage_sync("shared")
    B[tx] = T.cast(s[255 - tx], "float32")
    """
    module = build(kernel(AB, body, threads=256))
    size = 256 * {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}.get(dtype, 1)
    (image,) = module.kernels.values()
    assert image.static_shared == size
    assert has(module, "st.shared", "ld.shared", "bar.sync")
    for each in check(module).values():
        assert each.shared == size


def test_dynamic_shared_memory_is_one_symbol():
    body = """
    s = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    t = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    s[tx] = A[tx]
    t[tx] = A[tx] * T.float32(2)
    T.tvm_storage_sync("shared.dyn")
    B[tx] = s[255 - tx] + t[255 - tx]
    """
    module = build(kernel(AB, body, threads=256))
    (image,) = module.kernels.values()
    assert image.dynamic_shared
    assert "tir.use_dyn_shared_memory" in image.launch_params
    assert re.search(r"\.extern \.shared \.align 1024 \.b8 tirlower_dynamic_shared\[\]", module.ptx)
    assert has(module, "st.shared", "ld.shared")
    check(module)


def test_local_arrays_become_registers():
    body = """
    r = T.alloc_buffer((8,), "float32", scope="local")
    for i in T.unroll(8):
        r[i] = A[tx * 8 + i]
    for i in T.unroll(8):
        B[tx * 8 + i] = r[7 - i] * T.float32(2)
    """
    module = build(kernel(AB, body))
    assert ".local" not in module.ptx
    for each in check(module).values():
        assert each.stack == 0


def test_a_local_array_with_run_time_indices_is_memory_of_the_thread():
    body = """
    r = T.alloc_buffer((8,), "float32", scope="local")
    for i in T.unroll(8):
        r[i] = A[tx * 8 + i]
    B[tx] = r[T.cast(A[tx], "int32") % 8]
    """
    module = build(kernel(AB, body))
    assert ".local" in module.ptx
    check(module)


def test_constants_are_global_memory_of_the_module():
    func = parse("""
@T.prim_func
def k(C: T.Buffer((32,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        table = T.allocate_const([1.5, 2.5, -3.0, 4.0], "float32", [4])
        t = T.decl_buffer((4,), "float32", data=table)
        C[tx] = t[tx % 4]
""")
    module = build(func)
    expected = ", ".join(str(byte) for byte in np.array([1.5, 2.5, -3, 4], np.float32).tobytes())
    assert re.search(r"\.global \.align 64 \.b8 \w*\[16\] = \{" + expected, module.ptx)
    check(module)


@pytest.mark.parametrize(
    ("scope", "message"),
    [("wmma.matrix_a", "TransformMmaBufferLayout|scope 'wmma.matrix_a'"), ("nowhere", "nowhere")],
)
def test_scopes_without_memory(scope, message):
    body = f's = T.alloc_buffer((32,), "float32", scope="{scope}")\ns[tx] = A[tx]\nB[tx] = s[tx]'
    with pytest.raises(TirError, match=message):
        build(kernel(AB, body))


def test_shared_memory_of_unknown_size():
    body = 's = T.alloc_buffer((n,), "float32", scope="shared")\ns[tx] = A[tx]\nB[tx] = s[tx]'
    with pytest.raises(TirError, match=r"constant|symbolic"):
        build(kernel(AB + ", n: T.int32", body))


def test_too_much_static_shared_memory():
    params = 'A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")'
    body = 's = T.alloc_buffer((13000,), "float32", scope="shared")\ns[tx * STEP] = A[tx]\nB[tx] = s[(31 - tx) * STEP]'
    with pytest.raises(TirError, match="bytes of static shared memory; 49152 is the most"):
        build(kernel(params, body.replace("STEP", "400")))
    check(build(kernel(params, body.replace("STEP", "396"))))


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_addresses_in_shared_memory_have_32_bits(scope):
    """In the kernel alone the parameters' addresses are wider, and what is added to them."""
    body = f"""s = T.alloc_buffer((256,), "float32", scope="{scope}")
s[T.cast(A[tx], "int32") % 256] = A[tx]
T.tvm_storage_sync("{scope}")
T.evaluate(T.atomic_add(T.address_of(s[T.cast(B[tx], "int32") % 256]), T.float32(1)))
T.tvm_storage_sync("{scope}")
B[tx] = s[T.cast(A[tx + 1], "int32") % 256]"""
    module = build(kernel(AB, body))
    places = re.findall(r"(?:ld|st|atom)\.shared\S*\s+(?:%\w+, )?\[(%r|%rd)\d+[^\]]*\]", module.ptx)
    assert len(places) >= 3 and set(places) == {"%r"}
    assert len(re.findall(r"add\.s64", module.ptx)) == 2 and "cvta.shared" not in module.ptx
    check(module)


def dynamic(count: int, static: int = 0) -> PrimFunc:
    beside = f'z = T.alloc_buffer(({static},), "float32", scope="shared")\nz[tx] = A[tx]\n' if static else ""
    body = f"""s = T.alloc_buffer(({count},), "float32", scope="shared.dyn")
{beside}s[tx] = A[tx]
s[{count} - 32 + tx] = A[tx]
B[tx] = s[{count} - 1 - tx] + s[31 - tx]{" + z[31 - tx]" if static else ""}"""
    return kernel(AB, body)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_too_much_dynamic_shared_memory(arch):
    """What the architecture has, to the byte; ptxas knows only of what is static."""
    most = max_shared(arch)
    check(build(dynamic(most // 4), arch))
    text = rf"`k_kernel` has {most + 4} bytes of dynamic shared memory; a block has at most {most} on {arch}"
    with pytest.raises(CodegenError, match=text) as caught:
        build(dynamic(most // 4 + 1), arch)
    assert "smaller tiles or fewer stages" in str(caught.value)


def test_static_and_dynamic_shared_memory_are_one():
    most = max_shared("sm_90a")
    check(build(dynamic(most // 4 - 32, 32), "sm_90a"))
    with pytest.raises(
        CodegenError, match="and 128 bytes of static shared memory; a block has at most 232448 on sm_90a"
    ):
        build(dynamic(most // 4 - 28, 32), "sm_90a")


def test_a_quarter_of_a_mebibyte_is_refused_by_a_build():
    with pytest.raises(CodegenError, match="has 262144 bytes of dynamic shared memory"):
        tl.build(dynamic(1 << 16), target="nvptx -arch=sm_90a")


# -- failures --------------------------------------------------------------------------------------------------------


def test_assertions_report_and_leave():
    module = build(kernel(AB, 'assert A[tx] < T.float32(3), "value too large"\nB[tx] = A[tx]'))
    (image,) = module.kernels.values()
    assert image.reports
    assert [(site.kind, site.text.split("\n")[0]) for site in image.sites] == [("assert", "value too large")]
    assert has(module, "exit")
    assert re.search(r"atom\.relaxed\.sys\.global\.cas\.b32\s+%r\d+, \[%rd\d+\], 0, 1;", module.ptx)
    check(module)


RING = """
T.create_barriers(1)
if tx == 0:
    T.ptx_init_barrier_thread_count(0, 32)
T.tvm_storage_sync("shared")
CHECK
T.ptx_arrive_barrier(0)
T.ptx_wait_barrier(0, 0)
B[tx] = A[tx]
"""
CHECK = 'assert A[tx] < T.float32(3), "value too large"'


def test_a_failure_where_others_would_wait_ends_the_launch():
    module = build(kernel(AB, RING.replace("CHECK", CHECK)))
    (image,) = module.kernels.values()
    assert image.reports and image.traps
    # The one that claimed the report ends the launch, once the host can see it; the others just leave.
    claim, stores = module.ptx.index(".cas.b32"), [found.start() for found in re.finditer(r"st\.global", module.ptx)]
    fence, trap = re.search(r"(fence\.(sc|acq_rel)\.sys|membar\.sys);", module.ptx), module.ptx.index("trap;")
    assert fence and claim < max(store for store in stores if store < fence.start()) < fence.start() < trap
    assert module.ptx.count("trap;") == 1 and "@%p" in module.ptx[claim:trap]
    check(module)


def test_a_failure_that_nobody_waits_for_ends_its_thread_alone():
    for body in (f"{CHECK}\nB[tx] = A[tx]", RING.replace("CHECK", "")):
        module = build(kernel(AB, body))
        assert not next(iter(module.kernels.values())).traps and "trap" not in module.ptx


def test_a_failure_in_a_function_that_a_kernel_calls_ends_the_launch():
    func = parse(f"""
@I.ir_module
class M:
    @T.prim_func
    def k(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        T.func_attr({{"global_symbol": "k", "tir.noalias": True}})
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
{textwrap.indent(RING.replace("CHECK", "M.check(A.data, tx)").strip(), " " * 16)}

    @T.prim_func(private=True)
    def check(data: T.handle("float32"), i: T.int32):
        A = T.decl_buffer((256,), "float32", data=data)
        assert A[i] < T.float32(3), "value too large"
""")
    module = build(func)
    assert next(iter(module.kernels.values())).traps and "trap;" in module.ptx
    check(module)


def test_every_kernel_numbers_its_own_sites():
    func = parse("""
@T.prim_func
def k(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        assert A[tx] > 0, "first {kernel}"
        B[tx] = A[tx]
    for ty in T.thread_binding(32, thread="threadIdx.x"):
        assert B[ty] > 1, "second"
        A[ty] = B[ty] // A[ty]
""")
    first, second = build(func).kernels.values()
    assert [site.text.split("\n")[0] for site in first.sites] == ["first {kernel}"]
    assert {site.kind for site in second.sites} == {"assert", "division"}
    assert not any("{0}" in site.text for site in second.sites)


def test_assumptions_are_checked_where_asked():
    func = kernel(AB, "T.evaluate(T.assume(A[tx] > T.float32(0)))\nB[tx] = A[tx]")
    low = lowered(func, TARGET)
    (plain,) = generate(low, TARGET).kernels.values()
    (checked,) = generate(low, TARGET, check_assumptions=True).kernels.values()
    assert not plain.reports
    assert checked.reports


def test_a_module_without_kernels():
    func = parse("@T.prim_func\ndef k(A: T.Buffer((4,), 'int32')):\n    A[0] = 1\n")
    with pytest.raises(LoweringError, match="no kernel"):
        generate(IRModule({"k": func}), TARGET)


def test_a_kernel_with_buffer_parameters():
    low = lowered(kernel(AB, "B[tx] = A[tx]"), TARGET)
    ((name, device),) = [(key, f) for key, f in low.items() if is_kernel(f)]
    original = kernel(AB, "B[tx] = A[tx]").with_attr("calling_conv", device.attrs["calling_conv"])
    with pytest.raises(LoweringError, match="has buffer parameters"):
        generate(IRModule({name: original}), TARGET)


def test_calls_without_a_meaning_on_a_device():
    with pytest.raises(TirError, match=r"no meaning on a GPU"):
        build(kernel(AB, 'T.evaluate(T.call_extern("int32", "getpid"))'))
