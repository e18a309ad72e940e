"""Plain texts in three scripts to pretrain on, and a configuration of a run that takes seconds."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from gradaccord.pretrain.config import PretrainConfig

# Subjects, then verbs with the objects that each may have: the object can be told from its verb.
WORDS = {
    "de": (
        ("der Hund", "die Frau", "ein Kind", "mein Bruder", "unser Lehrer", "der Bauer"),
        {"liest": "das Buch,den Brief,die Zeitung", "isst": "den Apfel,das Brot,die Suppe",
         "baut": "ein Haus,die Brücke,einen Turm", "trinkt": "den Tee,das Wasser,die Milch"},
        ("am Morgen", "im Garten", "heute", "am Fluss", "jeden Tag"),
    ),
    "ru": (
        ("мальчик", "учитель", "моя сестра", "старый врач", "наш сосед", "рыбак"),
        {"читает": "книгу,письмо,газету", "ест": "яблоко,хлеб,суп",
         "строит": "дом,мост,башню", "пьёт": "чай,воду,молоко"},
        ("утром", "в саду", "сегодня", "у реки", "каждый день"),
    ),
    "hi": (
        ("लड़का", "अध्यापक", "मेरी बहन", "बूढ़ा किसान", "पड़ोसी", "मछुआरा"),
        {"पढ़ता है": "किताब,चिट्ठी,अखबार", "खाता है": "सेब,रोटी,दाल",
         "बनाता है": "घर,पुल,मीनार", "पीता है": "चाय,पानी,दूध"},
        ("सुबह", "बगीचे में", "आज", "नदी पर", "हर दिन"),
    ),
}  # fmt: skip
COUNTS = {"de": 300, "ru": 120, "hi": 60}

MODEL = {
    "name": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 64, "max_position_embeddings": 64,
}  # fmt: skip


def sentences(language: str) -> list[str]:
    """All that can be said, in random order."""
    subjects, verbs, ends = WORDS[language]
    said = [
        f"{subject} {verb} {thing} {end}."
        for subject, (verb, things), end in itertools.product(subjects, verbs.items(), ends)
        for thing in things.split(",")
    ]
    random.Random(0).shuffle(said)
    return said


def write_texts(folder: Path, counts: Mapping[str, int] = COUNTS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for language, count in counts.items():
        (folder / f"{language}.txt").write_text("\n".join(sentences(language)[:count]), "utf-8")
    return folder


def content(texts: object, train: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A configuration as plain values."""
    given = {
        "steps": 8, "batch_size": 8, "lr": 1e-2, "evaluate_every": 4, "save_every": 3, "threads": 1,
    }  # fmt: skip
    return {
        "model": MODEL,
        "tokenizer": {"kind": "wordpiece", "size": 260, "coverage": 1.0},
        "texts": texts,
        "held_out": 0.1,
        "length": 32,
        "train": {**given, **(train or {})},
        **changes,
    }


def configured(texts: object, **changes: Any) -> PretrainConfig:
    plain = content([str(texts)] if isinstance(texts, Path) else texts, **changes)
    return PretrainConfig.model_validate(plain)


def started(*words: object, **options: Any) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "gradaccord", "pretrain", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, **options,
    )  # fmt: skip


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


def same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def logged(folder: Path) -> list[dict[str, Any]]:
    """The log, but for the seconds."""
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]
