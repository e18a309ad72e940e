"""Questions and tagged sentences that MiniLM learns by heart, whatever the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from kinds_support import minilm, tokens
from qa_support import asked, questions, sentences

from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Question, Tagged
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.tasks.evaluation import evaluate, predict
from gradaccord.tasks.kinds.question_answering import QuestionAnswering
from gradaccord.tasks.kinds.tagging import Tagging
from gradaccord.tasks.task import Task

NER = ("PER", "LOC", "ORG", "DATE")

MADE_QUESTIONS = [
    asked("Who wrote it ?", "Ada wrote the notes in London .", "Ada"),
    asked("Where was it written ?", "Ada wrote the notes in London .", "London"),
    asked("Who painted it ?", "In Paris , near the river , Berthe painted the cradle .", "Berthe"),
    asked(
        "What was painted ?", "In Paris , near the river , Berthe painted the cradle .", "the cradle"
    ),
]
MADE_SENTENCES = [
    Tagged(("Ada", "Lovelace", "lived", "in", "London", "."),
           ("B-PER", "I-PER", "O", "O", "B-LOC", "O"), "1"),
    Tagged(("The", "United", "Nations", "met", "in", "Nairobi"),
           ("O", "B-ORG", "I-ORG", "O", "O", "B-LOC"), "2"),
    Tagged(("Nothing", "happened"), ("O", "O"), "3"),
]  # fmt: skip


def short(examples: Sequence[Question], count: int) -> list[Question]:
    """Those with the shortest contexts, so that a step takes little; a question may have no answer."""
    return sorted(examples, key=lambda example: len(example.context))[:count]


def squad2() -> list[Question]:
    examples = questions("squad/squad_v2.0_dev_cs224n.json.gz")
    return short([e for e in examples if e.answers], 16) + short(
        [e for e in examples if not e.answers], 16
    )


def squad1() -> list[Question]:
    return short(questions("squad/squad_v1.1_dev_half_b.json.gz"), 32)


def tydiqa(language: str) -> list[Question]:
    return short(questions(f"tydiqa_goldp/tydiqa.goldp.{language}.train.json.gz", language), 32)


def entities(name: str) -> list[Tagged]:
    """The 32 shortest of the first with an entity, so that a step takes little."""
    found = [s for s in sentences(name, 300) if any(tag != "O" for tag in s.tags)]
    return sorted(found, key=lambda example: len(" ".join(example.words)))[:32]


SPANS = QuestionAnswering(split="fine")
CASES: dict[str, tuple[Task[Any], Callable[[], Sequence[Any]]]] = {
    "squad1": (QuestionAnswering(), squad1),
    "squad2": (QuestionAnswering(unanswerable=True), squad2),
    "tydiqa.sw": (SPANS, lambda: tydiqa("sw")),
    "tydiqa.en": (SPANS, lambda: tydiqa("en")),
    "masakhaner2.swa": (Tagging(NER), lambda: entities("ner/masakhaner2/swa/train.conll.gz")),
    "wikiann.en": (Tagging(NER[:3]), lambda: entities("ner/wikiann/en/train.conll.gz")),
    "made questions": (QuestionAnswering(), lambda: MADE_QUESTIONS),
    "made sentences": (Tagging(NER[:3]), lambda: MADE_SENTENCES),
}
EVERY = pytest.mark.parametrize(("task", "read"), CASES.values(), ids=CASES)


@EVERY
def test_learns_32_examples_by_heart(task: Task[Any], read: Callable[[], Sequence[Any]]) -> None:
    examples = read()
    model, encoded = learned(task, examples, passes=15)
    assert evaluate(model, "it", task, examples, encoded).scores[task.metric] >= 95


def learned(task: Task[Any], examples: Sequence[Any], passes: int) -> tuple[MultiTaskModel, Encoded]:
    """Three layers on frozen embeddings, without dropout: it is to be learned by heart, and soon."""
    trunk = minilm()
    trunk.model.encoder.layer = trunk.model.encoder.layer[:3]  # type: ignore[union-attr]
    model = MultiTaskModel(trunk, {"it": task.new_head(trunk)}).eval()
    encoded = task.encode(examples, tokens())
    layers = [p for name, p in trunk.named_parameters() if "embeddings" not in name]
    for name, parameter in trunk.named_parameters():
        parameter.requires_grad_("embeddings" not in name)
    head = {"params": list(model.heads.parameters()), "lr": 3e-3}
    optimizer = torch.optim.AdamW([{"params": layers}, head], 3e-4, weight_decay=0.0, fused=True)
    for _ in range(passes):
        highest = 0.0
        for rows in torch.randperm(len(encoded)).split(16):
            batch = encoded.batch(rows.tolist())
            loss = task.loss(model("it", batch), batch)[0]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            highest = max(highest, float(loss.detach()))
        if highest < 0.05:
            break
    return model, encoded


@pytest.mark.parametrize("kind", ["questions", "tags"])
def test_rows_and_loss_do_not_depend_on_batch_or_padding(kind: str) -> None:
    task: Task[Any] = QuestionAnswering(n_best=3) if kind == "questions" else Tagging(NER[:3])
    examples: Sequence[Any] = MADE_QUESTIONS if kind == "questions" else MADE_SENTENCES
    trunk = minilm()
    model = MultiTaskModel(trunk, {"it": task.new_head(trunk)}).eval()
    encoded = task.encode(examples, tokens())
    assert len(set(encoded.lengths.tolist())) > 1
    one = predict(model, "it", task, examples, encoded, batch_size=1)
    for size in (2, 64):
        other = predict(model, "it", task, examples, encoded, batch_size=size)
        assert one[0] == other[0]
        for a, b in zip(one[1], other[1], strict=True):
            torch.testing.assert_close(list(a), list(b), atol=1e-5, rtol=0)
    with torch.no_grad():
        parts = []
        for row in range(len(encoded)):
            batch = encoded.batch([row])
            parts.append(task.loss(model("it", batch), batch))
        whole, items = task.loss(model("it", b := encoded.batch(range(len(encoded)))), b)
    assert items == sum(count for _, count in parts)
    mean = sum(loss * count for loss, count in parts) / items
    torch.testing.assert_close(whole, torch.as_tensor(mean), atol=1e-5, rtol=0)


def test_loss_without_a_labelled_question_is_an_error() -> None:
    task = QuestionAnswering()
    batch = task.encode([Question("?", "unlabelled")], tokens()).batch([0])
    with pytest.raises(ValueError, match="No question of the batch is labelled"):
        task.loss(torch.zeros(*batch["input_ids"].shape, 2), batch)
