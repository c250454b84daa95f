"""Numbers of the CUDA driver's interface that the launch uses, by their names there."""

from __future__ import annotations

import enum
from typing import Final

__all__ = [
    "CODE_NAMES",
    "DeviceAttribute",
    "FunctionAttribute",
    "JitOption",
    "PointerAttribute",
    "TENSOR_DTYPES",
    "TENSOR_MAP_BYTES",
    "TENSOR_SWIZZLES",
    "ptx_version_of",
]


class DeviceAttribute(enum.IntEnum):
    """CUdevice_attribute."""

    MAX_THREADS_PER_BLOCK = 1
    MAX_BLOCK_DIM_X = 2
    MAX_BLOCK_DIM_Y = 3
    MAX_BLOCK_DIM_Z = 4
    MAX_GRID_DIM_X = 5
    MAX_GRID_DIM_Y = 6
    MAX_GRID_DIM_Z = 7
    MAX_SHARED_MEMORY_PER_BLOCK = 8
    WARP_SIZE = 10
    MULTIPROCESSOR_COUNT = 16
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    MEMORY_POOLS_SUPPORTED = 115


class FunctionAttribute(enum.IntEnum):
    """CUfunction_attribute."""

    MAX_THREADS_PER_BLOCK = 0
    SHARED_SIZE_BYTES = 1
    LOCAL_SIZE_BYTES = 3
    NUM_REGS = 4
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14


class JitOption(enum.IntEnum):
    """CUjit_option."""

    INFO_LOG_BUFFER = 3
    INFO_LOG_BUFFER_SIZE_BYTES = 4
    ERROR_LOG_BUFFER = 5
    ERROR_LOG_BUFFER_SIZE_BYTES = 6


class PointerAttribute(enum.IntEnum):
    """CUpointer_attribute."""

    MEMORY_TYPE = 2
    DEVICE_ORDINAL = 9


CLUSTER_DIMENSION: Final = 4
"""CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION."""

PORTABLE_CLUSTER: Final = 8
"""The most blocks in a cluster that every device with clusters takes."""

MEMORY_TYPE_HOST: Final = 1
"""CU_MEMORYTYPE_HOST."""

EVENT_DISABLE_TIMING: Final = 2
STREAM_NON_BLOCKING: Final = 1
STREAM_LEGACY: Final = 1
"""CU_STREAM_LEGACY: the handle that names the default stream of a context, as 0 does."""
STREAM_PER_THREAD: Final = 2
"""CU_STREAM_PER_THREAD: the handle of each thread's own default stream."""
ENDED: Final = frozenset((700, 702, 714, 715, 716, 717, 718, 719))
"""Results of a kernel that ran and failed, and of every call after it: the context is lost."""
HOST_ALLOC_PORTABLE_MAPPED: Final = 1 | 2
POOL_RELEASE_THRESHOLD: Final = 4
"""CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: the bytes that a pool keeps when somebody waits."""
JIT_TARGET_LOG_BYTES: Final = 16384

TENSOR_MAP_BYTES: Final = 128
"""sizeof(CUtensorMap); it is aligned to 64."""

TENSOR_SWIZZLES: Final = {0: 0, 32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle by bytes."""

TENSOR_DTYPES: Final = {
    "uint16": 1,
    "int16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
}
"""CUtensorMapDataType; types of one byte are moved as uint8 (0)."""

CODE_NAMES: Final = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    3: ("CUDA_ERROR_NOT_INITIALIZED", "initialization error"),
    4: ("CUDA_ERROR_DEINITIALIZED", "driver shutting down"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    201: ("CUDA_ERROR_INVALID_CONTEXT", "invalid device context"),
    209: ("CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"),
    218: ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    222: ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    701: ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"),
    716: ("CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
}
"""Names and texts of results for drivers that do not say them (cuGetErrorName and cuGetErrorString do)."""

_PTX_OF_CUDA = {
    (11, 8): (7, 8), (12, 0): (8, 0), (12, 1): (8, 1), (12, 2): (8, 2), (12, 3): (8, 3), (12, 4): (8, 4),
    (12, 5): (8, 5), (12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8), (13, 0): (9, 0), (13, 1): (9, 1),
}  # fmt: skip


def ptx_version_of(driver_version: int) -> tuple[int, int]:
    """The newest PTX version that a driver compiles, from cuDriverGetVersion (the table of the PTX manual's releases).

    A driver newer than the table knows at least the last entry's.

    >>> ptx_version_of(12040), ptx_version_of(11040), ptx_version_of(99000)
    ((8, 4), (7, 4), (9, 1))
    """
    release = driver_version // 1000, driver_version % 1000 // 10
    if release < (11, 8):
        # From CUDA 11.0 on the minor versions ran in step; older drivers know what 10.2 did.
        return (7, release[1]) if release[0] == 11 else (6, 5)
    return _PTX_OF_CUDA[max(known for known in _PTX_OF_CUDA if known <= release)]
