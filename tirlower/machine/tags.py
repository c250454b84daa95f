"""Machines by name: what each of them has, as a target.

A name such as ``nvidia/geforce-rtx-3090-ti`` stands for a kind with its options, as in TVM's table of tags. What the
makers publish is stated here: NVIDIA the compute capability of each product, Apple the limits of Metal's families.
"""

from __future__ import annotations

__all__ = ["TAGS"]

_NVIDIA: dict[str, tuple[str, ...]] = {
    "sm_20": ("tesla-c2050", "tesla-c2070", "tesla-c2075", "quadro-4000", "quadro-5000", "quadro-6000", "quadro-7000"),
    "sm_30": ("tesla-k10", "quadro-k4000", "quadro-k5000", "geforce-gtx-660", "geforce-gtx-670", "geforce-gtx-680",
              "geforce-gtx-760", "geforce-gtx-770"),
    "sm_35": ("tesla-k20", "tesla-k40", "quadro-k6000", "geforce-gtx-780", "geforce-gtx-780-ti", "geforce-gtx-titan",
              "geforce-gtx-titan-black", "geforce-gtx-titan-z"),
    "sm_37": ("tesla-k80",),
    "sm_50": ("quadro-k620", "quadro-k1200", "quadro-k2200", "quadro-m1000m", "quadro-m1200", "quadro-m2000m",
              "geforce-gtx-745", "geforce-gtx-750", "geforce-gtx-750-ti", "geforce-gtx-850m", "geforce-gtx-860m",
              "geforce-gtx-950m", "geforce-gtx-960m"),
    "sm_52": ("tesla-m4", "tesla-m6", "tesla-m40", "tesla-m60", "quadro-m2000", "quadro-m4000", "quadro-m5000",
              "quadro-m6000", "quadro-m6000-24gb", "geforce-gtx-950", "geforce-gtx-960", "geforce-gtx-970",
              "geforce-gtx-980", "geforce-gtx-980-ti", "geforce-gtx-970m", "geforce-gtx-980m", "geforce-gtx-titan-x"),
    "sm_60": ("tesla-p100", "quadro-gp100"),
    "sm_61": ("tesla-p4", "tesla-p40", "quadro-p400", "quadro-p600", "quadro-p620", "quadro-p1000", "quadro-p2000",
              "quadro-p2200", "quadro-p4000", "quadro-p5000", "quadro-p6000", "geforce-gt-1030", "geforce-gtx-1050",
              "geforce-gtx-1050-ti", "geforce-gtx-1060", "geforce-gtx-1070", "geforce-gtx-1070-ti", "geforce-gtx-1080",
              "geforce-gtx-1080-ti", "nvidia-titan-x", "nvidia-titan-xp"),
    "sm_70": ("tesla-v100", "nvidia-v100", "quadro-gv100", "nvidia-titan-v"),
    "sm_75": ("tesla-t4", "nvidia-t4", "quadro-t1000", "quadro-t2000", "quadro-rtx-3000", "quadro-rtx-4000",
              "quadro-rtx-5000", "quadro-rtx-6000", "quadro-rtx-8000", "geforce-gtx-1650", "geforce-gtx-1650-ti",
              "geforce-gtx-1660", "geforce-gtx-1660-super", "geforce-gtx-1660-ti", "geforce-rtx-2060",
              "geforce-rtx-2060-super", "geforce-rtx-2070", "geforce-rtx-2070-super", "geforce-rtx-2080",
              "geforce-rtx-2080-super", "geforce-rtx-2080-ti", "nvidia-titan-rtx"),
    "sm_80": ("nvidia-a100", "nvidia-a30"),
    "sm_86": ("nvidia-a2", "nvidia-a10", "nvidia-a16", "nvidia-a40", "rtx-a2000", "rtx-a3000", "rtx-a4000",
              "rtx-a5000", "rtx-a6000", "geforce-rtx-3050", "geforce-rtx-3060", "geforce-rtx-3060-ti",
              "geforce-rtx-3070", "geforce-rtx-3070-ti", "geforce-rtx-3080", "geforce-rtx-3080-ti",
              "geforce-rtx-3090", "geforce-rtx-3090-ti"),
    "sm_89": ("nvidia-l4", "nvidia-l40", "nvidia-l40s", "rtx-6000-ada", "geforce-rtx-4060", "geforce-rtx-4060-ti",
              "geforce-rtx-4070", "geforce-rtx-4070-ti", "geforce-rtx-4080", "geforce-rtx-4090"),
    "sm_90a": ("nvidia-h100", "nvidia-h200", "nvidia-gh200"),
    "sm_100a": ("nvidia-b100", "nvidia-b200"),
    "sm_120a": ("geforce-rtx-5070", "geforce-rtx-5070-ti", "geforce-rtx-5080", "geforce-rtx-5090"),
}  # fmt: skip
"""The products of each compute capability."""

