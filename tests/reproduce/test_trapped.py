"""The verdict on the plane: own rates alone are not enough, equal rates count."""

import pytest
from reproduce_toy import made_record

from gradaccord.reproduce.entry import all_entries
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.verdict import status_of

OWN = {"MTL": 100.0, "Sequential Reptile": 0.0, "Sequential, η = 1": 0.0}


def shares(own, sequential, plain, control):
    found = dict(own)
    for rate, *values in zip((0.01, 0.1, 0.5), sequential, plain, control, strict=True):
        names = ("Sequential Reptile", "MTL", "Sequential, η = 1")
        found |= {f"{name} @ {rate:g}": value for name, value in zip(names, values, strict=True)}
    return {name: {"trapped": value} for name, value in found.items()}


@pytest.mark.parametrize(
    ("test", "verdict", "words"),
    [
        (
            shares(OWN, (100, 0, 0), (100, 50, 50), (100, 0, 10)),
            "holds",
            "than MTL at 2 of the 3 rates at which that is trapped (0.1, 0.5)",
        ),
        (
            shares(OWN, (0, 0, 0), (100, 0, 0), (0, 0, 0)),  # MTL is trapped at one of three
            "holds",
            "than MTL at 1 of the 1 rates",
        ),
        (
            shares(OWN, (100, 40, 0), (100, 50, 0), (100, 0, 0)),
            "holds in part",
            "1 at 0 of the 1 rates",
        ),
        (shares(OWN | {"MTL": 0.0}, (0, 0, 0), (0, 0, 0), (0, 0, 0)), "does not hold here", "MTL: 0;"),
    ],
)
def test_trapped_shares_decide(tmp_path, test, verdict, words):
    entry = all_entries()["sequential-reptile-figure-3"]
    (planned,) = plan(entry)
    metrics = dict.fromkeys(test, "trapped")
    record = made_record(planned, 0.0, metrics=metrics, trained=list(OWN), dev={}, test=test)
    record.save(planned.path(tmp_path).parent)
    found = status_of(entry, tmp_path)
    assert (found.word, found.verdict) == ("measured at small scale", verdict)
    assert words in found.result
