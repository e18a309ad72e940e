"""Sections of a configuration: unknown keys, names alone, and bounds of numbers."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gradaccord.runs.config_sections import Count, FromName, Named, Positive, Section, Share


class Own(Section):
    count: Count = 1
    rate: Positive = 0.5
    share: Share = 0.0


class Sampler(Named):
    every: int = 1


@pytest.mark.parametrize(
    "given",
    [{"cuont": 1}, {"count": 0}, {"count": 1.5}, {"rate": 0}, {"rate": -1}, {"share": 1.1}],
)
def test_unknown_keys_and_numbers_out_of_bounds_are_refused(given):
    with pytest.raises(ValidationError, match=next(iter(given))):
        Own.model_validate(given)
    assert Own(count=1, rate=1e-9, share=1).share == 1


def test_sections_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        Own().count = 2


def test_a_name_alone_is_a_section_and_other_keys_are_its_options():
    assert Sampler.model_validate("proportional") == Sampler(name="proportional")
    found = Sampler.model_validate({"name": "proportional", "every": 3, "q": 0.5})
    assert (found.every, found.options) == (3, {"q": 0.5})
    assert Sampler.model_validate("x").options == {}
    with pytest.raises(ValidationError, match="name"):
        Sampler.model_validate({"q": 0.5})


def test_other_sections_may_have_a_name_too():
    class Model(Section, FromName):
        name: str
        pooling: str = "cls"

    assert Model.model_validate("minilm") == Model(name="minilm")
    with pytest.raises(ValidationError, match="poling"):
        Model.model_validate({"name": "minilm", "poling": "mean"})
