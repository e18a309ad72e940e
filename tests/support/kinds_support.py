"""Real examples of the kinds, straight from the shared files, and training that takes seconds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Candidate, Choices, Cloze, Coreference, Text, WordPair
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks import (
    EntityCloze,
    MultiAnswer,
    MultipleChoice,
    PronounResolution,
    Regression,
    Task,
    WordInContext,
)

SHARED = (Path(__file__).resolve().parents[2] / ".." / "shared" / "data").resolve()


def lines(name: str) -> list[str]:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"the shared data file {name} is not here")
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return file.read().splitlines()


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(name)]


@lru_cache(maxsize=1)
def tokens() -> Tokens:
    return load_trunk("minilm")[1]


def minilm(pooling: Any = "mean") -> Trunk:
    torch.manual_seed(0)
    return load_trunk("minilm", pooling)[0]


def overfit(
    task: Task[Any],
    examples: Sequence[Any],
    *,
    until: float,
    pooling: Any = "mean",
    lr: float = 1e-4,
    passes: int = 20,
) -> tuple[MultiTaskModel, Encoded]:
    """Steps on batches of 8 until the metric on the examples themselves is reached.

    Without dropout and with the lower half frozen, since only what the kind adds is under test.
    """
    from gradaccord.tasks import evaluate

    trunk: Any = minilm(pooling)
    model = MultiTaskModel(trunk, {"it": task.new_head(trunk)}).eval()
    for part in (trunk.model.embeddings, trunk.model.encoder.layer[:3]):
        part.requires_grad_(False)
    encoded = task.encode(examples, tokens())
    learning = [p for p in trunk.parameters() if p.requires_grad]
    groups = [{"params": learning, "lr": lr}, {"params": model.heads.parameters(), "lr": 5 * lr}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
    for _ in range(passes):
        for rows in torch.randperm(len(encoded)).split(8):
            batch = encoded.batch(rows.tolist())
            loss, items = task.loss(model("it", batch), batch)
            assert items == len(rows)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if evaluate(model, "it", task, examples, encoded).scores[task.metric] >= until:
            break
    return model, encoded


@dataclass(frozen=True)
class Case:
    """A kind under test: its task, 32 real examples, a few made up ones, and a wrong prediction."""

    task: Task[Any]
    real: Callable[[], Sequence[Any]]
    made: Sequence[Any]
    wrong: Callable[[Any], Any]
    until: float = 99.9
    pooling: str = "mean"
    lr: float = 1e-4


def sts() -> list[Text]:
    rows = [line.split("\t") for line in lines("cs224n_minbert/sts-train.csv.gz")[1:33]]
    return [Text(row[2], row[3], float(row[4]), row[1]) for row in rows]


def copa() -> list[Choices]:
    return [choices(row) for row in records("superglue/COPA/train.jsonl.gz")[:32]]


def choices(row: dict[str, Any]) -> Choices:
    two = (row["choice1"], row["choice2"])
    return Choices(row["premise"], row["question"], two, row["label"], str(row["idx"]))


def multirc(limit: int = 32) -> list[Candidate]:
    found: list[Candidate] = []
    for row in records("superglue/MultiRC/train.jsonl.gz"):
        passage = row["passage"]
        for question in passage["questions"]:
            group = f"{row['idx']}-{question['idx']}"
            found += [
                Candidate(passage["text"], question["question"], a["text"], a["label"], group,
                          str(a["idx"])) for a in question["answers"]
            ]  # fmt: skip
        if len(found) >= limit:
            break
    return found[:limit]


def wic(limit: int = 32) -> list[WordPair]:
    return [
        WordPair(row["sentence1"], row["sentence2"], (row["start1"], row["end1"]),
                 (row["start2"], row["end2"]), int(row["label"]), str(row["idx"]))
        for row in records("superglue/WiC/train.jsonl.gz")[:limit]
    ]  # fmt: skip


def wsc(limit: int = 32) -> list[Coreference]:
    def span(text: str, word: int, mention: str) -> tuple[int, int]:
        start = len(" ".join(text.split(" ")[:word])) + (word > 0)
        place = text.lower().find(mention.lower(), start)
        return place, place + len(mention)

    found = []
    for row in records("superglue/WSC/train.jsonl.gz"):
        text, target = row["text"], row["target"]
        noun = span(text, target["span1_index"], target["span1_text"])
        pronoun = span(text, target["span2_index"], target["span2_text"])
        if noun[0] >= 0 and pronoun[0] >= 0:
            found.append(Coreference(text, noun, pronoun, int(row["label"]), str(row["idx"])))
    return found[:limit]


def clozes(limit: int = 32) -> list[Cloze]:
    """Sentences of WikiAnn with a gap at their first entity, to be filled by one of two or more."""
    found: list[Cloze] = []
    for block in "\n".join(lines("ner/wikiann/en/train.conll.gz")).split("\n\n"):
        pairs = [line.split("\t") for line in block.splitlines() if line]
        entities: list[list[str]] = []
        for word, tag in pairs:
            if tag.startswith("B-"):
                entities.append([word])
            elif tag.startswith("I-") and entities:
                entities[-1].append(word)
        names = [" ".join(entity) for entity in entities]
        sentence = " ".join(word for word, _ in pairs)
        if len(set(names)) >= 2 and sentence.count(names[0]) == 1 and len(pairs) < 16:
            query = sentence.replace(names[0], Cloze.PLACEHOLDER)
            found.append(Cloze(sentence, query, tuple(names), (names[0],), str(len(found))))
        if len(found) == limit:
            break
    return found


def _made_sts() -> list[Text]:
    things = ["cat", "plane", "house", "guitar", "river", "child", "old horse", "sliced red onion"]
    same = [Text(f"A {x} is here.", f"Here is a {x}.", 5.0, f"same {x}") for x in things]
    other = [Text(f"A {x} is here.", "Stocks fell on Monday.", 0.0, f"other {x}") for x in things]
    return same + other


def _made_choices() -> list[Choices]:
    rows = [
        ("It rained.", "effect", ("The street got wet.", "The street dried."), 0),
        ("The glass fell.", "effect", ("It grew.", "It broke."), 1),
        ("The man was tired.", "cause", ("He had worked all night.", "He had slept well."), 0),
        ("The dog barked.", "cause", ("It was asleep.", "It heard a stranger."), 1),
        ("What is red?", "", ("grass", "sky", "blood"), 2),  # three, and a question of its own
    ]
    return [Choices(*row, str(place)) for place, row in enumerate(rows)]


def _made_answers() -> list[Candidate]:
    facts = {"Ann": "Paris", "Ben": "Rome", "Cleo": "New York City", "Dan": "Lima"}
    found = []
    for who, where in facts.items():
        passage, question = f"{who} likes soup and lives in {where}.", f"Where does {who} live?"
        for answer, right in ((where, 1), (f"the city of {where}", 1), ("soup", 0), ("a spoon", 0)):
            found.append(Candidate(passage, question, answer, right, who, f"{who}-{answer}"))
    return found


def _made_words() -> list[WordPair]:
    money, river = "The bank lent us money.", "We sat on the bank of the river."
    deposit, swim = "My bank pays interest.", "The bank was muddy after the flood."
    texts = [(money, 0), (deposit, 0), (river, 1), (swim, 1)]

    def span(text: str) -> tuple[int, int]:
        start = text.find("bank")
        return start, start + 4

    return [
        WordPair(a, b, span(a), span(b), int(x == y), f"{i}-{j}")
        for i, (a, x) in enumerate(texts)
        for j, (b, y) in enumerate(texts)
        if i != j
    ]


def _made_mentions() -> list[Coreference]:
    found = []
    for man, woman in [("Tom", "Ann"), ("Ben", "Eve"), ("Jim", "Sue"), ("Max", "Amy")]:
        for pronoun, meant in [("he", man), ("she", woman)]:
            why = "was ill" if man < "K" else "had not been seen for days"
            text = f"{man} called {woman} because {pronoun} {why}."
            place = text.find(f" {pronoun} ") + 1
            for noun in (man, woman):
                start = text.find(noun)
                spans = (start, start + len(noun)), (place, place + len(pronoun))
                found.append(Coreference(text, *spans, int(noun == meant), f"{text} {noun}"))
    return found


def _made_clozes() -> list[Cloze]:
    facts = {"Ann": "Paris", "Ben": "Rome", "Cleo": "Oslo", "Dan": "New York City"}
    return [
        Cloze(
            f"{who} lives in {where}.",
            f"The city of {Cloze.PLACEHOLDER} is large.",
            (who, where, who),  # a name twice, as in ReCoRD
            (where,),
            who,
        )
        for who, where in facts.items()
    ]


def _other(truth: bool) -> bool:
    return not truth


CASES = {
    "regression": Case(Regression(), sts, _made_sts(), lambda truth: 2.5, 97.0),
    "multiple_choice": Case(MultipleChoice(), copa, _made_choices(), lambda truth: 1 - min(truth, 1)),
    "multi_answer": Case(
        MultiAnswer(max_length=80), multirc, _made_answers(), _other, pooling="cls", lr=3e-4
    ),
    "cloze": Case(EntityCloze(), partial(clozes, 32), _made_clozes(), lambda truth: "nobody"),
    "word_in_context": Case(WordInContext(), wic, _made_words(), _other),
    "coreference": Case(PronounResolution(), wsc, _made_mentions(), _other),
}
