"""What a step is made of, for every way in which methods are fed; schedules and budgets."""

import pytest
import torch

from gradaccord.data.samplers import TaskBatches
from gradaccord.train.config import TrainConfig
from gradaccord.train.optimizers import Schedule, make_optimizer
from gradaccord.train.step_batches import StepBatches, make_sampler


def feeder(feed, *, name=None, options=None, block=1, sizes=(40, 20, 10)):
    batches = {f"t{i}": TaskBatches(range(size), 4, seed=i) for i, size in enumerate(sizes)}
    return StepBatches(make_sampler(name, options or {}, feed, batches, 0), batches, feed, block)


def test_all_gives_a_batch_of_every_task():
    drawn = next(feeder("all"))
    assert [one.task for one in drawn] == ["t0", "t1", "t2"]
    assert all(len(one.rows) == 4 for one in drawn)


def test_one_gives_a_single_batch():
    given = feeder("one")
    assert {len(next(given)) for _ in range(20)} == {1}


def test_what_a_sampler_draws_at_once_is_given_one_by_one():
    """The first of an ordered draw alone would favour the tasks that are listed first."""
    given = feeder("one", name="round_robin")
    assert [next(given)[0].task for _ in range(6)] == ["t0", "t1", "t2"] * 2
    given = feeder("pair", name="uniform", options={"n": 3})
    assert [one.task for _ in range(3) for one in next(given)] == ["t0", "t1", "t2"] * 2


def test_a_pair_has_two_names_also_if_the_task_is_the_same():
    given = feeder("pair", sizes=(40,))
    first, second = next(given)
    assert (first.name, second.name) == ("t0#1", "t0#2")
    assert not set(first.rows) & set(second.rows)


def test_blocks_stay_with_a_task():
    given = feeder("blocks", block=3)
    assert [next(given)[0].task for _ in range(9)] == ["t0"] * 3 + ["t1"] * 3 + ["t2"] * 3


@pytest.mark.parametrize("feed", ["all", "one", "pair", "blocks"])
def test_a_resumed_feeder_goes_on_with_the_same_rows(feed):
    given, again = feeder(feed, block=2), feeder(feed, block=2)
    for _ in range(7):
        next(given)
    again.load_state_dict(given.state_dict())
    assert [next(again) for _ in range(9)] == [next(given) for _ in range(9)]


def test_unknown_samplers_and_options_are_answered():
    with pytest.raises(ValueError, match="did you mean 'proportional'"):
        feeder("all", name="proportionl")
    with pytest.raises(ValueError, match="it takes q, n"):
        feeder("all", name="proportional", options={"p": 1})


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


@pytest.mark.parametrize("kind", ["linear", "cosine", "constant"])
def test_a_schedule_rises_and_ends(kind):
    weight = torch.nn.Parameter(torch.zeros(1))
    schedule = Schedule(torch.optim.SGD([weight], lr=2.0), kind, 0.1)
    assert schedule.factor(0.0) == 0
    assert schedule.factor(0.1) == pytest.approx(1)
    assert schedule.factor(1.0) == pytest.approx(1 if kind == "constant" else 0, abs=1e-12)
    schedule.set(0.1, 0.0)
    assert schedule.optimizer.param_groups[0]["lr"] == pytest.approx(2)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "adafactor", "recadam"])
def test_every_optimiser_takes_a_step(name):
    trunk, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    train = TrainConfig(optimizer=name, lr=1e-4, head_lr=2e-4)
    optimizer = make_optimizer(train, trunk.parameters(), head.parameters())
    assert [group["lr"] for group in optimizer.param_groups] == [1e-4, 2e-4]
    before = head.weight.clone()
    head(trunk(torch.ones(3, 2))).square().mean().backward()
    optimizer.step()
    assert not torch.equal(before, head.weight)


def test_unknown_optimisers_and_options_are_answered():
    with pytest.raises(ValueError, match="did you mean 'adafactor'"):
        make_optimizer(TrainConfig(optimizer="adafctor"), [], [])
    train = TrainConfig(optimizer={"name": "adamw", "weight_dcay": 0.1})
    with pytest.raises(ValueError, match="did you mean 'weight_decay'"):
        make_optimizer(train, [], [])
