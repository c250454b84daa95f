"""Files that nobody else can have written: what is read from them is run as machine code.

A file or folder is *ours* where its owner is this process's user, or root, and nobody else may write to it. A folder on
the way may be a place that all may write to only where its sticky bit keeps others from renaming what is ours (as in
``/tmp``). Files are opened without following a link and without waiting, and are regular files of bounded size: a FIFO
or a device in a cache would otherwise stop a build.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

if sys.platform != "win32":
    import pwd

__all__ = [
    "READING",
    "UnsafeFileError",
    "home",
    "make_folder",
    "read_file",
    "refuse_unsafe",
    "refuse_unsafe_file",
    "write_file",
]

_OWNERS = hasattr(os, "geteuid")
"""Whether files have an owner and a mode that say who may write: not on Windows, where a user's folders are his own."""

READING = os.O_RDONLY
"""Flags of files that are opened for reading: over no link, and without waiting for whoever writes to a FIFO."""
for _flag in ("O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY", "O_NOCTTY"):
    READING |= getattr(os, _flag, 0)


class UnsafeFileError(OSError):
    """A file or folder that somebody else could have written, or that is no file or folder."""


def _fault(status: os.stat_result, others_may_write: int) -> str | None:
    """Why something is not ours: its owner, or the bits of ``others_may_write`` in its mode."""
    if not _OWNERS:
        return None
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to the user {status.st_uid}"
    if status.st_mode & others_may_write:
        return f"others may write to it (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def refuse_unsafe(folder: Path) -> None:
    """Raise :class:`UnsafeFileError` unless a folder and everything above it is ours; OSError where there is none.

    The folder's path is a real one, without links. Group members may write to folders above it, as they may to homes.
    """
    for place in (folder, *folder.parents):
        status = os.lstat(place)
        if not stat.S_ISDIR(status.st_mode):
            raise UnsafeFileError(f"{place} is no folder")
        own = place is folder
        loose = stat.S_IWOTH | (stat.S_IWGRP if own else 0)
        if not own and status.st_mode & stat.S_ISVTX:
            loose = 0
        why = _fault(status, loose)
        if why is not None:
            raise UnsafeFileError(f"{place} is not safe: {why}")


def refuse_unsafe_file(path: Path) -> None:
    """Raise :class:`UnsafeFileError` unless something is a regular file that is ours, for libraries that open it themselves;
    OSError where there is none.
    """
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFileError(f"{path} is no regular file")
    why = _fault(status, stat.S_IWGRP | stat.S_IWOTH)
    if why is not None:
        raise UnsafeFileError(f"{path} is not safe: {why}")


def make_folder(folder: Path) -> None:
    """Make a folder and what is missing above it, each for its owner alone. Raises OSError."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if not folder.is_dir():  # another process may have been first
            raise


def read_file(path: str, limit: int) -> tuple[bytes, float]:
    """The bytes of a file that is ours, and when it was last changed.

    Raises :class:`UnsafeFileError` for one that is not, or of more than ``limit`` bytes; OSError.
    """
    try:
        descriptor = os.open(path, READING)
    except FileNotFoundError:
        raise
    except OSError as error:
        if os.path.islink(path):
            raise UnsafeFileError(f"{path} is a link") from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeFileError(f"{path} is no regular file")
        why = _fault(status, stat.S_IWGRP | stat.S_IWOTH)
        if why is not None:
            raise UnsafeFileError(f"{path} is not safe: {why}")
        if status.st_size > limit:
            raise UnsafeFileError(f"{path} has {status.st_size} bytes, more than any entry")
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise UnsafeFileError(f"{path} grows while it is read")
        return data, status.st_mtime
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Write a new file for its owner alone. Raises OSError, also where something stands at its place."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | (READING & ~os.O_RDONLY & ~getattr(os, "O_NONBLOCK", 0))
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)


def home() -> Path | None:
    """The user's home: ``HOME``, or what the system's list of users says where that is no absolute path.

    None where neither names a folder of a user's.
    """
    if not _OWNERS:
        return Path.home()
    chosen = os.environ.get("HOME", "")
    if not os.path.isabs(chosen):
        try:
            chosen = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    plain = os.path.normpath(chosen) if chosen else ""
    return Path(plain) if os.path.isabs(plain) and plain.strip("/") and os.path.isdir(plain) else None
