"""Plain sentences in many languages, for language modelling: NTREX-128, Common Voice."""

from __future__ import annotations

from gradaccord.data.examples import Line
from gradaccord.data.files.layouts import Layout, PublishedSet, Wanted, count_lines
from gradaccord.data.files.text_files import File


def read(file: File, wanted: Wanted) -> list[Line]:
    """One sentence to a line. The id is the line's number: of NTREX the same in every language."""
    lines = enumerate(file.lines(), start=1)
    return [Line(line.strip(), str(number)) for number, line in lines if line.strip()]


def _set(name: str, pattern: str, split: str, *aliases: str) -> PublishedSet:
    layout = Layout(pattern, read, count_lines, split=split)
    return PublishedSet(name, "masked_lm", (layout,), languages=True, aliases=aliases)


SETS = (
    # Federmann et al. 2022: news, parallel line by line.
    _set("ntrex", r"newstest2019-(?:src|ref)\.(?P<language>[a-z]{3}(?:-\w+)*)\.txt", "test"),
    # Ardila et al. 2020: the sentences that volunteers read aloud.
    _set(
        "common-voice-text",
        r"common_voice_text/(?P<language>[a-z]{2,3}(?:-\w+)*)\.txt",
        "train",
        "common-voice",
    ),
)
