"""Data of ONNX tensors that stands in files beside the model: read whole, and only from the model's own folder.

Such a file is read and not mapped: whoever shortens or overwrites it later would otherwise end the process with a bus
error, or change the numbers of a model that is compiled already.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tirlower.graph.errors import GraphError
from tirlower.ir.dtype import Array
from tirlower.support.memory import process_memory
from tirlower.support.private_files import READING

__all__ = ["damaged", "read_outside"]


def damaged(message: str) -> GraphError:
    """The error of a model that is not what it says."""
    return GraphError(message, help="the file is damaged: onnx.checker.check_model looks closer, or export it again")


def read_outside(folder: Path | None, stated: Mapping[str, str], size: int, what: str) -> Array:
    """The ``size`` bytes that a tensor's entries of ``external_data`` name, as an array of uint8.

    Raises :class:`GraphError` for a place outside of the folder, or one that has not these bytes, and for more bytes
    than memory has.
    """
    location = stated.get("location", "")
    if folder is None:
        raise GraphError(
            f"{what} stands in the file {location!r}, and a ModelProto has no folder",
            help="give the path of the model, or load it with its data",
        )
    path = _inside(folder, location, what)
    offset = _count(stated.get("offset", "0"), "offset", what)
    length = _count(stated.get("length", str(size)), "length", what)
    if length != size:
        raise damaged(f"{what} has {size} bytes, stated are {length}")
    try:
        descriptor = os.open(path, READING)
    except OSError as error:
        raise GraphError(f"{what} stands in {location!r}, which cannot be read: {error.strerror}") from error
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refused(location, what)
        if offset + size > status.st_size:
            raise damaged(f"{what} ends at byte {offset + size} of {location!r}, which has {status.st_size} bytes")
        if size > process_memory():  # a file of holes may be of any length
            raise GraphError(f"{what} has {size} bytes, more than the memory of this process")
        try:
            data = np.empty(size, np.uint8)
        except MemoryError:
            raise GraphError(f"{what} has {size} bytes, for which there is no memory") from None
        file.seek(offset)
        filled = 0
        while filled < size:
            count = file.readinto(data[filled:].data)
            if not count:
                raise damaged(f"{what} ends at byte {offset + size} of {location!r}, which was shortened meanwhile")
            filled += count
    return data


def _count(text: str, what: str, of: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise damaged(f"the {what} of {of} is a number of bytes, got {text!r}")
    return int(text)


def _inside(folder: Path, location: str, what: str) -> Path:
    """The file of data outside the model: in its folder, reached over no link."""
    parts = location.replace("\\", "/").split("/")
    if not location or "\0" in location or location[0] in "/\\" or ":" in parts[0] or ".." in parts:
        raise _refused(location, what)
    path = folder
    try:
        for part in parts:
            path = path / part
            if path.is_symlink():
                raise _refused(location, what)
        base = folder.resolve()
        if not path.is_file() or base not in path.resolve().parents:
            raise _refused(location, what)
    except OSError:  # a name that is too long, a folder that may not be entered
        raise _refused(location, what) from None
    return path


def _refused(location: str, what: str) -> GraphError:
    return GraphError(
        f"{what} stands in {location!r}, which is no file in the model's folder: nothing is read",
        help="data outside the model has a relative path below the folder of the model, without '..' and links",
    )
