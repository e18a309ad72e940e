"""The base classes and types of a configuration's sections, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A section of a configuration; unknown keys are mistakes. Infinite options stay infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class FromName(BaseModel):
    """A section that may be a plain string, its name."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class Named(FromName):
    """A name with options; without options it may be a plain string."""

    model_config = ConfigDict(extra="allow", frozen=True, ser_json_inf_nan="constants")
    name: str

    @property
    def options(self) -> dict[str, Any]:
        """All keys but those that are declared as fields."""
        return dict(self.__pydantic_extra__ or {})
