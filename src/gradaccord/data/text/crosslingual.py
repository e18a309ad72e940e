"""XNLI (Conneau et al. 2018) and XCOPA (Ponti et al. 2020): one English set in many languages."""

from __future__ import annotations

from dataclasses import replace

from gradaccord.data.files.layouts import PublishedSet
from gradaccord.data.text.glue import NLI
from gradaccord.data.text.superglue import COPA
from gradaccord.data.text.tsv import Tsv

XNLI = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
# The machine-translated train files write one class otherwise.
SPELLINGS = {"contradictory": "contradiction"}

PLAIN = Tsv(0, 1, 2, id=None, header=False, spellings=SPELLINGS)
TRANSLATED = replace(PLAIN, header=True)
ALL_LANGUAGES = Tsv("sentence1", "sentence2", "gold_label", id=None, language="language")

SETS = (
    PublishedSet(
        "xnli",
        "classification",
        (
            PLAIN.layout(r"xnli/(?P<split>train|dev|test)-(?P<language>[a-z]{2})\.tsv"),
            ALL_LANGUAGES.layout(r"xnli\.(?P<split>dev|test)\.tsv", inside_languages=XNLI),
            TRANSLATED.layout(r"multinli\.(?P<split>train)\.(?P<language>[a-z]{2})\.tsv"),
        ),
        NLI,
        languages=True,
        options={"pair": "cross"},
    ),
    PublishedSet(
        "xcopa",
        "multiple_choice",
        (COPA.layout(r"(?P<split>val|test)\.(?P<language>[a-z]{2})\.jsonl"),),
        languages=True,
    ),
)
