"""Which methods are advised: the rules, on measurements made up to meet each of them."""

import math

import pytest

from gradaccord.compare.recommendation import recommend, why
from gradaccord.compare.specs import Spec
from gradaccord.probe.conflict import Bounds, Conflict, OneTask, PairOfTasks, SingleBatches

NOISY = SingleBatches(0.01, 0.48)
UNKNOWN = Bounds(math.nan, math.nan, math.nan)


def around(value, half=0.1):
    return Bounds(value, value - half, value + half)


def found(cosine, ratio=None, step=None, shared=5):
    step = around(0.6) if step is None else step
    tasks = tuple(
        OneTask(name, loss, 1.0, own, NOISY)
        for name, loss, own in (("nli", 0.7, step), ("sts", 2.1, around(0.7)))
    )
    pairs = (PairOfTasks("nli", "sts", cosine, NOISY),)
    ratio = Bounds(1.2, 0.9, 1.5) if ratio is None else ratio
    return Conflict(tasks, pairs, 16, 10, shared, "sts", "nli", ratio)


@pytest.mark.parametrize(
    ("cosine", "ratio", "methods"),
    [
        (around(-0.4), None, ("pcgrad", "config", "stl")),
        (around(-0.4), Bounds(5, 3, 8), ("pcgrad", "config", "sum:normalize=True")),
        (around(0.1), Bounds(5, 3, 8), ("sum:normalize=True", "loss_scale", "uncertainty")),
        (around(0.1), Bounds(3, 1.5, 6), ()),  # perhaps not twice as long
        (around(0.1), None, ()),
        (around(-0.09), None, ()),  # within noise
        (around(-0.04, 0.01), None, ()),  # beyond noise, and too small to matter
        (UNKNOWN, UNKNOWN, ()),
    ],
)
def test_conflict_and_lengths_decide(cosine, ratio, methods):
    choice = recommend(found(cosine, ratio))
    assert choice.methods == methods
    assert all(any(letter.isdigit() for letter in reason) for reason in choice.reasons[:-1])
    assert any("not clearly more than 2 times" in reason for reason in choice.reasons) == (
        ratio is not None and ratio.low < 2 < ratio.high
    )
    for method in methods:
        assert why(str(Spec.parse(method)))


def test_plain_training_is_the_method_only_where_conflict_is_ruled_out():
    sure, unsure = recommend(found(around(0.1))), recommend(found(around(0.1, 0.6)))
    assert sure.reasons[-1].endswith("plain training (`sum`) is enough.")
    assert "is enough" not in unsure.reasons[-1]
    assert "--seconds" in unsure.reasons[-1]
    assert "at 95 %, none is below -0.50" in unsure.reasons[0]


def test_a_plain_step_that_harms_a_task_is_named():
    reasons = recommend(found(around(-0.4), step=around(-0.3))).reasons
    assert "A plain step raises the loss of nli: cosine -0.30 [-0.40, -0.20] with it." in reasons


def test_noise_is_called_noise():
    reasons = " ".join(recommend(found(UNKNOWN, UNKNOWN, step=UNKNOWN)).reasons)
    assert "Nothing can be said of 1 of 1 pairs: in 16 batches" in reasons
    assert "lengths differ is lost in noise; losses go from 0.70 to 2.10" in reasons
    assert "different tasks have a cosine below 0 in 48% of all cases" in reasons
    assert "two of one task, where only noise differs, in 48%." in reasons


def test_without_shared_parameters_nothing_can_conflict():
    choice = recommend(found(UNKNOWN, shared=0))
    assert choice.methods == ()
    assert "None of the 10 trained parameters is shared" in choice.reasons[0]
