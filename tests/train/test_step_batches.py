"""What a step is made of, for every way in which methods are fed."""

import pytest
import torch

from gradaccord.data.samplers import TaskBatches
from gradaccord.train.step_batches import StepBatches, make_sampler


def step_batches(feed, *, name=None, options=None, block=1, sizes=(40, 20, 10)):
    batches = {f"t{i}": TaskBatches(range(size), 4, seed=i) for i, size in enumerate(sizes)}
    return StepBatches(make_sampler(name, options or {}, feed, batches, 0), batches, feed, block)


def test_all_gives_a_batch_of_every_task():
    drawn = next(step_batches("all"))
    assert [one.task for one in drawn] == ["t0", "t1", "t2"]
    assert all(len(one.rows) == 4 for one in drawn)


def test_one_gives_a_single_batch():
    given = step_batches("one")
    assert {len(next(given)) for _ in range(20)} == {1}


def test_what_a_sampler_draws_at_once_is_given_one_by_one():
    """The first of an ordered draw alone would favour the tasks that are listed first."""
    given = step_batches("one", name="round_robin")
    assert [next(given)[0].task for _ in range(6)] == ["t0", "t1", "t2"] * 2
    given = step_batches("pair", name="uniform", options={"n": 3})
    assert [one.task for _ in range(3) for one in next(given)] == ["t0", "t1", "t2"] * 2


def test_a_pair_has_two_names_also_if_the_task_is_the_same():
    given = step_batches("pair", sizes=(40,))
    first, second = next(given)
    assert (first.name, second.name) == ("t0#1", "t0#2")
    assert not set(first.rows) & set(second.rows)


def test_blocks_stay_with_a_task():
    given = step_batches("blocks", block=3)
    assert [next(given)[0].task for _ in range(9)] == ["t0"] * 3 + ["t1"] * 3 + ["t2"] * 3


@pytest.mark.parametrize("feed", ["all", "one", "pair", "blocks"])
def test_resumed_step_batches_go_on_with_the_same_rows(feed):
    given, again = step_batches(feed, block=2), step_batches(feed, block=2)
    for _ in range(7):
        next(given)
    again.load_state_dict(given.state_dict())
    assert [next(again) for _ in range(9)] == [next(given) for _ in range(9)]


def test_unknown_samplers_and_options_are_answered():
    with pytest.raises(ValueError, match="did you mean 'proportional'"):
        step_batches("all", name="proportionl")
    with pytest.raises(ValueError, match="it takes q, n"):
        step_batches("all", name="proportional", options={"p": 1})


@pytest.mark.parametrize(("batches", "share"), [(400, 0.25), (2000, 0.1)])
def test_rows_of_like_length_share_a_batch(batches, share):
    rows = 10 * batches
    lengths = torch.randint(1, 100, (rows,), generator=torch.Generator().manual_seed(0))

    def padding(**given):
        drawn = TaskBatches(range(rows), 10, seed=0, **given)
        own = torch.tensor([next(drawn) for _ in range(batches)])
        assert own.flatten().sort().values.tolist() == list(range(rows))
        return int((lengths[own].amax(1, keepdim=True) - lengths[own]).sum())

    assert padding(lengths=lengths) < share * padding()


def test_grouped_batches_resume_exactly():
    lengths = torch.arange(2011)
    one, other = (TaskBatches(range(2011), 8, lengths=lengths, seed=3) for _ in range(2))
    for _ in range(500):
        next(one)
    other.load_state_dict(one.state_dict())
    assert [next(one) for _ in range(300)] == [next(other) for _ in range(300)]
