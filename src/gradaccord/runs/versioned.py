"""JSON files with a version: written and read here; a damaged or newer one is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError
from typing_extensions import Self

from gradaccord.runs.files import damaged, read_object, write_json


class Versioned(BaseModel):
    """The content of such a file, by default with a fixed name. Without a version it counts as 1."""

    FILE: ClassVar[str]  # its name in any folder; unset where every file has another name
    VERSION: ClassVar[int] = 1
    REMEDY: ClassVar[str] = "repeat the command that wrote it"  # for a damaged file

    def to_json(self) -> dict[str, Any]:
        """Plain values; fields that were never set are left out."""
        return {"version": self.VERSION, **self.model_dump(exclude_unset=True)}

    def write(self, folder: Path) -> None:
        """Write the file into a folder, whole or not at all."""
        write_json(folder / self.FILE, self.to_json())

    def write_file(self, path: Path) -> None:
        """Write a file of any name, with the fields that were never set, too."""
        write_json(path, {"version": self.VERSION, **self.model_dump(mode="json")})

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
        """Read a file of any name; one that is damaged or newer is refused."""
        content = read_object(path)
        version = content.pop("version", 1)
        if not isinstance(version, int):
            raise damaged(path, f"its version is {version!r}", cls.REMEDY)
        if version > cls.VERSION:
            raise ValueError(
                f"{path} has version {version}, and this gradaccord reads versions up to "
                f"{cls.VERSION}: upgrade gradaccord."
            )
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise damaged(path, first_mistake(error), cls.REMEDY) from error


def first_mistake(error: ValidationError) -> str:
    """The first key with a wrong value, and what is wrong with it, in one line."""
    first = error.errors()[0]
    message = " ".join(first["msg"].removeprefix("Value error, ").split())
    place = ".".join(map(str, first["loc"]))
    return f"`{place}`: {message}" if place else message
