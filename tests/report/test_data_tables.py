"""`report.data_tables`: the page says what the data is like."""

from __future__ import annotations


def test_the_page_shows_the_data_of_every_task(page):
    headings, *rows = page.table("data-splits")
    assert headings[:4] == ["task", "split", "examples", "labelled"]
    assert [row[:4] for row in rows] == [
        [task, split, count, count]
        for task in ("mood", "share")
        for split, count in (("train", "32"), ("dev", "12"), ("test", "12"))
    ]
    classes = {tuple(row[:2]): row[2] for row in page.table("data-classes")[1:]}
    assert classes.keys() == {("mood", split) for split in ("train", "dev", "test")}
    assert all("<b>bad</b>" in shares and "good" in shares for shares in classes.values())
    shown = {row[0]: row[1:] for row in page.table("data-examples")[1:]}
    assert shown["mood"][0].startswith("[CLS]")
    assert shown["mood"][1] == "<b>bad</b>"
    assert float(shown["share"][1]) <= 1
