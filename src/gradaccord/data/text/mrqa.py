"""The JSON lines of MRQA 2019 (Fisch et al. 2019): one context with its questions per line."""

from __future__ import annotations

from gradaccord.data.examples import Question
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.text_files import File, at, field


def read(file: File, wanted: Wanted) -> list[Question]:
    """All questions; answers are the spans detected in the context, their ends inclusive."""
    examples = []
    for line, row in file.json_lines():
        if "header" in row:
            continue
        context = field(row, "context", file, line, str)
        for asked in field(row, "qas", file, line, list):
            spans = [
                (int(start), int(end) + 1)
                for answer in asked.get("detected_answers", ())
                for start, end in field(answer, "char_spans", file, line, list)
            ]
            id = str(field(asked, "qid", file, line))
            for start, end in spans:
                if not 0 <= start < end <= len(context):
                    raise ValueError(
                        f"{at(file, line)}: an answer of question {id!r} is at characters {start} "
                        f"to {end} of a context of {len(context)}."
                    )
            examples.append(
                Question(
                    field(asked, "question", file, line, str).strip(),
                    context,
                    tuple(context[start:end] for start, end in spans),
                    tuple(start for start, _ in spans),
                    wanted.language,
                    id,
                )
            )
    return examples
