"""Extractive question answering: SQuAD, XQuAD, MLQA, TyDiQA, NewsQA, Quasar-T and the RobustQA sets."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

from gradaccord.data.files import squad
from gradaccord.data.files.layouts import Layout, PublishedSet
from gradaccord.data.text import mrqa, newsqa, quasar

TYDIQA: Mapping[str, str] = {
    "arabic": "ar", "bengali": "bn", "english": "en", "finnish": "fi", "indonesian": "id",
    "korean": "ko", "russian": "ru", "swahili": "sw", "telugu": "te",
}  # fmt: skip
MLQA = ("ar", "de", "en", "es", "hi", "vi", "zh")
_IN_ONE = squad.read_language(TYDIQA)
_JSON = (squad.read, squad.count)


def _set(
    name: str, *layouts: Layout, options: Mapping[str, Any] | None = None, **more: Any
) -> PublishedSet:
    # Every set names its rules of scoring, and keeps them when another set's head is tested on it.
    own = {"unanswerable": False, "normalise": "squad", **(options or {})}
    return PublishedSet(name, "question_answering", layouts, options=own, **more)


def _robustqa(name: str, published: str, *layouts: Layout) -> PublishedSet:
    file = name.replace("-", "_")
    return _set(
        name,
        *layouts,
        Layout(rf"(?:in|oo)domain_(?P<split>train|val)_{file}\.json", *_JSON),
        Layout(rf"(?:in|oo)domain_(?P<split>train|val|test)/{file}", *_JSON),
        Layout(rf"(?P<split>train|dev|test)/{published}\.jsonl", mrqa.read),
        Layout(rf"{published}\.jsonl", mrqa.read, split="dev"),
    )


SETS = (
    _set(
        "squad1",
        Layout(r"(?P<split>train|dev)-v1\.1\.json", *_JSON),
        # No train file: the halves of the official dev set share no article.
        Layout(
            r"squad_v1\.1_dev_(?P<split>half_[ab])\.json",
            *_JSON,
            names={"half_a": "train", "half_b": "dev"},
        ),
        aliases=("squad", "squad1.1", "squad-v1"),
    ),
    # 11 of the official train articles, and the whole official dev set.
    _set(
        "squad1-articles",
        Layout(r"squad_v1\.1_(?P<split>train)_11_articles\.json", *_JSON),
        Layout(r"squad_v1\.1_dev_half_[ab]\.json", *_JSON, split="dev", many=True),
    ),
    _set(
        "squad2",
        Layout(r"(?P<split>train|dev)-v2\.0\.json", *_JSON),
        Layout(r"squad_v2\.0_dev_cs224n\.json", *_JSON, split="dev"),
        aliases=("squad2.0", "squad-v2"),
        options={"unanswerable": True},
    ),
    _set(
        "xquad",
        Layout(r"xquad\.(?P<language>[a-z]{2})\.json", *_JSON, split="test"),
        languages=True,
    ),
    _set(
        "mlqa",
        Layout(
            r"(?P<split>dev|test)-context-(?P<language>[a-z]{2})-question-(?P=language)\.json", *_JSON
        ),
        # A question in another language than its context: "mlqa/de-en" has German contexts.
        Layout(
            r"(?P<split>dev|test)-context-(?P<language>(?P<own>[a-z]{2})-question-(?!(?P=own))[a-z]{2})"
            r"\.json",
            *_JSON,
            codes={f"{a}-question-{b}": f"{a}-{b}" for a, b in permutations(MLQA, 2)},
        ),
        languages=True,
        options={"normalise": "mlqa"},
    ),
    _set(
        "tydiqa",
        Layout(r"tydiqa\.goldp\.(?P<language>[a-z]{2})\.(?P<split>train|dev)\.json", *_JSON),
        Layout(
            rf"tydiqa-goldp-(?:v1\.\d-)?(?P<split>train|dev)-(?P<language>{'|'.join(TYDIQA)})\.json",
            *_JSON,
            codes=TYDIQA,
        ),
        Layout(
            r"tydiqa-goldp-v1\.\d-(?P<split>train|dev)\.json",
            _IN_ONE,
            inside_languages=tuple(TYDIQA.values()),
        ),
        languages=True,
        # Swahili's answers often end within a token: 97.6 % are spans of the tokenizer's own.
        options={"split": "fine"},
        aliases=("tydiqa-goldp", "tydi"),
    ),
    _robustqa(
        "newsqa",
        "NewsQA",
        Layout(r"combined-newsqa-data-v1\.json", newsqa.read, inside_splits=("train", "dev", "test")),
    ),
    _robustqa("duorc", r"DuoRC(?:\.ParaphraseRC)?"),
    _robustqa("race", "RACE"),
    _robustqa("relation-extraction", "RelationExtraction"),
    _set(
        "quasar-t",
        Layout(r"(?P<split>train|dev|test)_questions\.json", quasar.read),
        aliases=("quasart", "quasar"),
    ),
)
