"""Files of texts and arrays: written whole or not at all; what is no such file is an error that names it."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tirlower.graph.errors import GraphError
from tirlower.graph.run.archive import ARRAYS, Archive, written_archive

TEXTS = {"a.txt": "first", "b.txt": "zweites ü"}
NAMES = (*TEXTS, "table")


def arrays() -> list[tuple[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        ("one", rng.standard_normal((3, 7))),
        ("none", np.empty((0, 3), "int8")),
        ("two", np.arange(5, dtype="int16")),
    ]


def put(path: Path) -> Path:
    written_archive(path, TEXTS, arrays(), "table")
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    with Archive(put(tmp_path / "f"), NAMES) as archive:
        assert {name: archive.text(name) for name in TEXTS} == TEXTS
        found = archive.arrays("table")
    assert list(found) == ["one", "none", "two"]
    for name, one in arrays():
        raw = found[name]
        assert raw.tobytes() == one.tobytes() and not raw.flags.writeable
        assert not raw.size or raw.ctypes.data % 64 == 0


def test_any_zip_program_reads_it_and_nothing_is_compressed(tmp_path: Path) -> None:
    with zipfile.ZipFile(put(tmp_path / "f")) as archive:
        assert archive.testzip() is None
        assert {i.compress_type for i in archive.infolist()} == {zipfile.ZIP_STORED}
        assert sorted(archive.namelist()) == sorted((*NAMES, ARRAYS))


def test_the_same_contents_are_the_same_bytes(tmp_path: Path) -> None:
    assert put(tmp_path / "f").read_bytes() == put(tmp_path / "g").read_bytes()


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = put(tmp_path / "f")
    before = path.read_bytes()

    class Torn:
        nbytes = 8

        def __array__(self, *given: object, **named: object) -> object:
            raise OSError("the disk is full")

    with pytest.raises(GraphError, match=r"'.*f' cannot be written: the disk is full"):
        written_archive(path, TEXTS, [*arrays(), ("torn", Torn())], "table")  # type: ignore[list-item]
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["f"]


def test_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="cannot be written"):
        put(tmp_path / "none" / "f")
    with pytest.raises(GraphError, match="no file that could be replaced"):
        put(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GraphError, match="no file that could be replaced"):
        put(tmp_path / "pipe")
    with pytest.raises(GraphError, match="cannot be written"):
        put(tmp_path / ("x" * 300))
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_link_is_replaced_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("untouched")
    (tmp_path / "link").symlink_to("target")
    put(tmp_path / "link")
    assert (tmp_path / "target").read_text() == "untouched" and not (tmp_path / "link").is_symlink()


def refused(path: Path, match: str) -> None:
    with pytest.raises(GraphError, match=match) as caught, Archive(path, NAMES) as archive:
        for name in TEXTS:
            archive.text(name)
        archive.arrays("table")
    assert repr(path.name)[1:-1] in caught.value.message and caught.value.help


def test_what_is_no_file(tmp_path: Path) -> None:
    refused(tmp_path / "none", "No such file")
    refused(tmp_path, "directory|regular")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "no regular file")  # and does not wait for a writer
    refused(Path("/dev/zero"), "no regular file")
    (tmp_path / "empty").write_bytes(b"")
    refused(tmp_path / "empty", "no saved graph")
    refused(tmp_path / "a\0b", "null|embedded")


def rewritten(tmp_path: Path, change: Any) -> Path:
    """The file, made again with a member changed or added."""
    path = tmp_path / "changed"
    with zipfile.ZipFile(put(tmp_path / "f")) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            new.writestr(info, old.read(info))
        change(new)
    return path


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", "C:\\x", "c.txt", "a.txt/"])
def test_other_members(name: str, tmp_path: Path) -> None:
    refused(rewritten(tmp_path, lambda z: z.writestr(name, "x")), "member that no saved graph has")
    assert sorted(os.listdir(tmp_path)) == ["changed", "f"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice(tmp_path: Path) -> None:
    refused(rewritten(tmp_path, lambda z: z.writestr("a.txt", "other")), "a.txt: it is there twice")


def only(tmp_path: Path, name: str, info: zipfile.ZipInfo, data: bytes) -> Path:
    path = tmp_path / "changed"
    with zipfile.ZipFile(put(tmp_path / "f")) as old, zipfile.ZipFile(path, "w") as new:
        for one in old.namelist():
            new.writestr(*((info, data) if one == name else (one, old.read(one))))
    return path


def test_members_that_are_links_or_compressed(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("a.txt")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    refused(only(tmp_path, "a.txt", link, b"/etc/passwd"), "a.txt: it is compressed, encrypted or no file")
    packed = zipfile.ZipInfo("a.txt")
    packed.compress_type = zipfile.ZIP_DEFLATED
    refused(only(tmp_path, "a.txt", packed, bytes(10_000_000)), "a.txt: it is compressed")


def test_a_member_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "first")
    refused(path, "it lacks 'b.txt'")


def directory(data: bytes, name: str) -> int:
    """Where the entry of a member begins in the table of members."""
    at = data.rindex(name.encode()) - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    return at


@pytest.mark.parametrize("size", [2**32 - 2, 2**31, 100_000])
def test_sizes_that_are_larger_than_the_file(size: int, tmp_path: Path) -> None:
    data = bytearray(put(tmp_path / "f").read_bytes())
    for name in ("a.txt", ARRAYS):
        torn = bytearray(data)
        struct.pack_into("<II", torn, directory(bytes(data), name) + 20, size, size)
        (tmp_path / "g").write_bytes(torn)
        refused(tmp_path / "g", f"{name}: its size is stated as")


def test_a_member_whose_place_is_that_of_another(tmp_path: Path) -> None:
    data = bytearray(put(tmp_path / "f").read_bytes())
    other = struct.unpack_from("<I", data, directory(bytes(data), "b.txt") + 42)[0]
    # Newer Pythons see themselves that two members overlap, and name the one that was there.
    arrays = rf"{ARRAYS}: |b\.txt: cannot be read: Overlapped entries"
    for name, match in (("a.txt", "a.txt: cannot be read"), (ARRAYS, arrays)):
        torn = bytearray(data)
        struct.pack_into("<I", torn, directory(bytes(data), name) + 42, other)
        (tmp_path / "g").write_bytes(torn)
        refused(tmp_path / "g", match)


@pytest.mark.parametrize(
    "table",
    [
        "one 0 168\ntwo 160 10",
        "one -1 168",
        "one 0 99999999999999999999999",
        "one 0 169000",
        "one 0",
        "one",
        "one 0 168\none 192 8",
        "one 0 ١٦",
        "one 0x0 8",
        "one  0 8",
    ],
)
def test_tables_of_other_arrays(table: str, tmp_path: Path) -> None:
    path = only(tmp_path, "table", zipfile.ZipInfo("table"), table.encode())
    refused(path, "table: ")


def test_each_end_at_which_a_file_can_be_cut_off(tmp_path: Path) -> None:
    data = put(tmp_path / "f").read_bytes()
    path = tmp_path / "g"
    for end in [*range(0, len(data), 7), len(data) - 1]:
        path.write_bytes(data[:end])
        refused(path, "g'")


def test_each_bit_of_a_small_file(tmp_path: Path) -> None:
    """What is not an error says the same texts; the arrays are told by whoever knows their digests."""
    data = put(tmp_path / "f").read_bytes()
    path = tmp_path / "g"
    good = 0
    for at in range(len(data)):
        torn = bytearray(data)
        torn[at] ^= 1 << at % 8
        path.write_bytes(torn)
        try:
            with Archive(path, NAMES) as archive:
                assert {name: archive.text(name) for name in TEXTS} == TEXTS
                assert {k: v.nbytes for k, v in archive.arrays("table").items()} == {"one": 168, "none": 0, "two": 10}
            good += 1
        except GraphError as error:
            assert "g'" in error.message
    assert 0 < good < len(data) / 2 + 300
