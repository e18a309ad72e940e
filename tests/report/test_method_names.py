"""The key to the short names of a page."""

from made_results import compared

from gradaccord.compare.specs import short_names
from gradaccord.report.method_names import methods_table


def test_every_method_is_explained_and_every_control_says_whose_it_is():
    scores = {"sum": [60.0], "paired_sum": [60.0], "paired_sum@1.1": [60.0], "dotprod": [61.0]}
    comparison = compared({**scores, "sum+smart": [62.0]})
    table = methods_table(comparison, short_names(scores | {"sum+smart": []}))
    said = {row[0].text: row[2].text for row in table.rows}
    assert "the baseline" in said["sum"]
    assert "the control of sum + smart: the same steps without the idea" in said["sum"]
    for control in ("paired sum", "paired sum (lr x1.1)"):
        assert "the control of dotprod: the same steps without the idea" in said[control]
    assert (
        "learning rates times 1.1, as longer steps alone may be what helps"
        in (said["paired sum (lr x1.1)"])
    )
    assert "with smart" in said["sum + smart"]
