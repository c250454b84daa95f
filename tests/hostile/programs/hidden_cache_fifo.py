"""FIFOs, sockets, links, folders and huge files at the place of a cache's entry: the build neither waits nor runs them."""

# expect: ok
import os
import pathlib
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


warnings.simplefilter("ignore")
folder = pathlib.Path(tempfile.mkdtemp())
os.environ.update(TIRLOWER_CACHE_DIR=str(folder / "cache"), TIRLOWER_CACHE="on")
assert not right() and right()
(entry,) = folder.rglob("*.tlo")
kept = entry.read_bytes()

entry.unlink()
os.mkfifo(entry)
assert not right() and entry.read_bytes()[:8] == kept[:8], "it is written anew"
assert right()
entry.unlink()
(folder / "elsewhere").write_bytes(kept)
entry.symlink_to(folder / "elsewhere")
assert not right() and not entry.is_symlink()
entry.unlink()
entry.symlink_to("/dev/zero")
assert not right()
os.truncate(entry, 1 << 40)
assert not right()
entry.unlink()
entry.mkdir()
assert not right() and not right()
entry.rmdir()
assert not right() and right()
for junk in (b"", b"x", kept[:40], kept[:-1], kept + b"x", kept[:100] + b"\0" + kept[101:], b"\0" * 5000):
    entry.write_bytes(junk)
    assert not right() and right(), junk[:20]
