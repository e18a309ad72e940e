"""A JSON file with a version: one way to write it, to read it and to refuse it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError
from typing_extensions import Self

from gradaccord.runs.files import AGAIN, read_json, write_json

LONGEST = 100  # characters of a field's name in an error


class Versioned(BaseModel):
    """The content of a file of one name in some folder. Files without a version are of version 1."""

    FILE: ClassVar[str]
    VERSION: ClassVar[int] = 1

    def to_json(self) -> dict[str, Any]:
        """Plain values; fields that were never set are left out."""
        return {"version": self.VERSION, **self.model_dump(exclude_unset=True)}

    def write(self, folder: Path) -> None:
        """Write the file into a folder, whole or not at all."""
        write_json(folder / self.FILE, self.to_json())

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """Whether the folder has the file."""
        return (folder / cls.FILE).exists()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the file of a folder; one that is damaged or newer is refused."""
        return cls.read_file(folder / cls.FILE)

    @classmethod
    def read_file(cls, path: Path) -> Self:
        """The same for a file of any name."""
        content = read_json(path)
        if not isinstance(content, dict):
            raise ValueError(f"{path} holds no JSON object: {AGAIN}.")
        version = content.get("version", 1)
        if not isinstance(version, int):
            raise ValueError(f"{path} has no version: {AGAIN}.")
        if version > cls.VERSION:
            raise ValueError(
                f"{path} has version {repr(version)[:20]}, and this gradaccord reads versions up to "
                f"{cls.VERSION}: upgrade it."
            )
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))[:LONGEST]
            why = f"`{place}`: {first['msg']}" if place else first["msg"].removeprefix("Value error, ")
            raise ValueError(f"{path} is damaged ({why}): {AGAIN}.") from error
