"""Gradients on their way to other processes: their units, and that one process keeps its own.

Several processes are in tests/distributed.
"""

from __future__ import annotations

import math

import pytest
import torch

from gradaccord.core.bank import Bank, Rows
from gradaccord.core.overlap import Known, Reduction, join, unit_of


def made():
    """Two tasks: a whole gradient, rows of one, and one that a task alone reaches."""
    torch.manual_seed(0)
    bank, index = Bank(), torch.tensor([1, 4])
    for i, task in enumerate("ab"):
        values = torch.randn(2, 3, dtype=torch.float64)
        gradients = [
            torch.randn(4, 2, dtype=torch.float64),
            Rows(index + i, values, torch.Size((6, 3)), sparse=False),
            torch.randn(5, dtype=torch.float64) if i else None,
        ]
        bank.add(task, gradients, (0.5, 0.2)[i], torch.tensor(1.0 + i, dtype=torch.float64), 3.0 + i)
    return bank


PARAMETERS = [torch.zeros(shape, dtype=torch.float64) for shape in ((4, 2), (6, 3), (5,))]


def whole(bank, position):
    """Each task's gradient of a parameter, dense and in its own size."""
    found = []
    for gradients, factor in zip(bank.gradients, bank.factors, strict=True):
        gradient = gradients[position]
        dense = gradient.dense() if isinstance(gradient, Rows) else gradient
        found.append(torch.zeros_like(PARAMETERS[position]) if dense is None else factor * dense)
    return torch.stack(found)


@pytest.mark.parametrize("items", [1.0, 3.0, 7.0, 100.0, 0.3])
def test_units_are_powers_of_two_near_the_first_count_and_stay(items):
    unit = unit_of({}, "a", items)
    assert math.frexp(unit)[0] == 0.5
    assert 0.7 < unit / items < 1.42
    assert unit_of({"a": Known(8.0, ())}, "a", items) == 8.0


def test_one_process_keeps_its_own_bank(group):
    expected, joined = made(), join(made(), PARAMETERS, group)
    assert (joined.tasks, joined.items) == (expected.tasks, expected.items)
    assert [float(loss) for loss in joined.losses] == [1.0, 2.0]
    for position in range(len(PARAMETERS)):
        torch.testing.assert_close(whole(joined, position), whole(expected, position))
    assert joined.gradients[0][2] is None
    assert joined.gradients[1][1].index.tolist() == [2, 5]


def test_a_task_that_was_there_before_is_sent_while_others_run(group):
    known = {}
    for step in range(2):
        reduction = Reduction(PARAMETERS, {1}, group, known)
        reduction.agree(["a", "b"])
        bank = made()
        reduction.add("a", bank.gradients[0], bank.factors[0] * bank.items[0])
        assert ("a" in reduction.sent) == (step == 1)
        reduction.add("b", bank.gradients[1], bank.factors[1] * bank.items[1])
        joined = reduction.finish(bank)
        for position in range(len(PARAMETERS)):
            torch.testing.assert_close(whole(joined, position), whole(made(), position))
        assert {task: seen.dense for task, seen in known.items()} == {"a": (0,), "b": (0, 2)}


def test_what_is_received_is_kept_in_the_form_of_the_bank(group):
    def doubled(gradients):
        return [2 * g if isinstance(g, torch.Tensor) else g for g in gradients]

    joined = join(made(), PARAMETERS, group, doubled)
    torch.testing.assert_close(whole(joined, 0), 2 * whole(made(), 0))


def test_an_error_is_raised_and_nothing_is_known_of_the_step(group):
    for agreed in (False, True):
        known = {}
        reduction = Reduction(PARAMETERS, {1}, group, known)
        if agreed:
            reduction.agree(["a"])
        with pytest.raises(ZeroDivisionError, match="mine"):
            reduction.finish(ZeroDivisionError("mine"))
        assert not known
