"""comparison.json: what is written is read again, also files of 0.1; anything else is refused."""

import json

import pytest
from made_results import compared

from gradaccord.compare.comparison import Comparison


@pytest.fixture
def content(tmp_path):
    """What is written; scores of one seed, so that errors and p values are unknown."""
    compared({"sum": [70.0], "pcgrad": [71.0]}).write(tmp_path)
    return json.loads((tmp_path / "comparison.json").read_text())


def rewrite(folder, content):
    (folder / "comparison.json").write_text(json.dumps(content))


def test_what_is_written_is_read_again(content, tmp_path):
    assert content["version"] == 1
    assert content["methods"][1]["vs_baseline"] == {
        "mean": 1.0, "error": None, "count": 1, "p": None, "p_holm": None, "level": 0.05,
        "no_p": "1 pair",
    }  # fmt: skip
    assert Comparison.read(tmp_path) == compared({"sum": [70.0], "pcgrad": [71.0]})


def test_a_file_of_0_1_is_read(content, tmp_path):
    """It has no version; before p values were corrected, no `p_holm` and no `no_p` either."""
    expected = Comparison.read(tmp_path)
    del content["version"]
    rewrite(tmp_path, content)
    assert Comparison.read(tmp_path) == expected
    content["methods"][1]["vs_baseline"] = {"mean": 1.0, "error": 0.1, "count": 3, "p": 0.03}
    rewrite(tmp_path, content)
    assert str(Comparison.read(tmp_path).methods[1].vs_baseline) == "+1.00 (p 0.030)"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"version": 2},
            "has version 2, and this gradaccord reads versions up to 1: upgrade gradaccord",
        ),
        ({"methods": [{"method": "sum"}]}, "is damaged"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(content, tmp_path, change, sentence):
    rewrite(tmp_path, content | change)
    with pytest.raises(ValueError, match=sentence) as error:
        Comparison.read(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"methods": []}, "`methods` is empty"),
        ({"methods": None}, "`methods`: Input should be"),
        ({"methods": [{}]}, "`methods.0.method`: Field required"),
        ({"metrics": {}}, "the task 'a' has no metric"),
        ({"tasks": 7}, "`tasks`: Input should be"),
    ],
)
def test_a_file_of_another_shape_is_one_sentence(tmp_path, changes, said):
    compared({"sum": [50, 51, 52], "pcgrad": [52, 53, 54]}).write(tmp_path)
    content = json.loads((tmp_path / "comparison.json").read_text())
    (tmp_path / "comparison.json").write_text(json.dumps(content | changes))
    with pytest.raises(ValueError, match=r"comparison.json is damaged \(") as raised:
        Comparison.read(tmp_path)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_method_without_its_average_is_refused(tmp_path):
    compared({"sum": [50, 51], "pcgrad": [52, 53]}).write(tmp_path)
    content = json.loads((tmp_path / "comparison.json").read_text())
    content["methods"][1]["scores"] = {}
    (tmp_path / "comparison.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="the method 'pcgrad' has no average"):
        Comparison.read(tmp_path)
