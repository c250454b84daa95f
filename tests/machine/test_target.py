"""Targets as values."""

from __future__ import annotations

import json
import pickle

import pytest

from tirlower.diagnostics import TirError
from tirlower.machine.target import KINDS, Target


def test_spellings_are_equal():
    a = Target("llvm -mcpu=x86-64-v4 -num_threads 2 -fast-math")
    b = Target("llvm", mcpu="x86-64-v4", num_threads=2, fast_math=True)
    c = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num_threads": "2", "fast-math": 1})
    assert a == b == c and hash(a) == hash(b) and Target(a) == a and len({a, b, c}) == 1
    assert a.mcpu == "x86-64-v4" and a.num_threads == 2 and a.fast_math is True and a.mtriple is None
    assert a != Target("llvm") and a != "llvm"


def test_a_text_makes_it_again():
    for target in (
        Target("llvm -mattr=+avx2,+fma -mcpu=znver4"),
        Target("nvptx -arch=sm_90a -max_num_threads=512", host="llvm -opt-level=3"),
        Target("llvm", fast_math=False, libs=["a", "b c"]),
    ):
        assert Target(str(target), host=target.host) == target
        assert Target(target.export()) == target and pickle.loads(pickle.dumps(target)) == target
    assert Target("llvm -mattr=+avx2,+fma").mattr == ("+avx2", "+fma")


def test_hosts():
    gpu = Target("nvptx -arch=sm_90a", host="llvm")
    assert gpu.host == Target("llvm") and gpu.without_host().host is None and gpu.without_host() != gpu
    assert gpu.without_host().with_host("llvm") == gpu and gpu.without_host().arch == "sm_90a"
    assert Target(gpu).host == gpu.host and Target(gpu, host="c").host == Target("c")
    assert Target({"kind": "nvptx", "host": "llvm"}).host == Target("llvm")
    assert Target("cuda -host=llvm").host == Target("llvm")


def test_defaults_of_the_kind():
    gpu = Target("nvptx")
    assert gpu.max_num_threads == 1024 and gpu.is_gpu and gpu.device == "cuda" and gpu.get("thread-warp-size") == 32
    assert Target("nvptx", max_num_threads=256).max_num_threads == 256
    cpu = Target("llvm -keys=arm,cpu -device=arm_cpu")
    assert cpu.keys == ("arm", "cpu") and cpu.device == "arm_cpu" and not cpu.is_gpu
    assert cpu.get("nothing", 7) == 7
    assert gpu.with_options(arch="sm_80").arch == "sm_80"
    for kind in KINDS:
        assert Target(kind).kind == kind and Target(kind).keys


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("llvn", "did you mean 'llvm'"),
        ("zzz", "the targets are"),
        ("llvm -mcup=x", "did you mean 'mcpu'"),
        ("llvm mcpu=x", "options start with '-'"),
        ("llvm -num_threads=two", "'num_threads' of target 'llvm' is int"),
        ("", "empty target"),
        ("llvm -mcpu='x", "cannot read"),
    ],
)
def test_mistakes_are_named(spec, words):
    with pytest.raises(TirError, match=words):
        Target(spec)


def test_unknown_attributes():
    with pytest.raises(AttributeError, match="speed"):
        Target("llvm").speed
    with pytest.raises(AttributeError):
        Target("llvm")._private


def test_the_current_target():
    assert Target.current() is None
    with pytest.raises(TirError, match="no target"):
        Target.current(allow_none=False)
    with Target("llvm") as outer:
        with Target("nvptx") as inner:
            assert Target.current() == inner
        assert Target.current() == outer
    assert Target.current() is None
    with pytest.raises(RuntimeError), Target("llvm"):
        raise RuntimeError
    assert Target.current() is None


def test_options_that_the_kind_has_anyway_say_nothing() -> None:
    written = {"kind": "cuda", "tag": "", "keys": ["cuda", "gpu"], "max_num_threads": 1024, "thread_warp_size": 32}
    assert Target(written) == Target("cuda") and hash(Target(written)) == hash(Target("cuda"))
    assert str(Target("cuda -thread_warp_size=32 -arch=sm_80")) == "cuda -arch=sm_80"
    assert Target({**written, "thread_warp_size": 64}).thread_warp_size == 64
    assert Target({"kind": "llvm", "keys": ["cpu"], "tag": ""}, host={"kind": "llvm", "keys": ["cpu"]}) == Target(
        "llvm", host="llvm"
    )
    assert Target("llvm", keys=("cpu", "mine")).keys == ("cpu", "mine")


def test_machines_by_name() -> None:
    target = Target("nvidia/nvidia-a100", host="llvm")
    assert target.kind == "cuda" and target.arch == "sm_80" and target.is_gpu and target.host == Target("llvm")
    assert Target(target.export()) == target == Target(str(target), host="llvm")
    with pytest.raises(TirError, match="did you mean 'nvidia/nvidia-h100'"):
        Target("nvidia/nvidia-h10O")


def test_a_kind_is_a_text_with_a_name():
    kind = Target("cuda -arch=sm_80").kind
    assert kind == "cuda" and kind.name == "cuda" and hash(kind) == hash("cuda") and {"cuda": 1}[kind] == 1
    assert type(kind.name) is str and f"{kind}" == "cuda" and repr(kind) == "'cuda'"
    assert kind.default_keys == ("cuda", "gpu") and "arch" in kind.options
    assert pickle.loads(pickle.dumps(kind)).name == "cuda" and json.dumps(kind) == '"cuda"'
    assert Target("nvidia/nvidia-a100").kind.name == "cuda" and Target(Target("llvm")).kind.name == "llvm"
    assert Target("llvm").without_host().kind.name == "llvm"


def test_words_of_tvm():
    gpu, cpu = Target("cuda"), Target("llvm -device=arm_cpu")
    assert gpu.max_block_size_x == gpu.max_block_size_y == 1024 and cpu.max_block_size_x is None
    assert gpu.device_name == "" and cpu.device_name == "arm_cpu"
    assert Target("hexagon -vtcm-capacity=4194304").vtcm_capacity_bytes == 4 << 20 and gpu.vtcm_capacity_bytes is None
    assert (
        not gpu.supports_cooperative_matrix
        and Target("vulkan", supports_integer_dot_product=1).supports_integer_dot_product
    )
    assert gpu.get_target_device_type() == 2 and cpu.get_target_device_type() == 1
    assert Target("metal").get_target_device_type() == 8
    assert Target.list_kinds() == list(KINDS)


def test_targets_that_may_be_none():
    assert Target.canon_target(None) is None and Target.canon_target("c") == Target("c")
    assert Target.canon_target_and_host(None) == (None, None)
    assert Target.canon_target_and_host(None, "llvm") == (None, Target("llvm"))
    made, host = Target.canon_target_and_host(Target("cuda", host="c"))
    assert made == Target("cuda", host="c") and host == Target("c")
    assert Target.target_or_current("llvm") == Target("llvm")
    with Target("cuda"):
        assert Target.target_or_current(None) == Target("cuda")
    with pytest.raises(TirError, match="no target is current"):
        Target.target_or_current(None)
