"""A JSON file with a version: one way to write it, to read it and to refuse it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError
from typing_extensions import Self

from gradaccord.runs.files import read_json, write_json


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
        try:
            content = read_json(path)
            if not isinstance(content, dict):
                raise ValueError(f"{path} holds no JSON object: run the command that wrote it again.")
            version = content.get("version", 1)
            if not isinstance(version, int):
                raise ValueError(f"{path} has no version: run the command that wrote it again.")
            if version > cls.VERSION:
                raise ValueError(
                    f"{path} has version {content['version']}, and this gradaccord reads "
                    f"versions up to {cls.VERSION}: upgrade it."
                )
            return cls.model_validate(content)
        except (json.JSONDecodeError, UnicodeDecodeError, ValidationError) as error:
            reason = str(error)
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                reason = f"`{'.'.join(map(str, first['loc']))}`: {first['msg']}"
            raise ValueError(
                f"{path} is damaged ({reason}): run the command that wrote it again."
            ) from error
