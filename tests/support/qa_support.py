"""Real questions and tagged sentences, straight from the shared files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gradaccord.data.examples import Question, Tagged

SHARED = (Path(__file__).resolve().parents[2] / ".." / "shared" / "data").resolve()


def opened(name: str) -> str:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"the shared data file {name} is not here")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read()


def questions(name: str, language: str = "en", limit: int | None = None) -> list[Question]:
    """Of a file in SQuAD's layout."""
    found = []
    for article in json.loads(opened(name))["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                found.append(
                    Question(
                        asked["question"],
                        paragraph["context"],
                        tuple(answer["text"] for answer in asked["answers"]),
                        tuple(answer["answer_start"] for answer in asked["answers"]),
                        language,
                        str(asked["id"]),
                    )
                )
    return found[:limit]


def sentences(name: str, limit: int | None = None) -> list[Tagged]:
    """Of a file with a word and a tag on every line."""
    found = []
    for place, block in enumerate(opened(name).strip().split("\n\n")[:limit]):
        rows = [line.split("\t") for line in block.split("\n") if line]
        found.append(Tagged(tuple(r[0] for r in rows), tuple(r[-1] for r in rows), str(place)))
    return found


def asked(question: str, context: str, *answers: str, language: str = "en", id: str = "q") -> Question:
    """A question with its answers where they stand first."""
    starts = tuple(context.index(answer) for answer in answers)
    return Question(question, context, answers, starts, language, id)


FILES = {
    "squad1": ("squad/squad_v1.1_dev_half_a.json.gz", "en"),
    "squad2": ("squad/squad_v2.0_dev_cs224n.json.gz", "en"),
    "tydiqa.en": ("tydiqa_goldp/tydiqa.goldp.en.train.json.gz", "en"),
    "tydiqa.ko": ("tydiqa_goldp/tydiqa.goldp.ko.train.json.gz", "ko"),
    "tydiqa.sw": ("tydiqa_goldp/tydiqa.goldp.sw.train.json.gz", "sw"),
    "xquad.ar": ("xquad/xquad.ar.json.gz", "ar"),
    "xquad.hi": ("xquad/xquad.hi.json.gz", "hi"),
    "xquad.th": ("xquad/xquad.th.json.gz", "th"),
    "xquad.zh": ("xquad/xquad.zh.json.gz", "zh"),
}


def sample(name: str) -> list[Question]:
    """Some 500 labelled questions from all over the file; benchmarks/qa_recovery.py takes them all."""
    examples = [example for example in questions(*FILES[name]) if example.answers]
    return examples[:: max(len(examples) // 500, 1)]
