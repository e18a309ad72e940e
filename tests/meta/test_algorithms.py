"""The learners by name: what a run sets is what they take."""

from __future__ import annotations

import inspect
from functools import partial

import pytest

from gradaccord.meta.algorithms import ALGORITHMS, SHARE, find_algorithm
from gradaccord.meta.settings import FewShotSettings


def arguments_of(learner) -> set[str]:
    """Of the class and of those that it hands further ones on to."""
    kind = learner.func if isinstance(learner, partial) else learner
    return {name for each in kind.__mro__[:-1] for name in inspect.signature(each).parameters}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_starts_are_settings_and_options_are_arguments(name):
    own = ALGORITHMS[name]
    fields = set(FewShotSettings.model_fields)
    assert set(own.start) <= fields
    assert set(own.options.values()) <= fields
    assert set(own.options) | {"inner_lr", "inner_steps"} <= arguments_of(own.learner)
    assert not own.seeded or "seed" in arguments_of(own.learner)


def test_gradients_can_be_shared_where_all_tasks_step_together():
    assert SHARE == ("maml", "meta-sgd", "maml++")


def test_an_unknown_name_gets_the_nearest():
    assert find_algorithm("reptile") is ALGORITHMS["reptile"]
    with pytest.raises(ValueError, match=r"no algorithm 'reptil': did you mean 'reptile'\?"):
        find_algorithm("reptil")
