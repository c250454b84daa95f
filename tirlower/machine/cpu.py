"""The machine we run on: processor name and features for LLVM, triple, data layout, and how many CPUs are ours.

LLVM knows a processor by its family and model numbers and guesses where it has never seen them: a Sapphire Rapids in a
virtual machine came out as ``rocketlake``. The features it reports are right, so the instruction set is right, but the
scheduling model is not (stack traffic in a register-blocked matrix kernel went from 0 to 10 operations). So the name is
checked against the features, and replaced by the newest name of the same vendor that the features prove. Features
that a hypervisor hides are turned off by the feature string whatever the name is.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import llvmlite.binding as llvm

from tirlower.diagnostics import ArgumentValueError, CodegenError, nearest_name
from tirlower.machine.tiles import TILE_FEATURES, permitted

__all__ = [
    "HostCpu",
    "THREADS_VARIABLE",
    "check_cpu",
    "check_features",
    "cpu_name",
    "data_layout",
    "effective_cpu_count",
    "features_of",
    "host_cpu",
    "initialize_native",
    "lacking",
    "triple",
]

#: the environment variable that sets the number of threads
THREADS_VARIABLE: Final = "TIRLOWER_NUM_THREADS"

# A generation of processors: names LLVM knows it by (the first is ours), and features that prove it. Newest first.
_Generation = tuple[tuple[str, ...], frozenset[str]]


def _gen(names: str, features: str) -> _Generation:
    return tuple(names.split()), frozenset(features.split())


_INTEL: Final[tuple[_Generation, ...]] = (
    _gen("diamondrapids", "avx512f amx-fp8"),
    _gen("graniterapids graniterapids-d", "avx512f amx-fp16"),
    _gen("sapphirerapids emeraldrapids", "avx512fp16 avx512bf16"),
    _gen("tigerlake", "avx512vp2intersect avx512vbmi2"),
    _gen("icelake-server", "avx512vbmi2 wbnoinvd pconfig"),
    _gen("icelake-client rocketlake", "avx512vbmi2"),
    _gen("cooperlake", "avx512bf16 avx512vnni"),
    _gen("cascadelake", "avx512vnni"),
    _gen("cannonlake", "avx512vbmi"),
    _gen("skylake-avx512", "avx512bw avx512vl avx512dq avx512cd"),
    _gen("pantherlake clearwaterforest", "avxvnniint16 prefetchi sha512"),
    _gen("arrowlake-s lunarlake", "avxvnniint16 sha512"),
    _gen("arrowlake sierraforest grandridge", "avxvnniint8 avxifma"),
    _gen("alderlake raptorlake meteorlake gracemont", "avxvnni avx2"),
    _gen("skylake", "avx2 adx clflushopt"),
    _gen("broadwell", "avx2 adx rdseed"),
    _gen("haswell", "avx2 fma bmi2"),
    _gen("ivybridge", "avx f16c"),
    _gen("sandybridge", "avx"),
)
_AMD: Final[tuple[_Generation, ...]] = (
    _gen("znver5", "avx512bf16 avx512vp2intersect avxvnni"),
    _gen("znver4", "avx512bf16 avx512vbmi2"),
    _gen("znver3", "avx2 vaes vpclmulqdq"),
    _gen("znver2", "avx2 sha clwb rdpid"),
    _gen("znver1", "avx2 sha adx"),
    _gen("bdver4", "avx2 tbm"),
    _gen("bdver3", "tbm fsgsbase"),
    _gen("bdver2", "tbm fma4"),
    _gen("bdver1", "fma4"),
    _gen("btver2", "avx bmi movbe"),
)
_AMD_PREFIXES: Final = ("znver", "bdver", "btver", "amdfam", "k8", "athlon", "opteron", "geode", "barcelona")
_LEVELS: Final = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64")
_OLDER: Final = (
    *("generic", "core2", "penryn", "nehalem", "westmere", "corei7", "core-avx-i", "core-avx2"),
    *("atom", "bonnell", "silvermont", "goldmont", "goldmont-plus", "tremont"),
    *("k8", "k8-sse3", "athlon64", "opteron", "amdfam10", "barcelona", "btver1"),
)


_V2: Final = frozenset(
    [
        "64bit",
        "cmov",
        "cx8",
        "cx16",
        "fxsr",
        "mmx",
        "sse",
        "sse2",
        "sse3",
        "ssse3",
        "sse4.1",
        "sse4.2",
        "popcnt",
        "sahf",
        "crc32",
    ]
)
_V3: Final = _V2 | frozenset(["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"])
_V4: Final = _V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
_VNNI: Final = _V4 | {"avx512vnni"}
_ICELAKE: Final = _VNNI | frozenset(
    ["avx512vbmi", "avx512vbmi2", "avx512ifma", "avx512bitalg", "avx512vpopcntdq", "gfni"]
)
_ZEN4: Final = _ICELAKE | {"avx512bf16"}
_SAPPHIRE: Final = _ZEN4 | {"avx512fp16", "avxvnni"}
#: features that a processor name implies; of a name that is not here only the baseline is taken for granted
_IMPLIED: Final = {
    "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4,
    "haswell": _V3, "broadwell": _V3, "skylake": _V3, "alderlake": _V3 | {"avxvnni", "gfni"}, "znver1": _V3, "znver2": _V3, "znver3": _V3,
    "skylake-avx512": _V4, "cascadelake": _VNNI, "cooperlake": _VNNI | {"avx512bf16"}, "icelake-client": _ICELAKE,
    "icelake-server": _ICELAKE, "tigerlake": _ICELAKE, "rocketlake": _ICELAKE, "sapphirerapids": _SAPPHIRE,
    "emeraldrapids": _SAPPHIRE, "graniterapids": _SAPPHIRE, "znver4": _ZEN4, "znver5": _ZEN4 | {"avxvnni"},
}  # fmt: skip
_BASELINE: Final = frozenset(["64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2"])


@dataclass(frozen=True, slots=True)
class HostCpu:
    """A processor as LLVM wants it.

    ``name`` is for ``mcpu``, ``llvm_name`` what LLVM calls the host, ``features`` the feature string
    (``"+avx2,-avx512f,..."``, sorted), ``enabled`` the set of features that are on.
    """

    name: str
    llvm_name: str
    features: str
    enabled: frozenset[str]

    def has(self, *features: str) -> bool:
        """True when all the features are on (``host_cpu().has("avx512f", "fma")``)."""
        return self.enabled.issuperset(features)

    @property
    def vector_bits(self) -> int:
        """The widest vector register, in bits: 512, 256 or 128 (at least; SVE is scalable)."""
        if "avx512f" in self.enabled:
            return 512
        return 256 if "avx" in self.enabled else 128

    @property
    def vector_registers(self) -> int:
        """How many vector registers there are."""
        return 32 if self.enabled & {"avx512f", "neon", "v"} else 16


def cpu_name(llvm_name: str, features: Mapping[str, bool]) -> str:
    """The processor name for these features: LLVM's where the features allow it, else the newest that they prove.

    >>> spr = dict.fromkeys("avx avx2 avx512vbmi2 avx512fp16 avx512bf16".split(), True)
    >>> cpu_name("rocketlake", spr), cpu_name("emeraldrapids", spr)
    ('sapphirerapids', 'emeraldrapids')
    """
    on = {name for name, has in features.items() if has}
    amd = llvm_name.startswith(_AMD_PREFIXES) or not on.isdisjoint({"sse4a", "clzero", "fma4"})
    for names, needs in _AMD if amd else _INTEL:
        if needs <= on:
            # A name that is in none of our tables is newer than they are: LLVM saw a model number that it knows.
            return llvm_name if llvm_name in names or llvm_name not in known_cpus() else names[0]
    return llvm_name


@functools.cache
def host_cpu() -> HostCpu:
    """The processor of this machine (found out once).

    On architectures other than x86 this is what LLVM says. Tile registers are a feature where the system lets this process
    use them.
    """
    llvm_name: str = llvm.get_host_cpu_name()
    try:
        features: dict[str, bool] = dict(llvm.get_host_cpu_features())
    except RuntimeError:
        # LLVM cannot tell on some systems; the name alone then implies the features.
        features = {}
    is_x86 = triple().split("-")[0] in ("x86_64", "i686", "amd64")
    if any(features.get(name) for name in TILE_FEATURES) and not permitted():
        features |= dict.fromkeys(TILE_FEATURES & features.keys(), False)
    name = cpu_name(llvm_name, features) if is_x86 and features else llvm_name
    text = ",".join([f"{'+' if on else '-'}{feature}" for feature, on in sorted(features.items())])
    return HostCpu(name, llvm_name, text, frozenset([feature for feature, on in features.items() if on]))


def known_cpus() -> tuple[str, ...]:
    """The x86 processor names that :func:`check_cpu` accepts."""
    names = [name for generation in (*_INTEL, *_AMD) for name in generation[0]]
    return (*names, *_LEVELS, *_OLDER)


def check_cpu(name: str) -> None:
    """Refuse an x86 processor name that LLVM would ignore with no more than a line on stderr.

    Raises:
        CodegenError: the name is unknown.
    """
    if triple().startswith("x86_64") and name not in known_cpus() and name != llvm.get_host_cpu_name():
        near = nearest_name(name, known_cpus())
        raise CodegenError(
            f"unknown processor {name!r}",
            origin="target",
            help=f"use {near!r}" if near else 'use "native", "x86-64-v3", or a name of LLVM\'s such as "znver4"',
        )


def check_features(features: str) -> None:
    """Refuse an x86 feature string (``"+avx2,-avx512f"``) with unknown features or without signs.

    Raises:
        CodegenError: a feature is unknown or has no sign.
    """
    known = [item[1:] for item in host_cpu().features.split(",") if item]
    for item in filter(None, features.split(",")):
        if item[0] not in "+-":
            raise CodegenError(f"target feature {item!r} has no sign", origin="target", help=f"write '+{item}'")
        if triple().startswith("x86_64") and known and item[1:] not in known:
            near = nearest_name(item[1:], known)
            raise CodegenError(
                f"unknown target feature {item!r}",
                origin="target",
                help=f"use {item[0] + near!r}" if near else "leave it out",
            )


def features_of(name: str) -> frozenset[str]:
    """The features that code for an x86 processor may use without asking: those that its name is sure to imply.

    >>> "avx2" in features_of("x86-64-v3"), "avx2" in features_of("x86-64-v2")
    (True, False)
    """
    return _IMPLIED.get(name, _BASELINE)


def lacking(cpu: str, features: str) -> tuple[str, ...]:
    """What code for a processor and a feature string may use, and this machine does not have; sorted, empty if nothing.

    Running such code ends the process with an illegal instruction.
    """
    here = host_cpu()
    if not triple().startswith("x86_64") or not here.enabled or (cpu == here.name and features == here.features):
        return ()
    needed = set(features_of(cpu))
    for names, proof in (*_INTEL, *_AMD):
        if cpu in names:
            needed |= proof
    for item in filter(None, features.split(",")):
        (needed.add if item[0] == "+" else needed.discard)(item[1:])
    told = {item[1:] for item in here.features.split(",")}
    return tuple(sorted((needed & told) - here.enabled))


@functools.cache
def triple() -> str:
    """The target triple of this process, ``x86_64-unknown-linux-gnu``."""
    return str(llvm.get_process_triple())


@functools.cache
def initialize_native() -> None:
    """Prepare LLVM to compile for this machine. Free after the first time."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


