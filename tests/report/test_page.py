"""The page of a real comparison and of single runs: whole, alone, true to the results, harmless."""

import json
import random
import re
import shutil
import statistics

import pytest
from report_support import HOSTILE, Page

from gradaccord.cli.app import main
from gradaccord.report.data import read_report_data
from gradaccord.report.page import render, write_report


def results_of(folder, method, seed):
    return json.loads((folder / method / f"seed-{seed}" / "results.json").read_text())


def average(results, split="test"):
    return statistics.fmean(results[split][t][results["metrics"][t]] for t in results["trained"])


def test_nothing_is_loaded_from_anywhere(written, page):
    for element in page.all:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
            assert element.attributes.get(name, "#").startswith("#")
        assert element.tag not in ("link", "iframe", "object", "embed", "img", "base")
    (style,) = [e for e in page.all if e.tag == "style"]
    assert "url(" not in style.text
    assert "@import" not in style.text
    assert not re.search(r"https?://", written.read_text(encoding="utf-8"))


def test_texts_of_the_data_stay_texts(page):
    assert len([e for e in page.all if e.tag == "script"]) == 1
    assert not [e for e in page.all if e.tag in ("img", "b")]
    assert not [e for e in page.all for name in e.attributes if name.startswith("on")]
    (truths,) = [e.text for e in page.all if e.tag == "text" and e.text.startswith("<b>bad")][:1]
    assert truths == "<b>bad</b>"
    shown = [row for name in page.tables if name == "worst-mood" for row in page.table(name)]
    assert any(HOSTILE in text for row in shown for text in row)


def test_only_the_page_s_own_script_may_run(page):
    from base64 import b64encode
    from hashlib import sha256

    (script,) = [e for e in page.all if e.tag == "script"]
    digest = b64encode(sha256("".join(script.pieces).encode()).digest()).decode()
    (policy,) = [e.attributes["content"] for e in page.all if "http-equiv" in e.attributes]
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest}'" in policy


def test_every_table_is_there(page):
    assert page.tables == [
        "leaderboard", "per-task", "differences", "costs", "worst-mood", "worst-share", "commands",
        "versions",
    ]  # fmt: skip
    for name in page.tables:
        headings, *rows = page.table(name)
        assert rows
        assert all(len(row) == len(headings) for row in rows)


def test_every_figure_is_there_and_says_what_it_shows(page):
    expected = {
        "figure-train-loss", "figure-dev-average", "figure-dev-mood", "figure-dev-share",
        "figure-step-dot", "figure-step-cosine", "figure-step-conflicts", "figure-task-cosine",
        "figure-trade-off", "figure-cosines-sum", "figure-cosines-pcgrad", "figure-distance",
        "figure-cost-seconds", "figure-cost-gradients", "figure-cost-memory-mb",
    }  # fmt: skip
    assert expected <= set(page.figures)
    assert any(name.startswith("figure-confusion-") and name.endswith("-mood") for name in page.figures)
    assert any(
        name.startswith("figure-histogram-") and name.endswith("-share") for name in page.figures
    )
    for picture in (e for e in page.all if e.tag == "svg"):
        if "aria-hidden" not in picture.attributes:
            assert picture.attributes["role"] == "img"
            assert len(picture.attributes["aria-label"]) > 30
    for figure in (e for e in page.all if e.tag == "figure"):
        assert [s for s in figure.below("svg") if s.attributes.get("role") == "img"]


