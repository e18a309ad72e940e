"""Quasar-T (Dhingra et al. 2017): trivia questions with sentences that a search engine found for each.

The context of a question is its `CONTEXTS` best sentences, one to a line. An answer stands wherever its
words occur in them, whatever their case. A question none of whose sentences holds the answer cannot be
trained on: those of the train split are left out and counted; elsewhere they stay, with the answer and
no place.
"""

from __future__ import annotations

import re

from gradaccord.data.examples import Question
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.text_files import File, field

CONTEXTS = 20


def read(file: File, wanted: Wanted) -> list[Question]:
    """The questions of a split with their contexts."""
    contexts = {
        field(row, "uid", found, line, str): [
            text for _, text in field(row, "contexts", found, line, list)
        ]
        for found in (_contexts(file),)
        for line, row in found.json_lines()
    }
    examples = []
    for line, row in file.json_lines():
        id = field(row, "uid", file, line, str)
        context = "\n".join(contexts.get(id, ())[:CONTEXTS])
        answer = field(row, "answer", file, line, str)
        places = _places(answer, context)
        if not places and wanted.split == "train":
            wanted.note("questions left out whose answer is in no context")
            continue
        answers = tuple(context[start:end] for start, end in places) or (answer,)
        starts = tuple(start for start, _ in places)
        examples.append(
            Question(
                field(row, "question", file, line, str).strip(), context, answers, starts, "en", id
            )
        )
    return examples


def _contexts(file: File) -> File:
    """The file of contexts: beside the questions, or in contexts/short (else long) as published."""
    name = file.name.replace("_questions", "_contexts")
    found = file.sibling(name)
    if found is not None:
        return found
    for length in ("short", "long"):
        for base in (f"../contexts/{length}", f"contexts/{length}"):
            found = file.relative(base, name)
            if found is not None:
                return found
    raise ValueError(
        f"{file} has no {name} beside it or in contexts/short: put the contexts of Quasar-T there."
    )


def _places(answer: str, context: str) -> list[tuple[int, int]]:
    pattern = rf"(?<!\w){re.escape(answer)}(?!\w)"
    return [found.span() for found in re.finditer(pattern, context, re.IGNORECASE)]
