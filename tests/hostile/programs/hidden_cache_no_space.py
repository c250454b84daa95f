"""No file may grow, no folder can be made, the cache is a file: kernels are compiled, with one warning."""

# expect: ok
import os
import pathlib
import resource
import signal
import tempfile
import warnings

import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def affine(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = A[7 - i] * 3 + i


def right():
    """Build, run, compare; whether the machine code came from the disk."""
    a, b = np.arange(8, dtype="int32") * 7 - 5, np.zeros(8, "int32")
    made = tl.build(affine)
    made(a, b)
    np.testing.assert_array_equal(b, a[::-1] * 3 + np.arange(8))
    return made.report().cached


folder = pathlib.Path(tempfile.mkdtemp())
(folder / "file").write_text("mine")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
os.environ["TIRLOWER_CACHE"] = "on"
for place, size in ((folder / "full", 100), (folder / "file", None), (pathlib.Path("/proc/nothing"), None)):
    os.environ["TIRLOWER_CACHE_DIR"] = str(place)
    if size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert not right() and not right()
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len([w for w in told if "kernels are compiled anew" in str(w.message)]) == 1, (place, told)
assert (folder / "file").read_text() == "mine" and not [p for p in (folder / "full").rglob("*") if p.is_file()]
