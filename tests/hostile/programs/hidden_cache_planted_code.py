"""Another user's machine code under the right name, with a right checksum, in a cache that he can write to: never run."""

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

import struct  # noqa: E402

from tirlower.llvm import cache as files  # noqa: E402


@T.prim_func
def evil(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = 666


tl.build(evil.with_attr("global_symbol", "affine"))  # under the same name: it would link
(other,) = [path for path in folder.rglob("*.tlo") if path != entry]
header, _ = files._decode(kept)
_, code = files._decode(other.read_bytes())
import json  # noqa: E402

text = json.dumps(header).encode()
planted = (
    files._HEAD.pack(files._MAGIC, files._digest(struct.pack("<I", len(text)) + text + code), len(text)) + text + code
)


def plant():
    entry.unlink(missing_ok=True)
    entry.write_bytes(planted)
    entry.chmod(0o600)


for place, mode in ((entry, 0o666), (entry, 0o660), (entry.parent, 0o777), (entry.parents[1], 0o770), (folder, 0o777)):
    plant()
    before = place.stat().st_mode
    place.chmod(mode)
    if place != entry.parents[1]:
        assert not right(), place
    place.chmod(before & 0o7777)
if os.geteuid() == 0:
    for place in (entry, entry.parent, entry.parents[1], folder):
        plant()
        os.chown(place, 65534, 65534)
        assert not right(), place
        os.chown(place, 0, 0)
