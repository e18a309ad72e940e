"""`gradaccord advise`: a planted conflict is found, plain training is advised where there is none."""

import csv
import random
import re
import shlex

import pytest
from train_toy import WORDS, said, shown_by

from gradaccord.compare.specs import parse_methods


@pytest.fixture
def ratings(tmp_path):
    """Texts that nearly all raters like, and some that the `opposite` ones do not, read by one head."""
    draw = random.Random(0)
    for name in ("ours", "same", "opposite"):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            for i in range(64):
                likes = (i % 8 > 0) != (name == "opposite")
                writer.writerow([" ".join(draw.choices(WORDS, k=6)), "yes" if likes else "no"])

    def task(name):
        return {
            "kind": "classification", "files": {"train": str(tmp_path / f"{name}.csv")},
            "labels": ["no", "yes"], "max_length": 16, "shared_head": "rating",
        }  # fmt: skip

    return lambda *names: {name: task(name) for name in names}


def advised(capsys, file, *rest):
    return " ".join(shown_by(capsys, "advise", file, "--seconds", "5", *rest).split())


def test_a_planted_conflict_is_found_with_the_methods_against_it(capsys, written, ratings, tmp_path):
    file = written(tasks=ratings("ours", "opposite"), train={"lr": 1e-4})
    before = set(tmp_path.iterdir())
    shown = advised(capsys, file, "train.batch_size=4")
    cosine, low, high = map(
        float, re.search(r"ours and opposite conflict: cosine (\S+) \[(\S+), (\S+)\]", shown).groups()
    )
    assert -1 <= low <= cosine <= high < -0.5
    assert re.search(r"pcgrad \(\d+\.\d\d x\): projects", shown)
    assert "control: sum" in shown
    assert "plain training (`sum`) is enough" not in shown
    (typed,) = re.findall(r"gradaccord compare .* --seeds 5", shown)
    words = shlex.split(typed)
    assert words[2:5] == [str(file), "train.batch_size=4", "--methods"]
    assert [str(spec) for spec in parse_methods(words[5])][:2] == ["pcgrad", "config"]
    assert set(tmp_path.iterdir()) == before


def test_where_nothing_conflicts_plain_training_is_the_method(capsys, written, ratings):
    file = written(tasks=ratings("ours", "same"), train={"lr": 1e-4})
    shown = advised(capsys, file)
    assert "No pair of tasks conflicts beyond noise" in shown
    assert "plain training (`sum`) is enough" in shown
    assert "pcgrad (" not in shown
    assert "Training each task alone (stl) can." in shown
    low = float(re.search(r"ours, same \S+ \[(\S+), ", shown)[1])
    assert low > 0
    assert re.search(r"9\d\.\d% shared|100.0% shared", shown)


def test_one_task_gets_its_own_methods_and_no_word_on_conflict(capsys, written, content):
    file = written(tasks={"film": content["tasks"]["film"]})
    shown = advised(capsys, file)
    assert "One task, film: there is no other task to conflict with." in shown
    assert re.search(r"dotprod \(\d\.\d\d x\): .* control: paired_sum, paired_sum@1.1", shown)
    assert "--methods dotprod,sam,averaged" in shown
    assert "shared" not in shown


def test_a_task_without_data_is_one_sentence(capsys, written, content, tmp_path):
    gone = {**content["tasks"]["film"], "files": {"train": str(tmp_path / "gone.csv")}}
    assert "gone.csv: No such file" in said(capsys, "advise", written(tasks={"film": gone}))


def test_a_task_with_three_examples_is_one_sentence(capsys, written, content):
    few = {**content["tasks"]["film"], "limit": {"train": 3}}
    wrong = said(capsys, "advise", written(tasks={"film": few}))
    assert "Task 'film' has 3 training examples, and its gradient is compared on 4 batches" in wrong


def test_a_model_that_cannot_be_loaded_is_one_sentence(capsys, written, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "empty" in said(capsys, "advise", written(model=str(tmp_path / "empty")))
