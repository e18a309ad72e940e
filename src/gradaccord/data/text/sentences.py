"""Plain sentences in many languages: NTREX-128 (Federmann et al. 2022), parallel line by line."""

from __future__ import annotations

from gradaccord.data.examples import Line
from gradaccord.data.files.layouts import Layout, Set, Wanted, count_lines
from gradaccord.data.files.text_files import File


def read(file: File, wanted: Wanted) -> list[Line]:
    """One sentence to a line. The id is the line's number: the same in every language."""
    lines = enumerate(file.lines(), start=1)
    return [Line(line.strip(), str(number)) for number, line in lines if line.strip()]


SETS = (
    Set(
        "ntrex",
        "masked_lm",
        (
            Layout(
                r"newstest2019-(?:src|ref)\.(?P<language>[a-z]{3}(?:-\w+)*)\.txt",
                read,
                count_lines,
                split="test",
            ),
        ),
        languages=True,
    ),
)
