"""Screens: a live picture on a terminal, lines in a file, neither more often than asked for."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gradaccord.cli import screen
from gradaccord.cli.screen import Screen, bar


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(screen.time, "monotonic", lambda: now[0])
    return now


def of(terminal: bool) -> tuple[Screen[float], io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=80)
    made = Screen(console, lambda share: bar("a bar", share), lambda share: f"a line: {share:.0%}")
    return made, file


def test_lines_come_now_and_then_where_there_is_no_terminal(clock: list[float]) -> None:
    shown, file = of(terminal=False)
    with shown.running():
        for second in range(25):
            clock[0] = second
            shown.show(second / 25)
    assert file.getvalue() == "a line: 40%\na line: 80%\n"


def test_a_terminal_is_drawn_on_more_often_and_left_clean(clock: list[float]) -> None:
    shown, file = of(terminal=True)
    with shown.running():
        for step in range(10):
            clock[0] = step / 10
            shown.show(step / 10)
        assert file.getvalue().count("a bar") == 3
    assert "a line" not in file.getvalue()


def test_work_without_a_screen_of_its_own_is_watched(clock: list[float]) -> None:
    file = io.StringIO()
    with screen.watching(Console(file=file, width=80)) as watch:
        clock[0] = 11
        watch.at("copying the model", 1, 4)
        clock[0] = 22
        watch.at("writing the card", 0, 0)
        watch.say("A sentence.")
    assert file.getvalue() == "copying the model, 25%\nwriting the card\nA sentence.\n"
    file = io.StringIO()
    with screen.watching(Console(file=file, width=80, force_terminal=True)) as watch:
        clock[0] = 33
        watch.at("copying the model", 1, 4)
        assert "copying the model" in file.getvalue()


def test_what_is_said_is_not_read_as_markup() -> None:
    shown, file = of(terminal=False)
    shown.say("[bold] stays, and a long line is not broken: " + "x" * 100)
    assert file.getvalue().startswith("[bold] stays")
    assert file.getvalue().count("\n") == 1


def test_a_terminal_breaks_sentences_between_words() -> None:
    shown, file = of(terminal=True)
    shown.say("word " * 40)
    lines = file.getvalue().rstrip("\n").splitlines()
    assert len(lines) == 3
    assert all(set(line.split()) == {"word"} for line in lines)


def test_a_sentence_takes_the_picture_of_what_is_over_away(clock: list[float]) -> None:
    shown, file = of(terminal=True)
    with shown.running():
        clock[0] = 1.0
        shown.show(0.5)
        drawn = len(file.getvalue())
        shown.say("Done.")
        assert "a bar" not in file.getvalue()[drawn:]
        clock[0] = 2.0
        shown.show(0.7)
        assert "a bar" in file.getvalue()[drawn:]
