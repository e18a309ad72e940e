"""What a configuration of pretraining names, loaded; and what is said of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from pretrain_toy import COUNTS, configured

from gradaccord.pretrain.problem import load_problem, start_messages

ALONE = SimpleNamespace(num_processes=1, mixed_precision="no", device=torch.device("cpu"))


@pytest.fixture(scope="module")
def problem(texts):
    return load_problem(configured(texts))


def test_every_text_is_trained_on_or_held_out(problem):
    assert problem.languages == ["de", "hi", "ru"]
    for train, held in zip(problem.train, problem.held_out, strict=True):
        assert train.texts + held.texts == COUNTS[train.language]
        assert held.texts == pytest.approx(0.1 * COUNTS[train.language], abs=1)
    assert (problem.steps, problem.left_out) == (8, {})
    assert problem.unigrams.keys() == {"de", "hi", "ru"}


def test_epochs_are_steps_over_the_sequences_of_all_languages(problem, texts):
    rows = sum(map(len, problem.train))
    config = configured(texts, train={"steps": None, "epochs": 3})
    assert load_problem(config).steps == round(3 * rows / config.train.batch_size)


def test_the_seed_decides_on_the_weights_and_the_random_state_stays(problem, texts):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    again = load_problem(configured(texts))
    assert torch.equal(torch.get_rng_state(), state)
    other = load_problem(configured(texts, train={"seed": 1}))
    first, same, another = (next(own.model.parameters()).detach() for own in (problem, again, other))
    assert torch.equal(first, same)
    assert not torch.equal(first, another)


def test_what_will_be_trained_is_said_with_its_counts(problem, texts):
    said = [*start_messages(configured(texts), problem, ALONE)]
    tokens = sum(len(own.flat) for own in problem.train)
    rows = sum(map(len, problem.train))
    assert said[0].startswith("bert, fresh weights: 0.0 M weights, 260 pieces; cpu, fp32")
    assert said[1].startswith(
        f"3 languages, 432 texts: {tokens:,} tokens in {rows:,} sequences of 32; "
    )
    assert said[2] == f"8 steps of 8 sequences: {64 / rows:.2f} passes over all texts."
    assert len(said) == 3