_L2 = {"nvidia-a100": 40 << 20, "nvidia-h100": 50 << 20, "nvidia-h200": 50 << 20, "geforce-rtx-4090": 72 << 20}
"""The bytes of the second cache, where kernels are known to be chosen by it."""

_JETSON = {
    "jetson-nano": ("sm_53", "cortex-a57", 4), "jetson-tx1": ("sm_53", "cortex-a57", 4),
    "jetson-tx2": ("sm_62", "cortex-a57", 4), "jetson-agx-xavier": ("sm_72", "carmel", 8),
    "jetson-xavier-nx": ("sm_72", "carmel", 6), "jetson-orin-nano": ("sm_87", "cortex-a78", 6),
    "jetson-orin-nx": ("sm_87", "cortex-a78", 8), "jetson-agx-orin-32gb": ("sm_87", "cortex-a78", 8),
    "jetson-agx-orin-64gb": ("sm_87", "cortex-a78", 12),
}  # fmt: skip
"""Boards with their GPU's architecture, their processor and its cores."""

_APPLE = {f"m{number}{model}": 1024 for number in (1, 2, 3, 4) for model in ("", "-pro", "-max", "-ultra")}

_AWS = {
    "c4": ("haswell", {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "8xlarge": 18}),
    "c5": ("skylake-avx512", {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "9xlarge": 18, "18xlarge": 36}),
    "c6i": ("icelake-server", {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "8xlarge": 16, "16xlarge": 32}),
}
"""Instances: the processor, and the cores of each size."""


def _host(mtriple: str, mcpu: str, cores: int | None = None) -> dict[str, object]:
    return {"kind": "llvm", "mtriple": mtriple, "mcpu": mcpu, **({} if cores is None else {"num-cores": cores})}


def _table() -> dict[str, dict[str, object]]:
    tags: dict[str, dict[str, object]] = {}
    for arch, models in _NVIDIA.items():
        for model in models:
            registers = 32768 if arch == "sm_20" else 65536
            tags[f"nvidia/{model}"] = {"kind": "cuda", "arch": arch, "registers_per_block": registers}
            if model in _L2:
                tags[f"nvidia/{model}"]["l2_cache_size_bytes"] = _L2[model]
    for model, (arch, mcpu, cores) in _JETSON.items():
        registers = 65536 if arch >= "sm_70" else 32768
        host = _host("aarch64-linux-gnu", mcpu, cores)
        tags[f"nvidia/{model}"] = {"kind": "cuda", "arch": arch, "registers_per_block": registers, "host": host}
    for model, threads in _APPLE.items():
        limits = {"max_shared_memory_per_block": 32768, "thread_warp_size": 32}
        for suffix, most in (("gpu", threads), ("gpu-restricted", 256)):
            metal = {"kind": "metal", "max_threads_per_block": most, **limits}
            tags[f"apple/{model}-{suffix}"] = {**metal, "host": _host("arm64-apple-macos", f"apple-{model[:2]}")}
    for family, (mcpu, sizes) in _AWS.items():
        for size, cores in sizes.items():
            tags[f"aws/cpu/{family}.{size}"] = {"kind": "llvm", "keys": "x86,cpu", "mcpu": mcpu, "num-cores": cores}
    board = {**_host("aarch64-linux-gnu", "cortex-a72", 4), "mattr": "+neon"}
    tags["raspberry-pi/4b-aarch64"] = board
    tags["raspberry-pi/5-aarch64"] = {**board, "mcpu": "cortex-a76"}
    return tags


TAGS = _table()
"""Machines by name, as targets."""
