"""Damaged configurations, overrides and options: taken, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzz_configurations import (
    places,
    plain,
    read_text,
    try_command,
    try_configuration,
    try_option,
    try_text,
)
from fuzz_mutations import DEEP
from fuzz_outcome import refusal
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gradaccord.cli.app import main
from gradaccord.compare.specs import parse_methods
from gradaccord.recipes import recipe_texts
from gradaccord.train.config_file import check_config


@pytest.mark.parametrize(
    ("attempt", "examples"),
    [(try_configuration, 80), (try_option, 500), (try_text, 150), (try_command, 150)],
)
def test_damaged_configurations(attempt: Callable[[Any], Any], examples: int) -> None:
    options = settings(
        max_examples=examples, deadline=None, database=None, derandomize=True,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=[*HealthCheck],
    )  # fmt: skip

    @options
    @given(st.data())
    def tried(draw: st.DataObject) -> None:
        attempt(draw)

    tried()


def test_whole_configurations_are_taken() -> None:
    assert refusal(lambda: check_config(plain())) is None
    for text in recipe_texts().values():
        assert read_text(text.encode()) is None


def test_very_long_words_are_shortened() -> None:
    sentence = refusal(lambda: parse_methods(f"{'1' * 900},{'2' * 5000}"))
    assert sentence is not None
    assert f"'{'1' * 100}" in sentence


def test_there_are_options_to_try() -> None:
    sections = {(section, bool(options)) for section, _, options in places()}
    assert sections >= {("method", True), ("optimizer", True)}


@pytest.mark.parametrize(
    ("section", "given"),
    [
        ("method", {"name": "dotprod", "weight": "0,1"}),
        ("method", {"name": "dotprod", "weight": ".inf"}),
        ("method", {"name": "pcgrad", "reduction": 3}),
        ("method", {"name": "mean", "reduction": "mean"}),
        ("method", {"name": 5}),
        ("optimizer", {"name": "adamw", "weight_decay": "0,1"}),
        ("optimizer", {"name": "adamw", "betas": "0.9"}),
        ("optimizer", {"name": "sgd", "momentum": True}),
        ("optimizer", {"name": 5}),
    ],
)
def test_every_known_bad_option_is_refused(section: str, given: dict[str, Any]) -> None:
    content = plain()
    (content if section == "method" else content.setdefault("train", {}))[section] = given
    sentence = refusal(lambda: check_config(content))
    assert sentence is not None
    assert str(given.get([*given][-1])) in sentence


@pytest.mark.parametrize(
    "content",
    [
        b"[" * DEEP,
        b"a: " * 500,
        b"? [a, b]\n: c\n",
        b"? {a: b}\n: c\n",
        b"tasks: {1: sst, null: sts}\n",
        b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in b"bcdefghi"),
        b"\xef\xbb\xbf",
        b"\xff",
    ],
)
def test_every_known_bad_configuration_is_refused(content: bytes) -> None:
    sentence = read_text(content)
    assert sentence is not None
    assert "a.yaml" in sentence


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbf", b"[" * DEEP, b'{"sentence": "\\ud800", "label": 1}', b"\x1f\x8b"]
)
def test_a_command_ends_with_code_2_and_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    task = "{kind: classification, files: {train: a.jsonl, dev: a.jsonl}}"
    (tmp_path / "a.yaml").write_text(f"model: minilm\ntasks:\n  a: {task}\n")
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(tmp_path / "a.yaml")])
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert shown.err.startswith("gradaccord: ")
    assert shown.err.count("\n") == 1
    assert "a.jsonl" in shown.err
