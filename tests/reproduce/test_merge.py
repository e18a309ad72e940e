"""Overrides: what is merged and what is replaced."""

from gradaccord.reproduce.merge import merged


def test_mappings_are_merged_key_by_key_and_neither_is_changed():
    base = {"train": {"lr": 1.0, "seed": 3}, "probe": {"errors": 2}}
    override = {"train": {"lr": 2.0}}
    assert merged(base, override) == {"train": {"lr": 2.0, "seed": 3}, "probe": {"errors": 2}}
    assert base["train"]["lr"] == 1.0
    assert override == {"train": {"lr": 2.0}}


def test_another_name_replaces_all_options_and_options_alone_are_added():
    base = {"method": {"name": "dotprod", "weight": 0.1}, "model": "minilm"}
    assert merged(base, {"method": "sum"})["method"] == "sum"
    assert merged(base, {"method": {"name": "sam", "rho": 1}})["method"] == {"name": "sam", "rho": 1}
    assert merged(base, {"method": {"every": 2}})["method"] == {**base["method"], "every": 2}
    assert merged(base, {"model": {"pooling": "cls"}})["model"] == {"name": "minilm", "pooling": "cls"}


def test_a_null_task_is_left_out_and_a_short_one_takes_options():
    base = {"tasks": {"sst": "sst", "sts": {"data": "sts"}}}
    assert merged(base, {"tasks": {"sts": None, "sst": {"cut": 0.1}}}) == {
        "tasks": {"sst": {"data": "sst", "cut": 0.1}}
    }


def test_one_length_takes_the_place_of_another():
    assert merged({"train": {"epochs": 3, "lr": 1}}, {"train": {"steps": 5}}) == {
        "train": {"steps": 5, "lr": 1}
    }
