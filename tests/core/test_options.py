"""Options are read off signatures, and checked by type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest
import torch

from gradaccord.core.options import OptionError, check_options, checked, look_up, options_of


class Base:
    def __init__(self, model: Any, *, size: int = 1) -> None: ...


class Open(Base):
    def __init__(self, model: Any, *, name: str, **options: Any) -> None: ...


class Closed(Base):
    def __init__(self, model: Any, rate: float = 0.1) -> None: ...


def test_options_are_those_of_the_class_and_of_bases_it_hands_the_rest_to():
    assert list(options_of(Open, hidden=["model"])) == ["size", "name"]
    assert list(options_of(Closed, hidden=["model"])) == ["rate"]
    assert options_of(Open)["size"].annotation is int  # not the text "int"


def test_unknown_missing_and_unfit_options_are_refused_by_name():
    known = options_of(Open, hidden=["model"])
    assert check_options("X", {"name": "a", "size": 3}, known) == {"name": "a", "size": 3}
    for given, option, said in [
        ({"name": "a", "sise": 3}, "sise", "X has no option 'sise': did you mean 'size'?"),
        ({"size": 3}, "name", "X needs the option `name`: give it a value."),
        ({"name": "a", "size": True}, "size", "X: `size` is True: it must be a whole number."),
    ]:
        with pytest.raises(OptionError) as caught:
            check_options("X", given, known)
        assert (caught.value.option, str(caught.value)) == (option, said)


@pytest.mark.parametrize(
    ("wanted", "value", "read"),
    [
        (float, 1, 1.0),
        (tuple[float, float], [0.5, 1], (0.5, 1.0)),
        (Sequence[str] | None, ["a"], ("a",)),
        (float | torch.Tensor, 0.5, 0.5),
        (Literal["a", "b"] | None, None, None),
    ],
)
def test_values_are_read_as_their_types_have_them(wanted, value, read):
    assert checked("x", value, wanted) == read


def test_what_yaml_cannot_write_is_not_offered():
    with pytest.raises(OptionError, match=r"^`x` is 'a': it must be a number\.$"):
        checked("x", "a", float | torch.Tensor)
    with pytest.raises(OptionError, match="it must be left out"):
        checked("x", "a", torch.Tensor)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (int, "a whole number"),
        (int | None, "a whole number or null"),
        (Literal["b", "c"] | None, "'b', 'c' or null"),
    ],
)
def test_what_it_may_be_is_one_list_of_words(wanted, words):
    with pytest.raises(OptionError, match=f"^`x` is 'yes': it must be {words}\\.$"):
        checked("x", "yes", wanted)


def test_an_unknown_name_is_answered_with_the_nearest():
    assert look_up("The animal", "cat", {"cat": 1}) == 1
    with pytest.raises(OptionError, match=r"^The animal 'cad' is unknown: did you mean 'cat'\?$"):
        look_up("The animal", "cad", {"cat": 1, "horse": 2})
