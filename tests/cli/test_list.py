"""`gradaccord list`: everything that can be named, and the schema of configurations."""

import json

from train_toy import said, shown_by

from gradaccord.methods.registry import METHODS
from gradaccord.recipes import recipe_texts
from gradaccord.tasks.registry import KINDS


def test_list_methods_shows_every_method_with_its_options(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    shown = shown_by(capsys, "list", "methods")
    for name in [*METHODS, "stl", "+smart", "+recadam"]:
        assert name in shown
    assert "inner_steps=" in shown
    assert "compare with paired_sum" in shown


def test_list_tasks_shows_every_kind(capsys):
    shown = shown_by(capsys, "list", "tasks")
    assert all(kind in shown for kind in KINDS)
    assert "pearson" in shown


def test_list_recipes_shows_every_recipe(capsys):
    shown = shown_by(capsys, "list", "recipes")
    assert all(name in shown for name in recipe_texts())


def test_list_data_shows_what_needs_no_files(capsys, monkeypatch):
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)
    shown = shown_by(capsys, "list", "data")
    assert "cldr/de" in shown
    assert "set GRADACCORD_DATA or give --data" in shown


def test_list_of_something_else_is_one_sentence(capsys):
    assert "use methods, tasks, data, recipes" in said(capsys, "list", "metods")


def test_list_schema_is_json_that_describes_every_key(capsys):
    schema = json.loads(shown_by(capsys, "list", "schema"))
    assert set(schema["properties"]) >= {"model", "tasks", "method", "train", "probe"}
    assert schema["$defs"]["TrainConfig"]["properties"]["steps"]["description"] == "Optimiser steps."
