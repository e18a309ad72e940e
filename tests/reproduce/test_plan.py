"""Which runs an entry asks for, and which are missing."""

import math

import pytest
from reproduce_toy import made_record

from gradaccord.reproduce.plan import missing, missing_files, missing_inputs, plan


def test_every_arm_variant_budget_and_seed_seeds_first(trio):
    planned = plan(trio)
    assert len(planned) == 3 * 2 * (3 + 2)  # seeds, variants, arms at epochs and at gradients
    assert [one.seed for one in planned] == sorted(one.seed for one in planned)
    assert {one.arm for one in planned if one.budget == "gradients"} == {"plain", "paired"}
    chosen = plan(trio, seeds=1, budget="epochs", only=["pcgrad"], variants=["two"])
    assert [one.label for one in chosen] == ["two, pcgrad, epochs, seed 0"]
    assert chosen[0].settings["train"]["batch_size"] == 4
    assert chosen[0].settings["method"] == "pcgrad"
    with pytest.raises(ValueError, match="There is no arm 'pcgrads': did you mean 'pcgrad'"):
        plan(trio, only=["pcgrads"])


def test_a_record_of_other_settings_is_out_of_date_and_run_again_elsewhere(trio, tmp_path):
    first, *_ = plan(trio, seeds=1)
    made_record(first, 50.0).save(first.path(tmp_path).parent)
    assert first not in missing(plan(trio, seeds=1), tmp_path)
    changed, *_ = plan(trio, seeds=1, replace={"train": {"lr": 0.5}})
    assert changed.path(tmp_path) == first.path(tmp_path)
    assert changed in missing([changed], tmp_path)
    assert changed.folder(tmp_path) != first.folder(tmp_path)


def test_an_infinite_setting_is_current_after_it_was_written(trio, tmp_path):
    """JSON has no infinity: the record holds null."""
    first, *_ = plan(trio, seeds=1, replace={"method": {"name": "dotprod", "max_ratio": math.inf}})
    made_record(first, 50.0).save(first.path(tmp_path).parent)
    assert first not in missing([first], tmp_path)


def test_absent_files_are_named_with_their_publisher(tmp_path):
    (tmp_path / "squad").mkdir()
    (tmp_path / "squad" / "dev.json.gz").touch()
    needs = ["squad/dev.json", "squad/train.json", "glue/CoLA/train.tsv"]
    publisher = {"squad": "Rajpurkar et al., rajpurkar/SQuAD-explorer", "glue/CoLA": "NYU, CoLA"}
    found = missing_files(needs, publisher, tmp_path)
    assert "squad/train.json (Rajpurkar et al., rajpurkar/SQuAD-explorer)" in found
    assert "glue/CoLA/train.tsv (NYU, CoLA)" in found
    assert "dev.json" not in found
    assert "no --data folder was given" in missing_files(needs, publisher, None)
    assert missing_files(needs[:1], publisher, tmp_path) is None


def test_an_encoder_that_was_not_pretrained_yet_is_named_with_its_command(trio, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {**trio.small.config, "model": "runs/multilingual-small/model"}
    design = trio.small.model_copy(update={"config": config, "needs": []})
    entry = trio.model_copy(update={"small": design})
    said = missing_inputs(design, plan(entry), None)
    assert "`gradaccord pretrain multilingual-small --data DIR` makes it" in said
    assert missing_inputs(design, plan(trio), None) is None  # runs that start elsewhere
    (tmp_path / "runs/multilingual-small/model").mkdir(parents=True)
    assert missing_inputs(design, plan(entry), None) is None
