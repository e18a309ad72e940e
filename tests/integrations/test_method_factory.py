"""The Trainer's method from a name, a class or a partial."""

from __future__ import annotations

import pytest
from trainer_toy import (
    arguments,
    bert,
    data,
    trainer,
)

import gradaccord
from gradaccord.integrations import AlignedTrainer

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"method": "pcgard"}, ValueError, "`method` is 'pcgard': did you mean 'pcgrad'"),
        ({"method": 3}, TypeError, "`method` is 3: give a name"),
        ({"train_dataset": {}}, ValueError, "`train_dataset` is an empty mapping"),
    ],
)
def test_bad_options_are_refused_when_the_trainer_is_made(tmp_path, options, error, match):
    given = {"train_dataset": data()} | options
    with pytest.raises(error, match=match):
        AlignedTrainer(bert(), arguments(tmp_path), **given)


def test_method_that_is_already_built_is_refused(tmp_path):
    model = bert()
    with pytest.raises(TypeError, match="`method` is a PCGrad that is already built"):
        trainer(tmp_path, model, trainer_options={"method": gradaccord.PCGrad(model)})
