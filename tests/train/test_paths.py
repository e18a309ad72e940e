"""Paths of a configuration file lead from its own folder, wherever a command is run."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from train_toy import said

from gradaccord.runs.config_files import ConfigError
from gradaccord.runs.files import CONFIG
from gradaccord.train.config_file import check_config, read_config


@pytest.fixture
def project(tmp_path, content, files, checkpoint):
    """A folder with a configuration, its data and its model, all named by relative paths."""
    folder = tmp_path / "project"
    shutil.copytree(files, folder / "data")
    shutil.copytree(checkpoint, folder / "models" / "bert")
    (folder / "lines.txt").write_text("the quick brown fox\nthe lazy dog\n")
    film = {**content["tasks"]["film"], "files": {"train": "data/film.train.csv"}, "cut": 0.2}
    train = {**content["train"], "steps": 2, "evaluate_every": 2, "save_every": 1}
    config = {"model": "models/bert", "tasks": {"film": film}, "train": train}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "elsewhere").mkdir()
    return folder


def test_relative_files_and_models_are_read_from_the_folder_of_the_yaml_file(
    project, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path / "elsewhere")
    said(capsys, "train", "../project/run.yaml", "--out", "run", code=0)
    results = json.loads((tmp_path / "elsewhere/run/results.json").read_text())
    assert results["cost"]["steps"] == 2


def test_what_a_run_wrote_is_found_from_another_folder(project, tmp_path, monkeypatch, capsys):
    """Resume, the run's own configuration as a new one, export and predict."""
    monkeypatch.chdir(project)
    said(capsys, "train", "run.yaml", "--out", "../run", code=0)
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = said(capsys, "train", "../project/run.yaml", "--out", "../run", "--resume", code=0)
    assert "holds a finished run" in again
    kept = yaml.safe_load((tmp_path / "run" / CONFIG).read_text())
    assert kept["tasks"]["film"]["files"]["train"] == str(project / "data/film.train.csv")
    (tmp_path / "run" / "results.json").unlink()  # as if it had been stopped
    assert "Continued at step" in said(
        capsys, "train", "../project/run.yaml", "--out", "../run", "--resume", code=0
    )
    assert "valid" in said(capsys, "validate", f"../run/{CONFIG}", code=0)
    said(capsys, "export", "../run", "--out", "model", code=0)
    assert "prediction" in said(capsys, "predict", "model", "the film", code=0)


def test_a_comparison_is_made_from_another_folder(project, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path / "elsewhere")
    arguments = ["compare", "../project/run.yaml", "--methods", "sum", "--seeds", "1", "--jobs", "1"]
    said(capsys, *arguments, "--out", "compared", code=0)
    assert list((tmp_path / "elsewhere/compared").glob("*/results.json")) or list(
        (tmp_path / "elsewhere/compared").glob("*/*/results.json")
    )


def test_a_file_that_is_not_there_is_named_by_the_path_that_was_tried(
    project, tmp_path, monkeypatch, capsys
):
    text = (project / "run.yaml").read_text().replace("film.train.csv", "none.csv")
    (project / "run.yaml").write_text(text)
    monkeypatch.chdir(tmp_path / "elsewhere")
    wrong = said(capsys, "train", "../project/run.yaml", "--out", "run")
    assert f"Task 'film': {project / 'data/none.csv'}: No such file" in wrong
    assert "the folder of the YAML file" in wrong


def test_a_path_on_the_command_line_leads_from_the_working_directory(project, tmp_path, monkeypatch):
    (tmp_path / "elsewhere/own.csv").write_text("text,label\na,no\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    config = read_config(
        project / "run.yaml", ["tasks.film.files.dev=own.csv", "model=../project/models/bert"]
    )
    assert config.tasks["film"].files == {
        "train": str(project / "data/film.train.csv"),
        "dev": str(tmp_path / "elsewhere/own.csv"),
    }
    assert Path(config.model.name).samefile(project / "models/bert")


@pytest.mark.parametrize("given", ["models/bert", "./models/bert", {"name": "models/bert"}])
def test_every_path_of_the_file_is_found(project, tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    content = yaml.safe_load((project / "run.yaml").read_text())
    content["model"] = given
    content["data_folder"] = "data"
    content["tasks"]["film"]["files"]["dev"] = ["data/film.dev.csv", "~/more.csv", "/abs.csv"]
    content["tasks"]["hub"] = {"data": "hub:data", "kind": "classification"}
    content["tasks"]["other"] = {"data": "sst"}
    content["probe"] = {
        "masked_lm": {"lines": "lines.txt", "set": "cldr/de"}, "masked_lm_model": "models/bert",
    }  # fmt: skip
    (project / "run.yaml").write_text(yaml.safe_dump(content))
    config = read_config(Path("../project/run.yaml"))
    bert = str(project / "models/bert")
    assert config.model.name == config.probe.masked_lm_model == bert
    assert config.data_folder == project / "data"
    assert config.tasks["film"].files["dev"] == [
        str(project / "data/film.dev.csv"), str(tmp_path / "home/more.csv"), "/abs.csv",
    ]  # fmt: skip
    assert config.tasks["hub"].data == f"hub:{project / 'data'}"
    assert config.tasks["other"].data == "sst"
    assert config.probe.masked_lm == {"lines": str(project / "lines.txt"), "set": "cldr/de"}
    (tmp_path / "copy").mkdir()
    from gradaccord.runs.config_files import write_config

    write_config(config, tmp_path / "copy" / "config.yaml")
    assert read_config(tmp_path / "copy" / "config.yaml") == config


def test_names_that_are_no_paths_stay_names(tmp_path, monkeypatch):
    (tmp_path / "run.yaml").write_text("model: minilm\ntasks: {sst: sst}\n")
    (tmp_path / "minilm").mkdir()  # the built-in one comes first
    config = read_config(tmp_path / "run.yaml")
    assert config.model.name == "minilm"
    (tmp_path / "run.yaml").write_text("model: some-org/some-model\ntasks: {sst: sst}\n")
    assert read_config(tmp_path / "run.yaml").model.name == "some-org/some-model"


def test_files_of_a_configuration_in_python_lead_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = {"tasks": {"t": {"files": {"train": "a.csv"}, "kind": "classification"}}}
    assert check_config(content).tasks["t"].files == {"train": str(tmp_path / "a.csv")}
    assert content["tasks"]["t"]["files"] == {"train": "a.csv"}  # as it was given


@pytest.mark.parametrize(
    "tasks", ["tasks: 3", "tasks: {t: 3}", "tasks: {t: {files: 3}}", "tasks: {t: {files: {train: 3}}}"]
)
def test_paths_that_are_none_are_one_sentence_as_ever(tmp_path, tasks):
    (tmp_path / "run.yaml").write_text(f"{tasks}\n")
    with pytest.raises(ConfigError, match=r"line 1: `tasks"):
        read_config(tmp_path / "run.yaml")
