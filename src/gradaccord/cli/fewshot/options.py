"""Options that few-shot commands share, and an option for every setting of a few-shot run."""

from __future__ import annotations

import warnings
from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperCommand
from typer.main import get_command

if TYPE_CHECKING:
    from gradaccord.data.images.class_parts import ClassSplits
    from gradaccord.meta.settings import FewShotSettings

MISTAKES = (ValueError, OSError, ModuleNotFoundError, FloatingPointError)
DataDir = Annotated[
    Path | None,
    typer.Option(envvar="GRADACCORD_DATA", metavar="DIR", help="The folder of the data sets."),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of a run, or of one of its seeds.")
]

FLAGS = {"transductive": "--transductive/--non-transductive"}
VARIABLES = {"data_dir": "GRADACCORD_DATA"}


class WithSettings(TyperCommand):
    """A command with an option for every setting of a run, as `FewShotSettings` describes it.

    The options are made on first use, so that other commands do not wait for the import. The command's
    function gets the given ones as `context.obj`.
    """

    _whole = False

    @property
    def params(self) -> list[Any]:
        """The options of the settings, then the command's own; one list, which typer adds to."""
        if not self._whole:
            self._params[:0] = _options()
            self._whole = True
        return self._params

    @params.setter
    def params(self, own: list[Any]) -> None:
        self._params = own

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with the given settings in `context.obj`."""
        given = {option.name: ctx.params.pop(option.name) for option in _options()}
        ctx.obj = {name: value for name, value in given.items() if value is not None}
        return super().invoke(ctx)


@cache
def _options() -> list[Any]:
    with warnings.catch_warnings():  # torch warns if numpy is not installed
        warnings.simplefilter("ignore")
        from gradaccord.meta.settings import FewShotSettings

    def settings(**given: Any) -> None:
        """A stand-in for a command, whose parameters typer turns into options."""

    parameters = []
    for name, field in FewShotSettings.model_fields.items():
        flags = [FLAGS[name]] if name in FLAGS else []
        text = f"{field.description}{_default(name, field.default)}"
        option = typer.Option(*flags, help=text, envvar=VARIABLES.get(name))
        hint = Annotated[_kind(field.annotation) | None, option]  # type: ignore[valid-type]
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint))
    setattr(settings, "__signature__", Signature(parameters))  # noqa: B010
    settings.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(settings)
    return list(get_command(app).params)


def _kind(annotation: Any) -> type:
    """The type behind `Count | None` and the like; a choice between strings is a string."""
    inner = [one for one in get_args(annotation) if one is not NoneType]
    if inner:
        return _kind(inner[0])
    return annotation if isinstance(annotation, type) else str


def _default(name: str, default: Any) -> str:
    """The default as text; if algorithms differ in it, each value with its first algorithm."""
    from gradaccord.meta.algorithms import ALGORITHMS

    starts: dict[Any, str] = {}  # the first algorithm of each value
    for algorithm, own in ALGORITHMS.items():
        starts.setdefault(own.start.get(name, default), algorithm)
    several = len(starts) > 1
    shown = [
        f"{value:g}{who}" if isinstance(value, float) else f"{value}{who}"
        for value, who in ((v, f" with {a}" if several else "") for v, a in starts.items())
        if not (value is None or isinstance(value, bool))
    ]
    return f" Default: {', '.join(shown)}." if shown else ""


def load_splits(settings: FewShotSettings, data_dir: Path | None) -> ClassSplits:
    """The data of a run, from the given folder or the one it was trained with."""
    from gradaccord.data.images.class_splits import load

    s = settings
    return load(s.data, data_dir or s.data_dir, size=s.size, ways=s.ways)
