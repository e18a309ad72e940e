"""Damaged configurations, overrides and options given to the reader of configurations."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from fuzz_mutations import PIECES, VALUES, changed, damaged
from fuzz_outcome import refusal
from hypothesis import strategies as st

from gradaccord.core.options import options_of
from gradaccord.methods.registry import METHODS
from gradaccord.recipes import recipe_texts
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
    found = [("method", name, tuple(entry_options(METHODS[name]))) for name in METHODS]
    return found + [("optimizer", name, tuple(entry_options(OPTIMIZERS[name]))) for name in OPTIMIZERS]


def entry_options(entry: Any) -> list[str]:
    """The names of its options."""
    known = getattr(entry, "options", None)
    known = known() if callable(known) else known
    return [*known] if known is not None else [*options_of(entry)] if inspect.isclass(entry) else []


def try_option(draw: st.DataObject) -> str | None:
    """An option of a method or optimiser with a value that it may not take."""
    section, name, options = draw.draw(st.sampled_from(places()), label="what")
    option = draw.draw(st.one_of(st.sampled_from(options), KEYS) if options else KEYS, label="option")
    content = plain()
    holder = content if section == "method" else content.setdefault("train", {})
    holder[section] = {"name": name, option: draw.draw(TYPED, label="value")}
    return refusal(lambda: check_config(content))
