"""The estimate of a run before it is started."""

import re

from train_toy import shown_by

from gradaccord.probe.cosines import task_cosines
from gradaccord.train import probes


def test_the_estimate_grows_with_evaluation(capsys, written):
    """Twenty evaluations instead of one, of the same training."""

    def parts(every):
        shown = shown_by(capsys, "validate", written(train={"steps": 20, "evaluate_every": every}))
        found = re.search(r"evaluation \((\d+) times on dev, .*? of probes \((\d+) times", shown, re.S)
        return found[1], found[2]

    assert parts(20) == ("2", "1")
    assert parts(1) == ("21", "20")


def test_cosines_are_timed_on_a_few_of_their_batches(capsys, written, monkeypatch):
    """A thousand batches of each task would be read for a minute, only to say that they take one."""
    seen = []

    def counted(model, steps, **options):
        seen.append(list(steps))
        return task_cosines(model, seen[-1], **options)

    monkeypatch.setattr(probes, "task_cosines", counted)
    shown = shown_by(capsys, "validate", written(probe={"cosine_batches": 1000}))
    assert [len(steps) for steps in seen] == [4]
    assert "of probes" in shown
