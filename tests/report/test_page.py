"""The page of a real comparison and of single runs: whole, alone, harmless."""

import json
import re

import pytest
from report_support import HOSTILE, Page, results_of

from gradaccord.cli.app import main
from gradaccord.report.data import read_report_data
from gradaccord.report.page import render, write_report


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


def test_ids_are_unique_and_links_arrive(page):
    ids = [e.attributes["id"] for e in page.all if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    for link in (e for e in page.all if e.tag == "a"):
        assert link.attributes["href"][1:] in ids
    for element in page.all:
        assert element.attributes.get("aria-labelledby", ids[0]) in ids


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


def test_a_single_run_has_its_scores_and_no_comparison(comparison):
    page = Page.of(render(read_report_data(comparison / "pcgrad" / "seed-0")))
    assert page.headings[0] == "seed-0: a run of pcgrad"
    assert "leaderboard" not in page.tables
    assert not [name for name in page.figures if name.startswith("figure-cost")]
    results = results_of(comparison, "pcgrad", 0)
    scores = {(row[0], row[1]): row[2:] for row in page.table("scores")[1:]}
    beside = [results["dev_references"]["mood"], results["references"]["mood"]]
    assert scores["mood", "accuracy (main)"][:-1] == [
        *(f"{results[split]['mood']['accuracy']:.2f}" for split in ("dev", "test")),
        *(f"{own[what]:.2f}" for own in beside for what in ("chance", "majority")),
    ]
    for own in beside:
        assert own["mark"] in scores["mood", "accuracy (main)"][-1]
    assert {"figure-train-loss", "figure-step-cosine", "figure-trade-off"} <= set(page.figures)


def test_single_task_runs_have_curves_but_no_cosines(comparison):
    page = Page.of(render(read_report_data(comparison / "stl" / "seed-0")))
    assert {"figure-train-loss", "figure-dev-average", "figure-dev-share"} <= set(page.figures)
    assert not [name for name in page.figures if "cosine" in name or "step-" in name]


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


def test_out_must_be_a_file(comparison, tmp_path):
    with pytest.raises(ValueError, match="give a file"):
        write_report(comparison, tmp_path)


def test_without_jinja2_the_remedy_is_named(comparison, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gradaccord\[report\]'"):
        render(read_report_data(comparison))
