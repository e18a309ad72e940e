"""The best spans of all windows: equal to brute force; the odds of no answer."""

from __future__ import annotations

import pytest
import torch
from kinds_support import tokens as minilm_tokens
from qa_support import asked

from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Question
from gradaccord.tasks.kinds.question_answering import QuestionAnswering
from gradaccord.tasks.qa.spans import best_spans, ranked


def numbered(count: int, answer: str) -> Question:
    return asked("which word ?", " ".join(f"word{i} ," for i in range(count)) + " end", answer)


def rows_that_say(encoded: Encoded, spans: dict[int, tuple[int, int, float]]) -> torch.Tensor:
    """Logits that give a span of a row a score, and all else nothing."""
    width = int(encoded.lengths.max())
    logits = torch.zeros(len(encoded), width, 2)
    for row, (start, end, score) in spans.items():
        logits[row, start, 0] = logits[row, end, 1] = score / 2
    return logits


def test_best_spans_equal_brute_force() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 23, 2, generator=generator, dtype=torch.float64)
    context = torch.tensor([[3, 22], [8, 23], [5, 9], [4, 5], [23, 23]])
    for row, spans in enumerate(best_spans(logits, context, 6, 7)):
        first, after = context[row].tolist()
        every = sorted(
            (
                (float(logits[row, i, 0] + logits[row, j, 1]), i, j)
                for i in range(first, after)
                for j in range(i, min(i + 6, after))
            ),
            reverse=True,
        )[:7]
        count = len(every)
        assert spans.starts[:count].tolist() == [i for _, i, _ in every]
        assert spans.ends[:count].tolist() == [j for _, _, j in every]
        torch.testing.assert_close(
            spans.scores[:count].double(), torch.tensor([s for s, _, _ in every], dtype=torch.float64),
            atol=1e-5, rtol=0,
        )  # fmt: skip
        assert spans.scores[count:].eq(-torch.inf).all()


def test_null_odds_and_threshold() -> None:
    examples = [asked("where ?", "It is in Paris , France", "Paris"), Question("who ?", "Nobody knows")]
    task = QuestionAnswering(unanswerable=True, null_threshold=0.5)
    encoded = task.encode(examples, minilm_tokens())
    assert encoded.columns["start"].tolist()[1] == 0
    gold = int(encoded.columns["start"][0]), int(encoded.columns["end"][0])
    for null, answer in ((6.5, "Paris"), (6.6, "")):
        logits = rows_that_say(encoded, {0: (*gold, 6.0)})
        logits[0, 0] = null / 2
        rows = best_spans(logits, encoded.columns["context"], 30, 20)
        predicted = task.decode(examples, encoded, rows)[0]
        assert predicted["best_answer"] == "Paris"
        assert predicted["null_odds"] == pytest.approx(null - 6)
        assert predicted["answer"] == answer


def test_the_lowest_null_score_of_the_windows_counts() -> None:
    example = numbered(200, "word199")
    task = QuestionAnswering(max_length=48, stride=12, unanswerable=True)
    encoded = task.encode([example], minilm_tokens())
    logits = torch.zeros(len(encoded), 48, 2)
    logits[:, 0] = 4.0
    logits[2, 0] = -1.0
    rows = best_spans(logits, encoded.columns["context"], 30, 5)
    assert ranked([example], encoded, rows, 1)[1] == [-2.0]
