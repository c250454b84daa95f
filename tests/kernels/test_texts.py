"""The texts of the kernels and of the dialect's forms stay as they were: a change of the parser that alters one shows here.

``digests.txt`` has a line for each program: its name, and the first 16 digits of the SHA-256 of its script. After a
change of meaning that is meant, ``python -m tests.kernels.test_texts`` writes it anew.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Iterator

from tests.kernels.corpus import CORPUS
from tests.script.forms import FORMS

TABLE = pathlib.Path(__file__).with_name("digests.txt")


def texts() -> Iterator[tuple[str, str]]:
    """The name and the script of each program: each kernel at each of its sizes, then the forms."""
    for name, kernel in CORPUS.items():
        for index, size in enumerate(kernel.sizes):
            yield f"kernel/{name}/{index}", kernel.program(size).script()
    for name, form in FORMS.items():
        yield f"form/{name}", form.func.script()


def digest(text: str) -> str:
    """The digest of a text, as the table has it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_texts_are_as_they_were():
    wanted = dict(line.rsplit(" ", 1) for line in TABLE.read_text().splitlines())
    found = {name: digest(text) for name, text in texts()}
    missing = wanted.keys() - found.keys()
    assert not missing, f"programs that are gone: {sorted(missing)}"
    changed = [name for name in wanted if found[name] != wanted[name]]
    assert not changed, f"programs whose text is another: {changed}"


if __name__ == "__main__":
    TABLE.write_text("".join(f"{name} {digest(text)}\n" for name, text in texts()))
