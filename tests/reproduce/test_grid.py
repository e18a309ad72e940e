"""Tables as text and as Markdown."""

from gradaccord.reproduce.grid import Grid

GRID = Grid("Scores", ("", "first", "second"), (("plain", "1.0", "20.0"), ("a|b", "–", "3")), "A note.")


def test_text_is_aligned():
    assert GRID.text() == [
        "Scores",
        "       first  second",
        "plain    1.0    20.0",
        "a|b        –       3",
        "A note.",
    ]


def test_a_wide_table_is_cut_into_blocks_that_repeat_the_names():
    lines = GRID.text(width=14)
    assert lines[1:7] == [
        "       first", "plain    1.0", "a|b        –",
        "       second", "plain    20.0", "a|b         3",
    ]  # fmt: skip
    assert max(map(len, lines)) <= 14


def test_markdown_escapes_pipes():
    assert GRID.markdown() == [
        "**Scores**", "", "|  | first | second |", "|---|---|---|", "| plain | 1.0 | 20.0 |",
        "| a\\|b | – | 3 |", "", "A note.",
    ]  # fmt: skip
