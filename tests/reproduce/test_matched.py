"""At equal training loss the arm that trained further is read off its way, not at its end."""

import math

import pytest
from reproduce_toy import made_record

from gradaccord.reproduce import matched
from gradaccord.reproduce.matched import at_equal, difference_at_equal, matched_tables
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import TRAIN_LOSS as LOSS


def curve(losses, cosines):
    return [
        {
            "step": i, "gradients": 10**9 * i, "seconds": i,  # so far apart that no mean lags
            "values": {
                "train_loss": loss, "cosine": cosine, "average": 10.0 * i, "masked_lm.seen-de": loss,
            },
        }
        for i, (loss, cosine) in enumerate(zip(losses, cosines, strict=True))
    ]  # fmt: skip


@pytest.fixture
def runs(trio):
    """Planned runs of two arms on one variant."""
    return plan(trio, budget="epochs", only=["plain", "pcgrad"], variants=["two"])


def records(runs, slow, fast):
    """pcgrad with the slow curve, plain with the fast one."""
    return [made_record(one, 0.0, curve=slow if one.arm == "pcgrad" else fast) for one in runs]


def test_the_other_is_interpolated_where_it_passed_the_higher_last_loss(runs):
    slow = curve([3.0, 2.5, 2.0], [0.1, 0.2, 0.4])
    fast = curve([3.0, 2.2, 1.8, 1.0], [0.0, 0.1, 0.3, 0.9])
    made = records(runs, slow, fast)
    one, other = (next(r for r in made if r.arm == arm) for arm in ("pcgrad", "plain"))
    assert at_equal(one, other, "cosine", LOSS) == pytest.approx((0.4, 0.2))  # half way from 2.2 to 1.8
    assert at_equal(other, one, "cosine", LOSS) == pytest.approx((0.2, 0.4))
    found = difference_at_equal(made, "pcgrad", "plain", "cosine", LOSS, "two", "epochs")
    assert (found.count, found.mean) == (3, pytest.approx(0.2))


def test_the_last_time_counts_if_the_loss_rose_in_between(runs):
    slow = curve([3.0, 2.5, 2.0], [0.0, 0.0, 0.0])
    fast = curve([2.5, 1.5, 2.5, 1.5], [0.0, 1.0, 4.0, 6.0])
    one, other, *_ = records(runs, slow, fast)
    one, other = (one, other) if one.arm == "pcgrad" else (other, one)
    assert at_equal(one, other, "cosine", LOSS)[1] == pytest.approx(5.0)


def test_a_run_that_began_below_that_loss_has_no_value(runs):
    slow, fast = curve([3.0, 2.5, 2.0], [0.1, 0.2, 0.4]), curve([1.5, 1.2, 1.0], [0.0, 0.1, 0.2])
    made = records(runs, slow, fast)
    one, other = (next(r for r in made if r.arm == arm) for arm in ("pcgrad", "plain"))
    assert at_equal(one, other, "cosine", LOSS) is None
    assert not difference_at_equal(made, "pcgrad", "plain", "cosine", LOSS, "two", "epochs").count
    assert at_equal(one, one.model_copy(update={"curve": []}), "cosine", LOSS) is None


def test_the_table_has_the_average_the_probes_and_the_mean_of_texts(trio, runs):
    design = trio.small.model_copy(update={"controls": {"pcgrad": "plain"}})
    slow = curve([3.0, 2.5, 2.0], [0.1, 0.2, 0.4])
    fast = curve([3.0, 2.2, 1.8, 1.0], [0.0, 0.1, 0.3, 0.9])
    table, scored = matched_tables(design, records(runs, slow, fast))
    assert table.headings == ("difference of", "to", "pairs", "average", "cosine", "masked_lm.seen-*")
    assert table.rows[0][:4] == ("pcgrad", "plain", "3", "+5.00")
    assert table.rows[0][5] == "+0.00"  # the loss itself, which is equal there
    assert scored.headings == ("difference of", "to", "pairs", "cosine", "masked_lm.seen-*")
    assert scored.rows[0][3] == "+0.10"  # where the fast one had the average of the other's end
    assert not list(matched_tables(design, [made_record(one, 0.0) for one in runs]))
    assert math.isnan(made_record(runs[0], 0.0).value("cosine"))


def lagging(rate, steps, every=15, cost=1.0):
    """A run whose forgetting depends on its loss alone, logged with the running mean of the trainer.

    cost: of a batch, in batch gradients.
    """
    curve, mean = [], 3.0
    for step in range(steps + 1):
        loss = 3.0 * math.exp(-rate * step)
        mean += 0.1 * (loss - mean)
        if step and step % every == 0:
            curve.append(
                {
                    "step": step, "gradients": cost * step, "seconds": step,
                    "values": {"train_loss": mean, "masked_lm.unseen-fr": 5 - loss, "average": step},
                }
            )  # fmt: skip
    return curve


def test_runs_that_differ_in_speed_alone_are_equal_at_equal_loss(runs):
    """A running mean lags most behind the faster run, which then seems to forget more."""
    made = records(runs, lagging(0.004, 300), lagging(0.02, 300))
    one, other = (next(r for r in made if r.arm == arm) for arm in ("pcgrad", "plain"))

    def apart():
        ours, theirs = at_equal(one, other, "masked_lm.unseen-*", LOSS)
        return theirs - ours

    without = apart()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(matched, "SMOOTHING", 1.0)  # as if nothing lagged
        assert apart() > 0.1
        assert abs(without) < 0.2 * apart()


@pytest.mark.parametrize(("cost", "clusters"), [(2.0, 1), (1.0, 2)])
def test_the_lag_is_counted_in_batches_of_each_task(runs, cost, clusters):
    """A batch may cost more than a gradient, and a task may be trained as several clusters."""
    plain, *_ = records(runs, lagging(0.02, 300), lagging(0.02, 300))
    unit = cost * clusters
    dearer, *_ = records(runs, *[lagging(0.02, 300, cost=unit)] * 2)
    spent = dearer.cost.model_copy(update={"batches": 300 * clusters, "gradients": 300 * unit})
    tasks = {"tasks": {"film": {"clusters": clusters}}}
    dearer = dearer.model_copy(update={"cost": spent, "settings": tasks})
    expected = [(unit * place, loss) for place, loss in matched._course(plain, LOSS)]
    assert matched._course(dearer, LOSS) == [pytest.approx(each) for each in expected]


def test_a_score_no_better_than_guessing_matches_nothing(runs):
    slow = curve([3.0, 2.5, 2.0], [0.1, 0.2, 0.4])  # ends at 20
    fast = curve([3.0, 2.2, 1.8, 1.0], [0.0, 0.1, 0.3, 0.9])
    made = records(runs, slow, fast)
    one, other = (next(r for r in made if r.arm == arm) for arm in ("pcgrad", "plain"))
    assert at_equal(one, other, "cosine", "average") == pytest.approx((0.4, 0.3))
    for guess, known in ((19.0, True), (20.0, False)):
        own = one.model_copy(update={"chance": {"film": {"chance": 5.0, "majority": guess}}})
        assert (at_equal(own, other, "cosine", "average") is not None) == known
