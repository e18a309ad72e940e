"""One HTML file: texts stay texts, ids are unique, and one script may run."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

import pytest
from report_support import HOSTILE, Page

from gradaccord.report.html_file import FIGURES_SHOWN, fill
from gradaccord.report.section import Cell, Figure, Section, Table

pytest.importorskip("jinja2")


def test_texts_stay_texts_wherever_they_stand():
    table = Table("t", HOSTILE, [HOSTILE], [[Cell(HOSTILE, HOSTILE)]], caption=HOSTILE)
    section = Section(HOSTILE, [HOSTILE], [table], texts={HOSTILE: HOSTILE})
    page = Page.of(fill(HOSTILE, HOSTILE, [HOSTILE], [section], more=[HOSTILE]))
    assert len([e for e in page.all if e.tag == "script"]) == 1
    assert not [e for e in page.all if e.tag in ("img", "b")]
    assert not [name for e in page.all for name in e.attributes if name.startswith("on")]
    assert page.root.text.count(HOSTILE) >= 8


def test_the_policy_names_the_hash_of_the_one_script():
    page = Page.of(fill("A", "", [], []))
    (script,) = [e for e in page.all if e.tag == "script"]
    digest = b64encode(sha256("".join(script.pieces).encode()).digest()).decode()
    (policy,) = [e.attributes["content"] for e in page.all if "http-equiv" in e.attributes]
    assert f"script-src 'sha256-{digest}'" in policy


def test_sections_of_one_name_have_ids_of_their_own_and_empty_ones_are_left_out():
    said = [Section("Costs!", ["one"]), Section("costs", ["two"]), Section("Nothing")]
    page = Page.of(fill("A", "", [], said))
    ids = [e.attributes["id"] for e in page.all if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    headings = [e.text for e in page.all if e.tag == "h2"]
    assert [heading for heading in headings if heading in ("Costs!", "costs", "Nothing")] == [
        "Costs!",
        "costs",
    ]


def test_many_figures_are_folded_away_but_there():
    def shown(count):
        figures = [Figure(f"f{i}", f"F{i}", "<svg></svg>", "") for i in range(count)]
        return Page.of(fill("A", "", [], [Section("S", figures=figures)]))

    few, many = shown(FIGURES_SHOWN), shown(FIGURES_SHOWN + 1)
    assert [len([e for e in page.all if e.tag == "svg"]) for page in (few, many)] == [9, 10]
    folded = [len([e for e in page.all if e.tag == "details"]) for page in (few, many)]
    assert folded[0] < folded[1]
