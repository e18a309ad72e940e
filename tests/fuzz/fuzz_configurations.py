"""Damaged configurations, overrides and options given to the reader of configurations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from fuzz_mutations import PIECES, VALUES, changed, damaged
from fuzz_outcome import refusal
from hypothesis import strategies as st
from typer.main import get_command

from gradaccord.cli.app import app
from gradaccord.compare.specs import parse_methods
from gradaccord.compare.sweep import Range
from gradaccord.core.options import options_of
from gradaccord.data.samplers import SAMPLERS
from gradaccord.meta.settings import FewShotSettings, parse_overrides, settings_for
from gradaccord.methods.registry import METHODS, REGULARIZERS
from gradaccord.recipes import recipe_texts
from gradaccord.tasks.registry import KINDS, build
from gradaccord.train.config_file import check_config, read_config
from gradaccord.train.optimizers import OPTIMIZERS

# As people type them, beside values of every type.
TYPED = st.one_of(
    VALUES,
    st.sampled_from(
        ["0,1", ".inf", "inf", "-.5", "1e-4", "yes", "None", "[1,2]", "0.1 ", "mean", "sgd"]
    ),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
)
KEYS = st.one_of(
    st.sampled_from(["", "name", "x", "tasks", "weight", "reduction", "lr"]), st.text(max_size=5)
)


def plain() -> dict[str, Any]:
    """A small configuration."""
    return {"tasks": {"a": {"data": "sst"}, "b": {"data": "sts"}}, "method": {"name": "sum"}}


def read_text(content: bytes, overrides: tuple[str, ...] = ()) -> str | None:
    """The refusal of a configuration file."""
    with TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder, "a.yaml")
        path.write_bytes(content)
        return refusal(lambda: read_config(path, overrides))


def try_configuration(draw: st.DataObject) -> str | None:
    """A recipe damaged as text, or with some of its values changed, and now and then an override."""
    text = draw.draw(st.sampled_from(sorted(recipe_texts().values())))
    if draw.draw(st.booleans()):
        content = draw.draw(damaged(text.encode()), label="content")
    else:
        value = draw.draw(changed(yaml.safe_load(text)), label="values")
        content = yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")
    overrides = draw.draw(st.lists(override(), max_size=1), label="overrides")
    return read_text(content, tuple(overrides))


@st.composite
def override(draw: st.DrawFn) -> str:
    """`key.key=value`, or what is meant to be one."""
    keys = ["train.lr", "method", "method.name", "tasks.a", "train.clip", "model", "", "x.y.z"]
    key = draw(st.sampled_from(keys))
    pieces = PIECES.map(lambda piece: piece.decode("utf-8", "replace"))
    value = draw(st.one_of(TYPED.map(str), pieces))
    return f"{key}={value}"


@cache
def places() -> list[tuple[str, str, tuple[str, ...]]]:
    """Section, name and options of everything that is chosen by name."""
    sections = {
        "method": METHODS, "optimizer": OPTIMIZERS, "regularize": REGULARIZERS, "sampler": SAMPLERS,
        "kind": KINDS,
    }  # fmt: skip
    return [
        (section, name, tuple(entry_options(known[name])))
        for section, known in sections.items()
        for name in known
    ]


def entry_options(entry: Any) -> list[str]:
    """The names of its options."""
    if is_dataclass(entry):
        return [field.name for field in fields(entry)]
    known = getattr(entry, "options", None)
    known = known() if callable(known) else known
    return [*known] if known is not None else [*options_of(entry)] if inspect.isclass(entry) else []


def try_option(draw: st.DataObject) -> str | None:
    """An option of a method, optimiser, regulariser, sampler or kind, with a value it may not take."""
    section, name, options = draw.draw(st.sampled_from(places()), label="what")
    option = draw.draw(st.one_of(st.sampled_from(options), KEYS) if options else KEYS, label="option")
    given = {option: draw.draw(TYPED, label="value")}
    if section == "kind":
        needed = {"labels": ["a", "b"]} if "labels" in options else {}
        return refusal(lambda: build(name, **{**needed, **given}))
    content = plain()
    own = {"name": name, **given}
    holder = content if section != "optimizer" else content.setdefault("train", {})
    holder[section] = [own] if section == "regularize" else own
    return refusal(lambda: check_config(content))


def try_text(draw: st.DataObject) -> str | None:
    """What commands take as text: methods to compare, ranges to sweep, settings of few-shot runs."""
    names = st.sampled_from([name for _, name, _ in places()])
    options = st.sampled_from([option for _, _, options in places() for option in options])
    keys = st.sampled_from([*FewShotSettings.model_fields, "train.lr", "method.weight", ""])
    signs = st.sampled_from([":", "=", ",", ";", "+", "@", "..", "[", "]", " ", "smart", "torchjd"])
    parts = st.one_of(names, options, keys, signs, TYPED.map(str))
    text = "".join(draw.draw(st.lists(parts, max_size=8), label="text"))
    setting = f"{draw.draw(keys)}={draw.draw(TYPED.map(str))}"
    read: Callable[[], Any] = draw.draw(
        st.sampled_from(
            [
                lambda: parse_methods(text),
                lambda: Range.parse(text),
                lambda: settings_for(**parse_overrides([text])),
                lambda: settings_for(**parse_overrides([setting])),
            ]
        )
    )
    return refusal(read)


def try_command(draw: st.DataObject) -> str | None:
    """Options of a command with other values; they are read, and the command is not run."""
    command = get_command(app)
    path, word = [], ""
    while hasattr(command, "commands"):
        word = draw.draw(st.sampled_from(sorted(command.commands)))
        command = command.commands[word]
        path.append(word)
    flags = [flag for parameter in command.params for flag in parameter.opts if flag[:1] == "-"]
    words = st.one_of(st.sampled_from([*flags, "--", "-", "--x", "a.yaml"]), TYPED.map(str))
    given = draw.draw(st.lists(words, max_size=5), label="arguments")
    given = [one for one in given if one not in ("--help", "-h")]
    return refusal(lambda: command.make_context(" ".join(path), given))
