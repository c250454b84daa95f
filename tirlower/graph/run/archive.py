"""Files of compiled graphs from below: a zip whose members are stored as they are, one of them a block of aligned arrays.

What is read was perhaps not written here, or not wholly: each member is looked for by its name, where it lies and how long it
is are checked against the file, and nothing but these members is touched.
"""

from __future__ import annotations

import os
import secrets
import stat
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NoReturn

import numpy as np

from tirlower.graph.errors import GraphError
from tirlower.ir import ALLOC_ALIGNMENT
from tirlower.ir.dtype import Array

__all__ = ["ARRAYS", "Archive", "written_archive"]

ARRAYS = "constants.bin"
"""The member that holds the arrays."""
_TEXTS_AT_MOST = 1 << 30
"""Bytes of a member that is read whole."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LOCAL = struct.Struct("<4s5H3I2H")
"""The header in front of a member's bytes."""


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` when all is written, and leaves it as it was when something fails."""
    name = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with open(name, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def written_archive(path: Path, texts: Mapping[str, str], arrays: Iterable[tuple[str, Array]], table: str) -> None:
    """Write a file of texts and arrays; ``table`` is the name of one more text, the places of the arrays by their names.

    The same contents give the same bytes. Raises :class:`GraphError` where the file cannot be written; then an older file of
    that name is as it was.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise GraphError(f"{os.fspath(path)!r} is no file that could be replaced")
    try:
        with _replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            held = list(arrays)
            room = sum(one.nbytes + ALLOC_ALIGNMENT for _, one in held) + ALLOC_ALIGNMENT
            places: list[str] = []
            with archive.open(_member(ARRAYS, room), "w") as out:
                start = at = file.tell()
                for name, one in held:
                    pad = -at % ALLOC_ALIGNMENT
                    out.write(bytes(pad))
                    places.append(f"{name} {at + pad - start} {one.nbytes}")
                    out.write(np.ascontiguousarray(one).reshape(-1).view(np.uint8).data)
                    at += pad + one.nbytes
            for name, text in {**texts, table: "\n".join(places)}.items():
                archive.writestr(_member(name), text.encode())
    except OSError as error:
        raise GraphError(f"{os.fspath(path)!r} cannot be written: {error.strerror or error}") from error


def _member(name: str, size: int = 0) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name, _EPOCH)
    made.create_system = 3
    made.external_attr = 0o644 << 16
    made.file_size = size  # whether it may need numbers of 64 bits
    return made


class Archive:
    """An open file: the texts of its members, and its arrays, which stay in the file.

    Raises :class:`GraphError` that names the file for what is no regular file, no zip, or one with other members.
    """

    def __init__(self, path: Path, names: Iterable[str]) -> None:
        self.path = path
        self.names = (*names, ARRAYS)
        try:
            # A pipe would wait for a writer.
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except (OSError, ValueError) as error:
            self.fail(getattr(error, "strerror", None) or str(error), help="tg.load takes what exe.save(path) wrote")
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(handle)
            self.fail("it is no regular file", help="tg.load takes what exe.save(path) wrote")
        self.file = os.fdopen(handle, "rb")
        try:
            self.size = status.st_size
            self.members = self._members()
            self.whole = np.memmap(self.file, np.uint8, "r") if self.size else np.empty(0, np.uint8)
        except BaseException:
            self.file.close()
            raise

    def fail(self, what: str, member: str = "", help: str | None = None) -> NoReturn:
        """Raise an error that names the file, and the member."""
        place = f"{os.fspath(self.path)!r}" + (f", {member}" if member else "")
        raise GraphError(f"{place}: {what}", help=help or "the file is damaged, or was made otherwise: save it again")

    def _members(self) -> dict[str, zipfile.ZipInfo]:
        try:
            self.archive = zipfile.ZipFile(self.file)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error, EOFError) as error:
            self.fail(f"it is no saved graph: {error}")
        found: dict[str, zipfile.ZipInfo] = {}
        for one in self.archive.infolist():
            if one.filename not in self.names:
                self.fail(f"it has a member that no saved graph has: {one.filename!r}")
            if one.filename in found:
                self.fail("it is there twice", one.filename)
            kind = stat.S_IFMT(one.external_attr >> 16)
            if one.compress_type != zipfile.ZIP_STORED or one.flag_bits & 1 or kind not in (0, stat.S_IFREG):
                self.fail("it is compressed, encrypted or no file", one.filename)
            if one.compress_size != one.file_size or one.header_offset + one.file_size > self.size:
                self.fail(f"its size is stated as {one.file_size} bytes, in a file of {self.size}", one.filename)
            found[one.filename] = one
        missing = [name for name in self.names if name not in found]
        if missing:
            self.fail(f"it lacks {missing[0]!r}")
        return found

    def text(self, name: str) -> str:
        """The text of a member."""
        if self.members[name].file_size > _TEXTS_AT_MOST:
            self.fail(f"a text of {self.members[name].file_size} bytes is longer than any that is written", name)
        try:
            return self.archive.read(name).decode()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error, EOFError) as error:
            self.fail(f"cannot be read: {error}", name)

    def arrays(self, table: str) -> dict[str, Array]:
        """The bytes of the arrays by name, as they lie in the file; aligned, wherever that was put."""
        first, room = self._block()
        made: dict[str, Array] = {}
        end = 0
        for line in self.text(table).splitlines():
            name, *numbers = line.split(" ")
            if len(numbers) != 2 or not all(n.isascii() and n.isdecimal() and len(n) < 20 for n in numbers):
                self.fail(f"no name, place and size of an array: {line[:80]!r}", table)
            at, size = map(int, numbers)
            if at < end or at + size > room or name in made:
                self.fail(f"the array {name[:16]!r} of {size} bytes at {at} is not in {ARRAYS} of {room}", table)
            end = at + size
            made[name] = self.whole[first + at : first + end]
        return made

    def _block(self) -> tuple[int, int]:
        """Where the bytes of the arrays begin in the file, and how many there are."""
        one = self.members[ARRAYS]
        header = self.whole[one.header_offset : one.header_offset + _LOCAL.size].tobytes()
        if len(header) != _LOCAL.size:
            self.fail("its header lies outside of the file", ARRAYS)
        signature, *_, name, extra = _LOCAL.unpack(header)
        first = one.header_offset + _LOCAL.size + name + extra
        own = self.whole[one.header_offset + _LOCAL.size : one.header_offset + _LOCAL.size + name].tobytes()
        if signature != b"PK\x03\x04" or own != ARRAYS.encode() or first + one.file_size > self.size:
            self.fail("its header is not that of the table of members", ARRAYS)
        return first, one.file_size

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # What is mapped stays so without the file.
        self.archive.close()
        self.file.close()
