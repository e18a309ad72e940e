"""Figures of the page: made of records alone, and only where there are some."""

import pytest
from reproduce_toy import TRIO, made_record, save_made

from gradaccord.reproduce.entry import all_entries
from gradaccord.reproduce.figures import primary_tests, valley
from gradaccord.reproduce.plan import plan


def test_primary_tests_are_in_units_of_the_effect_worth_having(trio, tmp_path):
    pytest.importorskip("matplotlib")
    assert primary_tests({TRIO: trio}, tmp_path) is None
    primary = trio.small.primary.model_copy(update={"smallest_effect": 2.0})
    halved = trio.model_copy(update={"small": trio.small.model_copy(update={"primary": primary})})
    save_made(halved, tmp_path, lambda planned: 60 + planned.seed + 5 * (planned.arm == "pcgrad"))
    drawn = primary_tests({TRIO: halved}, tmp_path)
    (axes,) = drawn.make().axes
    assert axes.lines[1].get_xdata() == [2.5]
    assert axes.get_yticklabels()[0].get_text() == f"{TRIO}\npcgrad against plain"


def test_the_valley_has_a_line_for_each_start(tmp_path):
    pytest.importorskip("matplotlib")
    entries = all_entries()
    assert valley(entries, tmp_path) is None
    for planned in plan(entries["controls-valley"], seeds=2):
        point = {"step": 1, "gradients": 2, "seconds": 0, "values": {"loss": -3.0}}
        made_record(planned, -3.0, curve=[point]).save(planned.path(tmp_path).parent)
    drawn = valley(entries, tmp_path)
    (axes,) = drawn.make().axes
    assert len(axes.lines) == 4
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["pcgrad", "sum"]
    drawn.save(tmp_path / drawn.file)
    assert (tmp_path / drawn.file).read_bytes().startswith(b"\x89PNG")