def test_ids_are_unique_and_links_arrive(page):
    ids = [e.attributes["id"] for e in page.all if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    for link in (e for e in page.all if e.tag == "a"):
        assert link.attributes["href"][1:] in ids
    for element in page.all:
        assert element.attributes.get("aria-labelledby", ids[0]) in ids


def test_leaderboard_holds_the_runs_scores_the_best_first(page, comparison):
    headings, *rows = page.table("leaderboard")
    column = headings.index("average, %")
    shown = {row[0]: row[column] for row in rows}
    for method in ("sum", "pcgrad", "stl"):
        values = [average(results_of(comparison, method, seed)) for seed in (0, 1)]
        error = statistics.stdev(values) / 2**0.5
        assert shown[method] == f"{statistics.fmean(values):.2f} ± {error:.2f}"
    means = [float(row[column].split()[0]) for row in rows]
    assert means == sorted(means, reverse=True)


def test_two_seeds_have_differences_and_no_p_value(page, comparison):
    _, *rows = page.table("differences")
    found = {(row[0], row[1]): row for row in rows}
    assert set(found) == {(m, t) for m in ("pcgrad", "stl") for t in ("average", "mood", "share")}
    for method in ("pcgrad", "stl"):
        ours = [results_of(comparison, method, seed)["test"]["share"]["pearson"] for seed in (0, 1)]
        theirs = [results_of(comparison, "sum", seed)["test"]["share"]["pearson"] for seed in (0, 1)]
        row = found[method, "share"]
        assert float(row[2].split()[0]) == pytest.approx(
            statistics.fmean(ours) - statistics.fmean(theirs), abs=0.006
        )
        assert row[3:5] == ["–", "–"]
    assert found["pcgrad", "mood"][5] == "sum"  # its control
    assert found["stl", "mood"][5:] == ["–"] * 4
    _, *leaders = page.table("leaderboard")
    assert [row[2].split(" (")[1] for row in leaders if row[0] == "pcgrad"] == ["no p: 2 pairs)"]
    assert "No p value can be given" in page.root.text


def test_p_values_of_the_page_are_scipy_s_with_holm_s_correction_beside_them(copied):
    """Four seeds; four tests of tasks and two of averages: pcgrad's control is the baseline."""
    from scipy.stats import ttest_rel

    draw = random.Random(0)
    (copied / "comparison.json").unlink()
    for method in ("sum", "pcgrad", "stl"):
        for seed in range(4):
            folder = copied / method / f"seed-{seed}"
            if seed > 1:
                shutil.copytree(copied / method / "seed-0", folder)
                for name in ("wanted.yaml", "config.yaml"):
                    if (folder / name).exists():
                        text = (folder / name).read_text()
                        (folder / name).write_text(text.replace("seed: 0", f"seed: {seed}"))
            results = json.loads((folder / "results.json").read_text()) | {"seed": seed}
            for task, metric in (("mood", "accuracy"), ("share", "pearson")):
                shift = 3 * (method == "pcgrad") + 0.7 * (method == "stl")
                results["test"][task][metric] = 50 + shift + 2 * draw.random()
            (folder / "results.json").write_text(json.dumps(results))
    page = Page.of(write_report(copied).read_text(encoding="utf-8"))

    def scores(method, task):
        tests = [results_of(copied, method, seed)["test"] for seed in range(4)]
        both = [(test["mood"]["accuracy"], test["share"]["pearson"]) for test in tests]
        return [{"mood": m, "share": s, "average": (m + s) / 2}[task] for m, s in both]

    raw = {
        (m, t): ttest_rel(scores(m, t), scores("sum", t)).pvalue
        for m in ("pcgrad", "stl")
        for t in ("average", "mood", "share")
    }
    assert sum(0.001 < p < 0.5 for p in raw.values()) >= 3
    _, *rows = page.table("differences")
    for row in rows:
        family = [k for k in raw if (k[1] == "average") == (row[1] == "average")]
        order = sorted(family, key=raw.__getitem__)
        place = order.index((row[0], row[1]))
        holm = min(max(raw[k] * (len(order) - i) for i, k in enumerate(order[: place + 1])), 1)
        for shown, expected in ((row[3], raw[row[0], row[1]]), (row[4], holm)):
            if expected < 0.001:
                assert shown == "< 0.001"
            else:
                assert float(shown) == pytest.approx(expected, abs=0.0051)
        assert row[6:] == (row[2:5] if row[0] == "pcgrad" else ["–"] * 3)
    _, *leaders = page.table("leaderboard")
    (pcgrad,) = [row for row in leaders if row[0] == "pcgrad"]
    assert re.search(r"\(p [<\d. ]+, Holm [<\d. ]+\)", pcgrad[2])
    assert "Clearly better than sum and than its control: pcgrad" in page.root.text


def test_confusions_count_all_seeds(page, comparison):
    (name,) = [n for n in page.figures if re.fullmatch("figure-confusion-sum-mood", n)]
    (figure,) = [e for e in page.all if e.attributes.get("id") == name]
    shown = sorted(int(e.text) for e in figure.below("text") if e.text.isdigit())
    summed = [0] * 4
    for seed in (0, 1):
        counts = results_of(comparison, "sum", seed)["errors"]["mood"]["confusion"]["counts"]
        summed = [a + b for a, b in zip(summed, [c for row in counts for c in row], strict=True)]
    assert shown == sorted(summed)


def test_commands_and_configurations_are_those_of_the_runs(page, comparison):
    _, *rows = page.table("commands")
    assert [row[:2] for row in rows] == [[m, s] for m in ("sum", "pcgrad", "stl") for s in "01"]
    assert rows[0][2] == f"gradaccord train 'a file.yaml' --out {comparison / 'sum' / 'seed-0'}"
    assert next(e.text for e in page.all if e.tag == "pre") == (
        (comparison / "sum" / "seed-0" / "config.yaml").read_text().strip()
    )
    assert "torch" in [row[0] for row in page.table("versions")]


def test_findings_come_from_the_comparison(page, comparison):
    said = json.loads((comparison / "comparison.json").read_text())["findings"]
    (box,) = [e for e in page.all if e.attributes.get("class") == "findings"]
    assert [p.text for p in box.below("p")][: len(said)] == said


def test_the_same_runs_give_the_same_page(written, comparison):
    assert render(read_report_data(comparison)) == written.read_text(encoding="utf-8")


def test_forgetting_is_left_out_unless_measured(page):
    assert not [name for name in page.figures if "forgetting" in name]
    assert "forgetting" not in page.tables


def test_forgetting_tells_seen_texts_from_unseen_ones(forgotten):
    page = Page.of(render(read_report_data(forgotten)))
    headings, *rows = page.table("forgetting")
    assert headings == ["method", "mood (seen)", "unseen news (unseen)", "wiki"]
    last = len(results_of(forgotten, "sum", 0)["evaluations"]) - 1
    assert rows[0] == ["sum", *(f"{x + last:.3f} ± 0.000" for x in (2, 3, 4))]
    titles = [title for title in page.headings if title.startswith("Masked-LM loss: ")]
    assert [title.removeprefix("Masked-LM loss: ") for title in titles] == [
        "texts seen in training (mood)", "texts unseen in training (unseen news)", "wiki",
    ]  # fmt: skip


def test_a_single_run_has_its_scores_and_no_comparison(comparison):
    page = Page.of(render(read_report_data(comparison / "pcgrad" / "seed-0")))
    assert page.headings[0] == "seed-0: a run of pcgrad"
    assert "leaderboard" not in page.tables
    assert not [name for name in page.figures if name.startswith("figure-cost")]
    results = results_of(comparison, "pcgrad", 0)
    scores = {(row[0], row[1]): row[2:] for row in page.table("scores")[1:]}
    assert scores["mood", "accuracy (main)"] == [
        f"{results[split]['mood']['accuracy']:.2f}" for split in ("dev", "test")
    ]
    assert {"figure-train-loss", "figure-step-cosine", "figure-trade-off"} <= set(page.figures)


def test_single_task_runs_have_curves_but_no_cosines(comparison):
    page = Page.of(render(read_report_data(comparison / "stl" / "seed-0")))
    assert {"figure-train-loss", "figure-dev-average", "figure-dev-share"} <= set(page.figures)
    assert not [name for name in page.figures if "cosine" in name or "step-" in name]


def test_a_comparison_cut_short_is_reported_with_what_is_missing(copied):
    whole = read_report_data(copied).comparison
    (copied / "comparison.json").unlink()
    assert read_report_data(copied).comparison == whole  # as the command itself would have written it
    (copied / "pcgrad" / "seed-1" / "results.json").unlink()
    page = Page.of(render(read_report_data(copied)))
    assert "Missing or collapsed runs" in page.headings
    said = [e.text for e in page.all if e.tag in ("li", "p")]
    assert "pcgrad, seed 1: not finished." in said
    assert "1 run is missing from the means." in said
    (row,) = [row for row in page.table("leaderboard") if row[0] == "pcgrad"]
    assert row[-1] == "1 (1 missing)"


def test_a_run_whose_folder_is_gone_is_named(copied):
    (copied / "stl" / "seed-1" / "results.json").unlink()
    page = Page.of(render(read_report_data(copied)))
    assert "The folder of stl, seed 1, is gone." in [e.text for e in page.all if e.tag == "li"]


def test_collapsed_runs_are_named(copied):
    content = json.loads((copied / "comparison.json").read_text())
    content["methods"][1]["collapsed"] = [0, 1]
    (copied / "comparison.json").write_text(json.dumps(content))
    page = Page.of(render(read_report_data(copied)))
    said = [e.text for e in page.all if e.tag == "li"]
    assert "pcgrad learned less than half of what the baseline did on seeds 0, 1." in said


def test_command_writes_the_page(copied, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["report", str(copied)])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"Written: {copied / 'report.html'}\n"
    Page.of((copied / "report.html").read_text(encoding="utf-8"))
    with pytest.raises(SystemExit) as ended:
        main(["report", str(copied / "sum" / "seed-0"), "--out", str(tmp_path / "deep" / "one.html")])
    assert ended.value.code == 0
    assert (tmp_path / "deep" / "one.html").exists()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("nowhere", "is no folder"),
        ("empty", "holds no run"),
        ("unfinished", "holds only unfinished runs"),
        ("comparison", "comparison.json is damaged"),
        ("results", "results.json is damaged"),
        ("list", "comparison.json holds no JSON object"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(damage, said, copied, tmp_path, capsys):
    folder = copied
    if damage == "nowhere":
        folder = tmp_path / "nowhere"
    elif damage == "empty":
        folder = tmp_path / "empty"
        folder.mkdir()
    elif damage == "unfinished":
        for path in copied.glob("*/seed-*/results.json"):
            path.unlink()
    elif damage == "comparison":
        (copied / "comparison.json").write_text('{"methods": [')
    elif damage == "list":
        (copied / "comparison.json").write_text("[]")
    else:
        (copied / "sum" / "seed-0" / "results.json").write_bytes(b'{"a": "\xff')
    with pytest.raises(SystemExit) as ended:
        main(["report", str(folder)])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1
    assert not (folder / "report.html").exists()


def test_out_must_be_a_file(comparison, tmp_path):
    with pytest.raises(ValueError, match="name a file"):
        write_report(comparison, tmp_path)


def test_without_jinja2_the_remedy_is_named(comparison, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gradaccord\[report\]'"):
        render(read_report_data(comparison))
