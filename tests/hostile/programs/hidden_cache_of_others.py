"""The disk cache in folders that others may write, of links, of huge and of foreign files: compiled anew, never run."""

# expect: ok
import os
import stat
import tempfile
import warnings
from pathlib import Path

import numpy as np

base = tempfile.mkdtemp()
os.environ["TIRLOWER_CACHE"] = "on"
os.environ["TIRLOWER_CACHE_DIR"] = os.path.join(base, "a", "b")
warnings.simplefilter("ignore")

import tirlower as tl  # noqa: E402
from tirlower.script import parse  # noqa: E402

FUNC = parse("def f(A: T.Buffer((6,), 'int32')):\n    for i in range(6):\n        A[i] = A[i] * 4 - i\n")


def right():
    a = np.arange(6, dtype="int32")
    kernel = tl.build(FUNC)
    kernel(a)
    assert a.tolist() == [k * 4 - k for k in range(6)]
    return kernel.report().cached


def files():
    return [os.path.join(at, name) for at, _, names in os.walk(base) for name in names]


def folders():
    return [at for at, _, _ in os.walk(os.path.join(base, "a"))]


assert not right() and right(), "the cache holds what was built"
for folder in folders():
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700, folder
for mode in (0o777, 0o770, 0o702, 0o1777):
    for place in (folders()[-1], os.environ["TIRLOWER_CACHE_DIR"]):
        os.chmod(place, mode)
        right()
        os.chmod(place, 0o700)
for path in files():
    content = Path(path).read_bytes()
    for spoiled in (
        b"",
        b"\0" * len(content),
        content[: len(content) // 2],
        content[:-1],
        content + b"x",
        content[::-1],
    ):
        os.remove(path)
        with open(path, "wb") as file:
            file.write(spoiled)
        right()
    for make in (
        lambda path: os.symlink("/dev/zero", path),
        lambda path: os.symlink("/nowhere/at/all", path),
        lambda path: os.symlink(path, path),
        lambda path: os.mkfifo(path),
        lambda path: os.mkdir(path),
    ):
        os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.path.lexists(path) and os.remove(
            path
        )
        make(path)
        right()
    os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.path.lexists(path) and os.remove(path)
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    assert not right(), "a file of a terabyte was read"
    os.remove(path)
    with open(path, "wb") as file:
        file.write(content)
    for mode in (0o666, 0o622, 0o777):
        os.chmod(path, mode)
        right()
    os.chmod(path, 0o600)
if os.getuid() == 0:
    right()
    for path in [*files(), *folders()]:
        os.chown(path, 65534, 65534)
        assert not right(), f"{path} of another user was used"
        if os.path.lexists(path):
            os.chown(path, 0, 0)
