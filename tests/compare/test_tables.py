"""The tables of a comparison: what stands in them, and what must not."""

import csv
import io
import re
from pathlib import Path

import pytest
from compare_toy import COMPARED, METHODS, run_here, table
from made_results import CONFIG, compared, made_results, made_run
from rich.console import Console

from gradaccord.cli.compare_screen import summary_notes, summary_table, terminal
from gradaccord.compare.comparison import UNSEEN, Comparison
from gradaccord.compare.processes import Run
from gradaccord.compare.specs import Spec
from gradaccord.compare.summary import summarise
from gradaccord.compare.tables import write_tables


def test_the_table_has_every_method_its_control_and_every_seed(finished):
    rows = table(finished)
    assert tuple(rows) == COMPARED
    assert {name for name, row in rows.items() if row["is_control"]} == {
        "paired_sum", "paired_sum@1.1",
    }  # fmt: skip
    assert rows["pcgrad"]["control"] == "sum"
    assert rows["dotprod:mode=difference"]["control"] in ("paired_sum", "paired_sum@1.1")
    for row in rows.values():
        assert row["seeds"] == [0, 1]
        assert row["missing"] == {}
        assert row["train_loss"]["mean"] > 0
        assert row["distance"]["mean"] > 0
        assert -1 <= row["cosine"]["mean"] <= 1


def test_markdown_and_csv_say_the_same(finished):
    text = (finished / "comparison.md").read_text()
    rows = table(finished)
    for name in rows:
        assert f"| {name}" in text
    assert "| paired_sum (control) |" in text
    with (finished / "comparison.csv").open(newline="") as lines:
        flat = list(csv.DictReader(lines))
    assert len(flat) == len(rows) * 3  # two tasks and their average
    for line in flat:
        row = rows[line["method"]]
        assert float(line["mean"]) == pytest.approx(row["scores"][line["task"]]["mean"])
        if line["task"] != "average":
            assert line["to baseline"] == line["memory"] == ""
            continue
        assert float(line["to baseline"]) == pytest.approx(row["vs_baseline"]["mean"])
        assert line["its control"] == (row["control"] or "")
        if row["vs_control"] and row["vs_control"]["p"] is not None:
            assert float(line["p to control"]) == pytest.approx(row["vs_control"]["p"])
        assert float(line["time"]) == pytest.approx(row["costs"]["seconds"])
        assert float(line["train loss"]) == pytest.approx(row["train_loss"]["mean"])


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_shows_every_number_in_one_piece(finished, width):
    comparison = Comparison.read(finished)
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(*terminal(comparison, width), sep="\n")
    shown = console.export_text()
    assert all(len(line) <= width for line in shown.splitlines())
    for row in table(finished).values():
        for scores in row["scores"].values():
            assert f"{scores['mean']:.2f} ± {scores['error']:.2f}" in shown
        assert f"{row['costs']['seconds']:.2f}x" in shown


