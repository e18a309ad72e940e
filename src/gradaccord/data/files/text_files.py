"""Text files: plain, compressed, or in a zip archive; and the faults found in them."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import os
import posixpath
import re
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any

from gradaccord.data.files.bad_files import reading

TYPES: dict[type, str] = {
    str: "a text", int: "a whole number", list: "a list", dict: "an object", object: "a value",
}  # fmt: skip
# The first bytes of an archive show what is in it: one of images is left to the readers of images.
_IMAGE = re.compile(rb"\.(?:png|jpe?g|bmp|gif|ppm|tiff?|webp)", re.IGNORECASE)
_PEEK = 4096
_EVERY = 4096  # lines between two words about how far a file was read
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
        with reading(self), self.opened() as (stream, _):
            raw = stream.read()
        if not raw.strip():
            raise ValueError(_empty(self))
        return raw

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

    def each_line(
        self,
        encoding: str = "utf-8",
        newline: str = "\n",
        at_byte: Callable[[int], None] = lambda place: None,
    ) -> Generator[str, None, None]:
        """The lines of `text` one by one, with their ends: memory is that of a line.

        newline: "" also parts them at a bare carriage return. at_byte: called now and then with how
        much of the file (packed, if it is) was read.
        """
        blank = True
        with reading(self), self.opened() as (stream, place):
            if encoding == "utf-8" and self._begins_as_utf_16():
                encoding = "utf-16"
            try:
                with io.TextIOWrapper(stream, encoding, newline=newline) as lines:
                    for number, line in enumerate(lines):
                        if not number:
                            line = line.removeprefix("\ufeff")
                        if number % _EVERY == 0:
                            at_byte(place())
                        blank = blank and not line.strip()
                        yield f"{line[:-2]}\n" if line.endswith("\r\n") else line
            except (UnicodeError, LookupError):
                self.text(encoding)  # which says where
                raise
        if blank:
            raise ValueError(_empty(self))

    def beginning(self, least: int, encoding: str = "utf-8") -> str:
        """The first lines, of at least this many characters together if there are as many."""
        found, length = [], 0
        with closing(self.each_line(encoding)) as lines:
            for line in lines:
                found.append(line)
                length += len(line)
                if length > least:
                    break
        return "".join(found)

    @property
    def size(self) -> int:
        """Bytes, packed as they are."""
        if not self.member:
            return self.path.stat().st_size
        with zipfile.ZipFile(self.path) as archive:
            return archive.getinfo(self.member).file_size

    @contextmanager
    def opened(self) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
        """The unpacked bytes as a stream, and how much of the file was read."""
        if self.member:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as raw:
                yield _unpacking(raw), raw.tell
        else:
            with self.path.open("rb") as raw:
                yield _unpacking(raw), raw.tell

    def _begins_as_utf_16(self) -> bool:
        with self.opened() as (stream, _):
            return stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

    def lines(self, encoding: str = "utf-8") -> list[str]:
        """The lines without their ends. (`splitlines` would also part them at U+2028 and the like.)"""
        lines = self.text(encoding).split("\n")
        while not lines[-1].strip():
            lines.pop()
        return lines

    def json(self) -> Any:
        """The content as one JSON value."""
        return parsed(self.text(), self)

    def json_lines(
        self, at_byte: Callable[[int], None] = lambda place: None
    ) -> Generator[tuple[int, dict[str, Any]], None, None]:
        """Each line's number and the JSON object that stands there; blank lines are skipped."""
        with closing(self.each_line(at_byte=at_byte)) as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                row = parsed(line.rstrip("\n"), self, number)
                if not isinstance(row, dict):
                    shown = line.rstrip("\n")[:40]
                    raise ValueError(f"{at(self, number)}: not a JSON object but {shown!r}.")
                yield number, row


def _unpacking(raw: IO[bytes]) -> IO[bytes]:
    """What gzip, bzip2 or Zstandard packed, known by its first bytes; else the bytes as they are."""
    head = raw.read(10)
    raw.seek(0)
    packed: Any = raw
    if head[:2] == b"\x1f\x8b":
        packed = gzip.GzipFile(fileobj=raw)
    elif head[:3] == b"BZh" and head[4:10] == b"1AY&SY":
        packed = bz2.BZ2File(raw)
    elif head[:4] == b"\x28\xb5\x2f\xfd":
        try:
            import pyarrow
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                'Zstandard files need the package pyarrow: pip install "gradaccord[train]".',
                name="pyarrow",
            ) from error
        packed = io.BufferedReader(pyarrow.input_stream(raw, compression="zstd"))
    unpacked: IO[bytes] = packed
    return unpacked


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
