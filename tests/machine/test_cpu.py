from __future__ import annotations

import os
import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from tirlower.diagnostics import ArgumentValueError, CodegenError
from tirlower.machine import cpu as host

_BASE = "sse4.2 avx avx2 fma bmi2 f16c rdseed adx clflushopt"
_ICL = _BASE + " avx512f avx512bw avx512vl avx512dq avx512cd avx512vnni avx512vbmi avx512vbmi2"
_SPR = _ICL + " wbnoinvd pconfig avx512bf16 avx512fp16 amx-tile amx-int8 amx-bf16 avxvnni"


@pytest.mark.parametrize(
    ("llvm_name", "features", "expected"),
    [
        ("rocketlake", _SPR, "sapphirerapids"),
        ("sapphirerapids", _SPR, "sapphirerapids"),
        ("emeraldrapids", _SPR, "emeraldrapids"),
        ("graniterapids", _SPR + " amx-fp16", "graniterapids"),
        # A hypervisor hides AMX: the scheduling model is still that of the machine.
        ("skylake-avx512", _SPR.replace("amx-tile amx-int8 amx-bf16", ""), "sapphirerapids"),
        # ... or all of AVX-512: what is left runs as a Skylake does.
        ("sapphirerapids", _BASE, "skylake"),
        ("rocketlake", _ICL, "rocketlake"),
        ("skylake-avx512", _ICL + " wbnoinvd pconfig", "icelake-server"),
        ("haswell", "sse4.2 avx avx2 fma bmi2", "haswell"),
        ("alderlake", _BASE + " avxvnni", "alderlake"),
        ("znver4", _ICL + " avx512bf16 sse4a clzero sha vaes vpclmulqdq clwb rdpid", "znver4"),
        ("znver3", _ICL + " avx512bf16 sse4a clzero sha vaes vpclmulqdq clwb rdpid", "znver4"),
        ("x86-64-v4", _ICL + " avx512bf16 sse4a clzero sha vaes vpclmulqdq clwb rdpid", "znver4"),
        ("znver2", _BASE + " sse4a clzero sha clwb rdpid", "znver2"),
        # Newer than our tables: LLVM read a model number that it knows.
        ("novalake", _BASE + " avxvnni", "novalake"),
        ("nehalem", "sse4.2", "nehalem"),
    ],
)
def test_name_follows_the_features(llvm_name, features, expected):
    assert host.cpu_name(llvm_name, dict.fromkeys(features.split(), True)) == expected


def test_features_that_are_off_prove_nothing():
    features = dict.fromkeys(_BASE.split(), True) | dict.fromkeys(["avx512fp16", "avx512bf16"], False)
    assert host.cpu_name("skylake", features) == "skylake"


def test_host_is_consistent_with_llvm():
    cpu = host.host_cpu()
    assert cpu.llvm_name == llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features()
    assert cpu.enabled == {name for name, on in features.items() if on}
    assert all(cpu.has(name) == on for name, on in features.items())
    assert cpu.vector_bits in (128, 256, 512)
    assert host.data_layout().startswith(("e-", "E-"))
    assert host.triple() == llvm.get_process_triple()


def test_llvm_knows_every_name_in_our_tables():
    # LLVM says so only on stderr, where it can be read in a process of its own.
    code = (
        "import llvmlite.binding as llvm\n"
        "from tirlower.machine import cpu as host\n"
        "llvm.initialize_all_targets(); llvm.initialize_all_asmprinters()\n"
        "t = llvm.Target.from_triple('x86_64-unknown-linux-gnu')\n"
        "for name in host.known_cpus(): t.create_target_machine(cpu=name)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "generic" not in line] == []


@pytest.mark.skipif(not host.triple().startswith("x86_64"), reason="the tables are of x86")
def test_unknown_names_and_features_are_refused():
    host.check_cpu("znver4")
    host.check_cpu(host.host_cpu().name)
    with pytest.raises(CodegenError, match="unknown processor 'znver44'") as caught:
        host.check_cpu("znver44")
    assert "use 'znver4'" in str(caught.value)
    host.check_features("+avx2,-avx512f")
    host.check_features("")
    with pytest.raises(CodegenError, match=r"unknown target feature '[+]avx512q'"):
        host.check_features("+avx512q")
    with pytest.raises(CodegenError, match="has no sign"):
        host.check_features("avx2")


def test_thread_count_from_the_environment(monkeypatch):
    monkeypatch.setenv("TIRLOWER_NUM_THREADS", "3")
    assert host.effective_cpu_count() == 3
    for bad in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("TIRLOWER_NUM_THREADS", bad)
        with pytest.raises(ArgumentValueError, match="TIRLOWER_NUM_THREADS"):
            host.effective_cpu_count()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks on this system")
def test_thread_count_from_the_affinity_mask(monkeypatch):
    monkeypatch.delenv("TIRLOWER_NUM_THREADS", raising=False)
    before = os.sched_getaffinity(0)
    assert 1 <= host.effective_cpu_count() <= len(before)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert host.effective_cpu_count() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", None), ("200000 100000", 2), ("150000 100000\n", 2), ("20000 100000", 1)]
)
def test_control_group_quota(tmp_path, text, expected):
    (tmp_path / "cpu.max").write_text(text)
    assert host.cgroup_cpus(tmp_path) == expected


def test_control_group_quota_of_the_first_version(tmp_path):
    assert host.cgroup_cpus(tmp_path) is None
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    assert host.cgroup_cpus(tmp_path) is None
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("400000\n")
    assert host.cgroup_cpus(tmp_path) == 4
