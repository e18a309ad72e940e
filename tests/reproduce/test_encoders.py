"""Encoders pretrained here: recorded when an entry starts from them, and shown with their losses."""

from pathlib import Path

import pytest

from gradaccord.pretrain.results import HeldOut, PretrainResults
from gradaccord.reproduce.encoders import (
    EncoderRecord,
    encoder_of,
    encoders_section,
    record_encoders,
)

MODEL = "runs/little/model"


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A finished run of pretraining in the current folder."""
    monkeypatch.chdir(tmp_path)
    last = HeldOut(step=20, tokens=900, held_out={"de": 2.0, "sw": 5.0}, train={"de": 1.5})
    found = PretrainResults(
        finished="2026-01-01T00:00:00+0000",
        model="modernbert",
        weights=9_500_000,
        pieces=24000,
        seed=3,
        steps=20,
        tokens=1_500_000,
        seconds=1800.0,
        texts={"de": 4000, "sw": 50},
        left_out={"de": 7},
        unigrams={"de": 6.0, "sw": 4.5},
        evaluations=[last.model_copy(update={"step": 10}), last],
        memory_mb=1.0,
    )
    folder = tmp_path / "runs" / "little"
    folder.mkdir(parents=True)
    found.write(folder)
    return folder


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (MODEL, True),
        ({"name": MODEL, "pretrained": False}, True),
        ("minilm", False),
        ("runs/little", False),
        ("/data/runs/little/model", False),
        ({"steps": 20}, False),
        (None, False),
    ],
)
def test_only_folders_of_pretraining_are_encoders_of_ours(model, named):
    assert encoder_of({"model": model}) == (Path(MODEL) if named else None)


def test_an_encoder_is_recorded_once_with_its_losses(finished, tmp_path):
    results = tmp_path / "results"
    record_encoders([{"model": MODEL}, {"model": "minilm"}, {"model": {"name": MODEL}}], results)
    (path,) = (results / "pretraining").iterdir()
    found = EncoderRecord.read_file(path)
    assert (found.name, found.architecture, found.hours) == ("little", "modernbert", 0.5)
    assert found.held_out == {"de": 2.0, "sw": 5.0}
    assert found.curve == [(10, 3.5), (20, 3.5)]
    assert str(tmp_path) not in path.read_text()
    text = "\n".join(encoders_section(results))
    assert "lower in 1 of 2 languages" in text
    assert "| sw | 50 | 5.00 | 4.50 |" in text
    assert "| mean | 4,050 | 3.50 | 5.25 |" in text


def test_without_an_encoder_nothing_is_written_or_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record_encoders([{"model": MODEL}, {"model": "minilm"}], tmp_path / "results")
    assert not (tmp_path / "results").exists()
    assert not list(encoders_section(tmp_path / "results"))
