"""The system's C compiler: from text to a shared object, in a folder that nobody else can write to.

The compiler is what the environment variable ``CC`` names (with options, if it has some), else ``cc``, ``gcc`` or
``clang``. It is not asked to forgive what C leaves undefined: the text is right without such options.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tirlower.diagnostics import CodegenError
from tirlower.support.private_files import UnsafeFileError, refuse_unsafe, write_file

__all__ = ["FLAGS", "Compiled", "compile_text", "compiler"]

FLAGS: Final = ("-std=c11", "-ffp-contract=off", "-fPIC", "-shared")
_NAMES: Final = ("cc", "gcc", "clang")
_MOST_LINES: Final = 20


@functools.lru_cache(maxsize=8)
def _find(chosen: str) -> tuple[str, ...]:
    for words in [shlex.split(chosen)] if chosen.strip() else [[name] for name in _NAMES]:
        path = shutil.which(words[0]) if words else None
        if path is not None:
            return (path, *words[1:])
    return ()


def compiler() -> tuple[str, ...]:
    """The command of the C compiler. Raises CodegenError where there is none."""
    chosen = os.environ.get("CC", "")
    found = _find(chosen)
    if not found:
        what = (
            f"the C compiler {chosen!r} that CC names was"
            if chosen.strip()
            else f"no C compiler ({', '.join(_NAMES)}) was"
        )
        raise CodegenError(
            f"{what} found, which the target 'c' needs",
            origin="c",
            help="install one, or name it in the environment variable CC; the target 'llvm' needs none",
        )
    return found


class Compiled:
    """A shared object in a folder of its own, removed with :meth:`discard`."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.folder = folder
        self.path = path
        self.size = path.stat().st_size

    def discard(self) -> None:
        """Remove the folder: what is loaded stays."""
        shutil.rmtree(self.folder, ignore_errors=True)


def compile_text(text: str, options: Sequence[str] = ("-O2",), name: str = "kernel") -> Compiled:
    """Compile C text to a shared object.

    Raises:
        CodegenError: there is no compiler, or it refuses the text: its message is in the error's.
    """
    command = compiler()
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="tirlower-c-")))
    try:
        refuse_unsafe(folder)
        source, made = folder / f"{name}.c", folder / f"{name}.so"
        write_file(source, text.encode())
        words = [*command, *FLAGS, *options, str(source), "-o", str(made), "-lm"]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, cwd=folder)
        if done.returncode:
            raise _refused(words, done.stderr or done.stdout, done.returncode, text, source)
        return Compiled(folder, made)
    except UnsafeFileError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CodegenError(
            f"code cannot be compiled in {folder}: {error}",
            origin="c",
            help="let TMPDIR name a folder that nobody else may write to",
        ) from error
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CodegenError(f"the C compiler {command[0]} does not run: {error}", origin="c", help="see CC") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _refused(words: Sequence[str], said: str, status: int, text: str, source: Path) -> CodegenError:
    lines = said.replace(str(source), source.name).strip().splitlines()
    shown = lines[:_MOST_LINES] + (["…"] if len(lines) > _MOST_LINES else [])
    return CodegenError(
        f"the C compiler refuses the text ({len(text.splitlines())} lines) with status {status}:\n" + "\n".join(shown),
        origin="c",
        notes=[f"its command: {shlex.join(words)}"],
        help="see the text by kernel.source('c') on another machine, and report it where it is a fault of ours",
    )
