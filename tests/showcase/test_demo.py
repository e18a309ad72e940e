"""The demo: sentences that follow the numbers, its methods, and what its parts measure."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from demo_toy import CONTROL, METHOD, names
from rich.console import Console

from gradaccord.cli.demo_screen import methods_table
from gradaccord.data.text import cldr
from gradaccord.models.trunks.characters import CharacterEncoder, CharacterTokens, CharacterTrunk
from gradaccord.showcase.demo.findings import findings
from gradaccord.showcase.demo.glyphs import Glyphs, few_shot
from gradaccord.showcase.demo.names import demo_methods, recipe
from gradaccord.showcase.demo.settings import METHODS, DemoSettings
from gradaccord.showcase.demo.valley import Valleys
from gradaccord.showcase.landscape.runs import LandscapeSettings, Result, Row
from gradaccord.train.probes import Forgetting

SHORT = "seq. reptile (K 20, eta .3)"
GLYPHS = Glyphs(20.0, 61.0, 2.0, 3, 45.0, 60.0, 80, 240)


def row(method: str, **trapped: float) -> Row:
    zero = (0.0, 0.0)
    return Row(method, 0.1, zero, 2, zero, -250.0, None, 0.1, None, 0.1, trapped)


PLANE = Result(settings=LandscapeSettings(2), rows=[row("MTL", x1=1.0), row("Reptile")], sweep=[])

VALLEY = Valleys(
    starts=16,
    steps=20_000,
    rates=(0.003, 0.01),
    learned={"sum": [0, 1], "pcgrad": [2, 15]},
    ends={"sum": [-40.0, -10.0], "pcgrad": [-30.0, -100.0]},
)


def test_a_gain_over_the_control_too_is_called_one() -> None:
    found = names({"sum": [60, 61, 62], CONTROL: [60.1, 61, 61.9], METHOD: [63, 64.1, 65.2]})
    first, second, third, fourth = findings(PLANE, VALLEY, found, GLYPHS)
    assert f"{SHORT} (+3.10 points, p 0.001) beats both sum (61.00 ± 0.58 %)" in first
    assert "no method differs clearly from sum (41.00 ± 0.58 %" in second
    assert re.search(r"; every test could detect \d+\.\d\d points\)", second)
    assert "PCGrad learns both from 15 of 16 starts and plain descent on the sum from 1" in third
    assert "at the rates 0.003, 0.01: PCGrad 2, 15, the sum 0, 1" in third
    assert "1 of 2 methods always end in one task's own optimum (MTL)" in fourth
    assert "1 of 2 methods never" in fourth
    assert "from 20 % before to 61 ± 2 % after 3 steps" in fourth
    assert "meta-training adds 15 points" in fourth


def test_a_gain_that_the_control_has_too_is_none() -> None:
    found = names({"sum": [60, 61, 62], CONTROL: [63.1, 64.2, 65], METHOD: [63, 64.1, 65.2]})
    first = findings(PLANE, VALLEY, found, GLYPHS)[0]
    assert "no method clearly beats both sum (61.00 ± 0.58 %) and its own control over 3 seeds" in first
    assert re.search(
        rf"{re.escape(SHORT)} is [+-]0\.00 points, p 1\.00 \(the test could detect \d\.\d\d\), "
        "against its control",
        first,
    )
    assert "the control seq. reptile (K 20, eta 1), which steps on every batch" in first


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_have_no_p_value(seeds: int) -> None:
    """Two seeds with equal differences were called a clear gain, p < 0.001."""
    found = names({"sum": [60, 61][:seeds], CONTROL: [61, 62][:seeds], METHOD: [70, 71][:seeds]})
    first = findings(PLANE, VALLEY, found, GLYPHS)[0]
    assert "no method clearly beats both" in first
    assert "no p value can be given for fewer than three seeds" in first
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(methods_table(found))
    assert "+10.00 no p" in console.export_text()


def test_forgetting_is_told_beside_the_training_loss() -> None:
    scores = {"sum": [60.0, 61, 62], CONTROL: [60.0, 61, 62], METHOD: [60.0, 61, 62]}
    alike = findings(PLANE, VALLEY, names(scores), GLYPHS)[1]
    assert (
        "does not differ clearly (masked-character loss +0.51 to +0.51; the test could detect 0.01)"
        in alike
    )
    lazy = findings(PLANE, VALLEY, names(scores, {METHOD: 2.2}), GLYPHS)[1]
    assert f"{SHORT} forgets least of them (masked-character loss +0.21" in lazy
    assert f"which says little: {SHORT} has also learned least" in lazy


def test_meta_training_that_harms_is_said_to() -> None:
    scores = {"sum": [60.0, 61], CONTROL: [60.0, 61], METHOD: [60.0, 61]}
    harmed = dataclasses.replace(GLYPHS, validated=40.0)
    assert "meta-training costs 5 points" in findings(PLANE, VALLEY, names(scores), harmed)[3]


def test_shares_of_trapped_runs_are_means_over_starts() -> None:
    rows = [row("A", x1=0.5, x2=0.25), row("A")]
    assert PLANE.model_copy(update={"rows": rows}).trapped == {"A": 0.375}


def test_the_plane_is_read_as_it_was_written(tmp_path: Path) -> None:
    PLANE.write(tmp_path)
    assert Result.read(tmp_path) == PLANE
    file = tmp_path / Result.FILE
    old = json.loads(file.read_text()) | {"version": 2}
    file.write_text(json.dumps(old))
    with pytest.raises(ValueError, match="has version 2"):
        Result.read(tmp_path)


def test_the_methods_are_those_that_were_promised_with_their_controls() -> None:
    chosen = [str(spec) for spec in demo_methods(DemoSettings(Path()))]
    assert chosen == ["sum", "pcgrad", CONTROL, METHOD, "paired_sum", "dotprod"]
    assert METHODS.startswith("pcgrad")
    asked = demo_methods(DemoSettings(Path(), methods="paired_sum@1.1"))
    assert [str(spec) for spec in asked] == ["sum", "paired_sum@1.1"]


def test_characters_leave_a_core_to_the_pretraining_beside(tmp_path: Path) -> None:
    before, seen = torch.get_num_threads(), set()
    torch.set_num_threads(2)
    try:
        few_shot(DemoSettings(tmp_path, fast=True), lambda _: seen.add(torch.get_num_threads()))
        assert seen == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_encoder_is_small_and_blind_to_padding() -> None:
    encoder = CharacterEncoder(400).eval()
    assert 100_000 < sum(p.numel() for p in encoder.parameters()) < 250_000
    tokens = torch.randint(3, 400, (4, 10))
    padded = torch.nn.functional.pad(tokens, (0, 7))
    torch.testing.assert_close(encoder(padded)[:, :10], encoder(tokens))
    assert encoder(padded)[:, 10:].abs().max() == 0


def test_what_characters_forget_is_measured_by_the_pretrained_layer() -> None:
    base = recipe(DemoSettings(Path()))
    tokens = CharacterTokens.from_texts(n.text for code in ("de", "fr") for n in cldr.names(code))
    torch.manual_seed(0)
    lm = torch.randn(tokens.size, 96), torch.zeros(tokens.size)
    trunk = CharacterTrunk(tokens.size, lm=lm)
    problem: Any = SimpleNamespace(model=SimpleNamespace(trunk=trunk), tokens=tokens, folder=None)
    probe = Forgetting(base, problem)
    before = probe.measure()
    assert set(before) == set(base.probe.masked_lm)
    assert probe.measure() == before  # the same masks, no dropout
    assert trunk.training
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.zero_()
    chance = math.log(tokens.size)  # states of zero, and a bias of zero: every character alike
    assert all(loss == pytest.approx(chance, abs=1e-4) for loss in probe.measure().values())
    assert all(loss != pytest.approx(chance, abs=1e-2) for loss in before.values())
    trunk.lm = None
    with pytest.raises(ValueError, match="use the model `characters`"):
        Forgetting(base, problem)
