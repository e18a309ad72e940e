"""Text files wherever they lie: plain, packed, or in a zip archive; and the faults found in them."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import os
import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from gradaccord.data.files.bad_files import reading

TYPES: dict[type, str] = {
    str: "a text", int: "a whole number", list: "a list", dict: "an object", object: "a value",
}  # fmt: skip
# The first bytes of an archive show what is in it: one of images is left to the readers of images.
_IMAGE = re.compile(rb"\.(?:png|jpe?g|bmp|gif|ppm|tiff?|webp)", re.IGNORECASE)
_PEEK = 4096
_PACKED = (".gz", ".bz2", ".zst", ".zstd")  # endings that tell nothing of the format


@dataclass(frozen=True)
class File:
    """A file on disk, or a member of a zip archive. `str()` of it is what an error calls it."""

    path: Path
    member: str = ""

    def __str__(self) -> str:
        return f"{self.member} in {self.path}" if self.member else str(self.path)

    @property
    def name(self) -> str:
        """The last part of the path, without the ending of a packed file."""
        name = PurePosixPath(self.member or self.path.name).name
        return name.removesuffix(next((end for end in _PACKED if name.endswith(end)), ""))

    def sibling(self, name: str) -> File | None:
        """The file of another name beside this one (with or without .gz); None if there is none."""
        return self.relative("", name)

    def relative(self, folder: str, name: str) -> File | None:
        """The file of a name in a folder, given by its path from this file's own."""
        if self.member:
            parent = PurePosixPath(self.member).parent
            inside = posixpath.normpath(parent / folder / name)
            with reading(self.path), zipfile.ZipFile(self.path) as archive:
                names = archive.namelist()
            return next((File(self.path, n) for n in (inside, f"{inside}.gz") if n in names), None)
        place = self.path.parent / folder
        paths = (place / name, place / f"{name}.gz")
        return next((File(path) for path in paths if path.is_file()), None)

    def beside(self, name: str) -> File:
        """`sibling`, which must exist."""
        found = self.sibling(name)
        if found is None:
            raise ValueError(f"{self} needs {name} beside it, which is not there: put it there.")
        return found

    def content(self) -> bytes:
        """All bytes, unpacked. An empty file is an error."""
        with reading(self):
            raw = _unpacked(self._packed())
        if not raw.strip():
            raise ValueError(_empty(self))
        return raw

    def _packed(self) -> bytes:
        if not self.member:
            return self.path.read_bytes()
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(self.member)

    def text(self, encoding: str = "utf-8") -> str:
        """The content as text, every line ended by a bare newline; a byte-order mark is dropped."""
        raw = self.content()
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and encoding == "utf-8":
            encoding = "utf-16"
        try:
            text = raw.decode(encoding)
        except LookupError:
            raise ValueError(
                f"`encoding` is {encoding!r}, which Python does not know: use utf-8 or latin-1."
            ) from None
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise ValueError(
                f"{at(self, line)}: the byte 0x{raw[error.start]:02x} is not {encoding.upper()}: "
                "convert the file to UTF-8, or set `encoding`."
            ) from error
        text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        if not text.strip():
            raise ValueError(_empty(self))
        return text

    def lines(self, encoding: str = "utf-8") -> list[str]:
        """The lines without their ends. (`splitlines` would also part them at U+2028 and the like.)"""
        lines = self.text(encoding).split("\n")
        while not lines[-1].strip():
            lines.pop()
        return lines

    def json(self) -> Any:
        """The content as one JSON value."""
        return parsed(self.text(), self)

    def json_lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each line's number and the JSON object that stands there; blank lines are skipped."""
        for number, line in enumerate(self.lines(), start=1):
            if not line.strip():
                continue
            row = parsed(line, self, number)
            if not isinstance(row, dict):
                raise ValueError(f"{at(self, number)}: not a JSON object but {line[:40]!r}.")
            yield number, row


def _unpacked(raw: bytes) -> bytes:
    """What gzip, bzip2 or Zstandard packed, known by its first bytes; else the bytes as they are."""
    if raw[:2] == b"\x1f\x8b":
        return gzip.decompress(raw)
    if raw[:3] == b"BZh" and raw[4:10] == b"1AY&SY":
        return bz2.decompress(raw)
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        try:
            import pyarrow
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                'Zstandard files need the package pyarrow: pip install "gradaccord[train]".',
                name="pyarrow",
            ) from error
        with pyarrow.input_stream(pyarrow.py_buffer(raw), compression="zstd") as stream:
            return bytes(stream.read())
    return raw


def _empty(file: File) -> str:
    return f"{file} is empty: fetch it again, or leave it out."


def parsed(text: str, file: File | str, line: int = 1) -> Any:
    """The JSON value of a text that begins on a line."""
    with reading(at(file, line), "repair it"):
        try:
            found = json.loads(text)
            if "\\ud" in text:
                check_text(found)
            return found
        except json.JSONDecodeError as error:
            raise ValueError(f"{at(file, line + error.lineno - 1)}: not JSON ({error.msg}).") from error


def check_text(value: Any) -> None:
    """Raise if a text in a JSON value holds half of a pair of surrogates, which is no character."""
    json.dumps(value, ensure_ascii=False).encode()


def at(file: File | Path | str, line: int) -> str:
    """How an error begins that was found on a line, the first being 1."""
    return f"{file}, line {line}"


def field(row: Any, name: str, file: File, line: int, kind: type[Any] = object) -> Any:
    """A member of a JSON object, by its name, of a type; dots go deeper: "passage.text"."""
    value = row
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
            raise ValueError(f"{at(file, line)}: there is no field {name!r}; there is: {there}.")
        value = value[part]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{at(file, line)}: {name!r} is {repr(value)[:60]}: give {TYPES[kind]}.")
    return value


def files_under(root: Path) -> dict[str, File]:
    """Every file below a folder by its path from there, with .gz left off and zip archives opened.

    The members of `a/b.zip` count as files below `a`. Archives of images are not opened.
    """
    if not root.is_dir():
        raise FileNotFoundError(2, "No such folder", str(root))
    found: dict[str, File] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__MACOSX")))
        inside = PurePosixPath(Path(folder).relative_to(root).as_posix())
        for name in sorted(names):
            path = Path(folder, name)
            if name.endswith(".zip"):
                for member in _members(path, path.stat().st_size, path.stat().st_mtime_ns):
                    key = str(inside / member).removesuffix(".gz")
                    found.setdefault(key, File(path, member))
            elif not name.startswith("."):
                key = str(inside / name.removesuffix(".gz"))
                if key not in found or not name.endswith(".gz"):
                    found[key] = File(path)
    return found


@lru_cache(maxsize=64)
def _members(path: Path, size: int, modified: int) -> tuple[str, ...]:
    with path.open("rb") as stream:
        if _IMAGE.search(stream.read(_PEEK)):
            return ()
    try:
        with reading(path), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except ValueError:
        return ()  # it may hold no set at all
    return tuple(n for n in names if not n.endswith("/") and "__MACOSX/" not in n)
