"""Which texts of the forgetting probe the run was trained on, as far as names tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gradaccord.report.read_runs import Material

SEEN, UNSEEN = "seen", "unseen"


@dataclass(frozen=True)
class SeenTexts:
    """Every text's mark: "seen", "unseen", or "" where its name does not tell."""

    marks: dict[str, str]

    def groups(self) -> Iterator[tuple[str, list[str]]]:
        """What is drawn together: all seen texts, all unseen ones, each other text by itself."""
        for mark in (SEEN, UNSEEN):
            texts = [text for text, own in self.marks.items() if own == mark]
            if texts:
                yield f"texts {mark} in training ({', '.join(texts)})", texts
        for text, mark in self.marks.items():
            if not mark:
                yield text, [text]


def seen_texts(material: Material) -> SeenTexts:
    """By the text's name: that of a trained task or not, or with the word seen or unseen in it."""
    names = dict.fromkeys(
        text
        for run in material.runs
        for record in run.evaluations
        for text in record.get("masked_lm") or {}
    )
    first = material.runs[0]
    judged = set(first.results["metrics"]) - set(first.trained)
    return SeenTexts({name: _mark(name, set(first.trained), judged) for name in names})


def _mark(name: str, trained: set[str], judged: set[str]) -> str:
    words = re.split(r"[^a-z]+", name.lower())
    if UNSEEN in words or name in judged:
        return UNSEEN
    if SEEN in words or name in trained:
        return SEEN
    return ""