def test_the_command_prints_a_summary_and_with_wide_everything(file, copied, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ("compare", file, "--methods", METHODS, "--seeds", 2, "--out", copied)
    run_here(*arguments)
    shown, _, _ = capsys.readouterr().out.partition("Average of the trained tasks")
    assert all(len(line) <= 80 for line in shown.splitlines()[1:])
    run_here(*arguments, "--wide")
    both, _, _ = capsys.readouterr().out.partition("Scores are in percent")
    for row in table(copied).values():
        assert f"{row['scores']['average']['mean']:.2f} ±" in shown
        film = f"{row['scores']['film']['mean']:.2f} ± {row['scores']['film']['error']:.2f}"
        assert film in both
    assert "train loss" in both
    assert "train loss" not in shown


METHOD = "sequential_reptile:inner_steps=20,outer_lr=0.3"
CONTROL = "sequential_reptile:inner_steps=20,outer_lr=1"
SHORT = "seq. reptile (K 20, eta .3)"


def summary_text(scores, width=80):
    summary = compared(scores)
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(summary_table(summary))
    return summary, console.export_text()


def test_the_summary_says_who_is_better_in_eighty_columns_without_a_broken_word():
    _, shown = summary_text(
        {
            "sum": [60.0, 61.0, 62.1],
            CONTROL: [64.9, 66.1, 67.0],
            METHOD: [65.0, 66.0, 67.2],
            "pcgrad": [60.2, 60.8, 62.3],
            "gradvac": [50.0, 51.1, 52.0],
            "stl": [70.0, 71.0, 72.0],
        }
    )
    assert all(len(line) <= 80 for line in shown.splitlines())
    words = set(shown.split())
    assert {"baseline", "better", "worse", "reptile", "control", "good"} <= words
    assert "…" not in shown
    lines = [line.rstrip() for line in shown.splitlines()]
    for name, verdict in (("gradvac", "worse"), ("pcgrad", "not clear"), (SHORT, "control as")):
        assert [line.endswith(verdict) for line in lines if line.startswith(name)] == [True]


def test_methods_with_the_same_marks_share_a_sentence():
    summary = compared({"sum": [60.0, 61.0], "pcgrad": [60.0, 61.0], "gradvac": [60.0, 62.0]})
    marked = [
        own.model_copy(update={"marks": {task: {0: "one class"} for task in tasks}})
        for own, tasks in zip(summary.methods, ("a", "a", "ab"), strict=True)
    ]
    notes = summary_notes(summary.model_copy(update={"methods": marked}))
    assert notes[-1] == "No better than a constant prediction: sum, pcgrad on a; gradvac on a, b."


def test_the_summary_s_notes_explain_its_names_and_marks():
    summary = with_references()
    notes = summary_notes(summary)
    assert "No better than a constant prediction: pcgrad on a." in notes
    assert not any("control" in note for note in notes)  # there is none
    named = compared({"sum": [60.0, 61.0], CONTROL: [60.0, 61.0], METHOD: [60.0, 62.0]})
    assert f"{SHORT} is {METHOD}." in summary_notes(named)
    own = [one.model_copy(update={"is_control": one.method == CONTROL}) for one in named.methods]
    noted = summary_notes(named.model_copy(update={"methods": own}))
    assert "same steps as a method's, without its idea" in noted[1]
    _, shown = summary_text({"sum": [60.0, 61.0], "pcgrad": [60.0, 62.0]})
    assert "no test" in shown


def all_texts(summary, folder):
    """Everything that is printed or written, as one text each."""
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(*terminal(summary, 200), sep="\n")
    write_tables(summary, folder)
    texts = {e: (folder / f"comparison.{e}").read_text() for e in ("md", "csv", "json")}
    return {**texts, "terminal": console.export_text(), "findings": " ".join(summary.findings)}


def test_two_seeds_with_equal_differences_print_no_p_value(tmp_path):
    summary = compared({"sum": [70.0, 72.0], "pcgrad": [71.0, 73.0]})
    texts = all_texts(summary, tmp_path)
    for where, text in texts.items():
        assert "0.001" not in text, where
    assert "+1.00 (no p: 2 pairs)" in texts["terminal"]
    assert "+1.00 (no p: 2 pairs)" in texts["md"]
    assert texts["findings"].startswith("No p value can be given")
    with (tmp_path / "comparison.csv").open(newline="") as file:
        (line,) = [r for r in csv.DictReader(file) if (r["method"], r["task"]) == ("pcgrad", "average")]
    assert (line["p to baseline"], line["Holm p to baseline"]) == ("", "")
    assert line["why no p to baseline"] == "2 pairs"


def test_a_cost_that_is_unknown_is_a_dash(tmp_path):
    runs = [
        made_run("sum", 0, 70.0),
        made_run("pcgrad", 0, 0, "was killed by signal 9"),
        made_run("pcgrad", 1, 70.0),
    ]
    texts = all_texts(summarise(runs), tmp_path)
    for where, text in texts.items():
        assert "nanx" not in text, where
        assert "nan" not in text, where


def with_references():
    """Two methods, two seeds; the second predicts one class on seed 1. One task is not trained on."""
    runs = []
    for name, seed, mark in (("sum", 0, ""), ("sum", 1, ""), ("pcgrad", 0, ""), ("pcgrad", 1, "one")):
        known = {"a": {"chance": 50.0, "majority": 61.5, "mark": mark}}
        known["far"] = {"chance": 25.0, "majority": 31.0}
        scores = {"a": 70.0 + seed, "far": 40.0 + 2 * seed}
        results = made_results(scores, trained=["a"], seed=seed, references=known)
        runs.append(Run(Spec.parse(name), seed, Path(), CONFIG, results, None))
    return summarise(runs)


def test_chance_and_majority_stand_beside_every_score(tmp_path):
    summary = with_references()
    texts = all_texts(summary, tmp_path)
    texts["md"] = texts["md"].replace("\\*", "*")  # escaped, so that it is shown
    for where in ("md", "terminal"):
        rows = [re.split(r" {2,}|\s*\|\s*", line.strip("| ")) for line in texts[where].splitlines()]
        by_name = {row[0]: row for row in rows}
        assert by_name["chance"][1:6] == ["50.00", "–", "–", "50.00", "25.00"], where
        assert by_name["majority"][1:6] == ["61.50", "–", "–", "61.50", "31.00"], where
        assert by_name["pcgrad"][4] == "70.50 ± 0.50 *"
        assert by_name["sum"][4] == "70.50 ± 0.50"
    assert "* pcgrad, a: one (seed 1)." in texts["md"]
    with (tmp_path / "comparison.csv").open(newline="") as file:
        lines = {(r["method"], r["task"]): r for r in csv.DictReader(file)}
    assert (lines["sum", "far"]["chance"], lines["sum", "far"]["majority"]) == ("25.0", "31.0")
    assert lines["pcgrad", "a"]["marked"] == "one (seed 1)"
    assert lines["sum", "a"]["marked"] == ""
    assert Comparison.read(tmp_path) == summary


def test_tasks_never_trained_on_have_an_average_of_their_own(tmp_path):
    summary = with_references()
    assert summary.baseline.average.mean == 70.5  # of the trained one alone
    assert summary.baseline.scores[UNSEEN].mean == 41.0
    texts = all_texts(summary, tmp_path)
    assert "zero-shot average" in texts["terminal"]
    assert "sum,no,zero-shot average,average,41.0" in texts["csv"]


def test_results_without_references_have_no_such_lines(tmp_path):
    texts = all_texts(compared({"sum": [70.0, 72.0], "pcgrad": [71.0, 73.0]}), tmp_path)
    assert "majority" not in texts["md"] + texts["terminal"]
    assert UNSEEN not in texts["md"] + texts["terminal"]


def test_names_of_tasks_are_text_in_every_table(tmp_path):
    """Not columns of Markdown, formulas of a spreadsheet, or colours of a terminal."""
    names = ['=HYPERLINK("http://x")', "a|b", "[/red]", "@x"]
    run = made_run("sum", 0, 50.0)
    run.results = made_results(dict.fromkeys(names, 50.0))
    comparison = summarise([run])
    write_tables(comparison, tmp_path)
    head, rule, row, *_ = (tmp_path / "comparison.md").read_text().splitlines()
    assert "a\\|b (accuracy)" in head
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in (head, rule, row)}) == 1
    with (tmp_path / "comparison.csv").open(newline="") as lines:
        cells = [cell for line in csv.reader(lines) for cell in line]
    assert {"'" + names[0], "a|b", "[/red]", "'@x"} <= set(cells)
    assert not [cell for cell in cells if cell[:1] in tuple("=+@")]
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(*terminal(comparison, 300))
    assert "[/red] (accuracy)" in console.export_text()
