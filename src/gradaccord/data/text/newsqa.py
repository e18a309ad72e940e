"""NewsQA (Trischler et al. 2017) as its own script packs it: combined-newsqa-data-v1.json."""

from __future__ import annotations

from gradaccord.data.examples import Question
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.text_files import File, at, field


def read(file: File, wanted: Wanted) -> list[Question]:
    """Questions of one split on whose answer the crowd agreed; the others are counted and left out."""
    examples = []
    for story in field(file.json(), "data", file, 1, list):
        if story.get("type") != wanted.split:
            continue
        name = story.get("storyId", "")
        if "text" not in story:
            raise ValueError(
                f"{file}: the story {name!r} has no 'text': pack the set with the CNN stories."
            )
        text = field(story, "text", file, 1, str)
        for number, asked in enumerate(field(story, "questions", file, 1, list)):
            consensus = asked.get("consensus", {})
            if "s" not in consensus:
                wanted.note("questions without an agreed answer left out")
                continue
            first, end = (field(consensus, name, file, 1, int) for name in ("s", "e"))
            span = text[first:end]
            start = first + len(span) - len(span.lstrip())
            span = span.strip()
            if not span:
                raise ValueError(f"{at(file, 1)}: question {number} of {name!r} has an empty answer.")
            id = f"{name}-{number}"
            question = field(asked, "q", file, 1, str).strip()
            examples.append(Question(question, text, (span,), (start,), wanted.language, id))
    return examples