@functools.cache
def data_layout() -> str:
    """LLVM's data layout string of this machine."""
    initialize_native()
    machine = llvm.Target.from_triple(triple()).create_target_machine(codemodel="small", reloc="pic")
    return str(machine.target_data)


def effective_cpu_count(variable: str = THREADS_VARIABLE) -> int:
    """How many threads a parallel loop should use: ``TIRLOWER_NUM_THREADS`` if set, else the CPUs we may run on.
    Other workers have another ``variable``.

    Those are the CPUs of the process's affinity mask, and no more than the quota of its control group (a container
    with two CPUs of 64 has an affinity mask of 64).

    Raises:
        ArgumentValueError: the variable is not a positive integer.
    """
    wanted = os.environ.get(variable, "").strip()
    if wanted:
        if not wanted.isascii() or not wanted.isdigit() or int(wanted) < 1:
            raise ArgumentValueError(
                f"{variable} is {wanted!r}, and must be a positive integer",
                origin="threads",
                help=f"set {variable}=1, or unset it to use all CPUs of the process",
            )
        return int(wanted)
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        count = os.process_cpu_count() or 1
    elif hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = cgroup_cpus()
    return max(1, count if quota is None else min(count, quota))


def cgroup_cpus(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The CPU quota of the control group mounted at ``root``, rounded up; ``None`` for no quota."""
    try:
        text = (root / "cpu.max").read_text()
    except OSError:
        try:
            text = (root / "cpu/cpu.cfs_quota_us").read_text() + (root / "cpu/cpu.cfs_period_us").read_text()
        except OSError:
            return None
    words = text.split()
    if len(words) != 2 or not words[0].isdigit() or not words[1].isdigit() or int(words[1]) == 0:
        return None  # "max", or -1: no limit
    return max(1, -(-int(words[0]) // int(words[1])))
