"""The estimate of a run before it is started."""

import re

from train_toy import shown_by


def test_the_estimate_grows_with_evaluation(capsys, written):
    """Twenty evaluations instead of one, of the same training."""

    def parts(every):
        shown = shown_by(capsys, "validate", written(train={"steps": 20, "evaluate_every": every}))
        found = re.search(r"evaluation \((\d+) times on dev, .*? of probes \((\d+) times", shown, re.S)
        return found[1], found[2]

    assert parts(20) == ("2", "1")
    assert parts(1) == ("21", "20")
