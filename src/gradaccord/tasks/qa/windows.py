"""Questions and long contexts as overlapping windows, with the place of the answer in each."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from gradaccord.data.encoded import IGNORED, Encoded, Ragged
from gradaccord.data.examples import Question
from gradaccord.models.tokens import Encoding, Tokens
from gradaccord.tasks.qa.word_breaks import Spaced, Split, fine_breaks, inside

_BLOCK = (
    1000  # examples tokenised at once: the tokenizer's own objects take 100 times a window's memory
)
_SPECIAL = 4  # tokens that a model puts around a pair, at most
_FIRST_MARK = 0x300  # no combining mark is below

NULL = 0  # the token that stands for "no answer here": the first, [CLS]


def encode_questions(
    examples: Sequence[Question],
    tokens: Tokens,
    *,
    max_length: int,
    stride: int,
    max_answer_length: int,
    unanswerable: bool,
    split: Split = "tokenizer",
) -> Encoded:
    """A row per window, with the columns `start`, `end` (tokens of the answer) and `context` (of where
    it may be: first token and the one after the last), and the characters of each token aside.

    A window that does not hold the whole answer points to the first token.
    """
    length = min(max_length, tokens.max_length)
    max_question = length // 3
    _check_room(length, stride, max_question)
    rows = _Rows()
    notes = Counter(
        dict.fromkeys(
            (
                "questions cut",
                "questions in several windows",
                "answers not recovered",
                "answers in no window",
                "answers not in the context",
                "answers longer than max_answer_length",
                "not labelled",
            ),
            0,
        )
    )
    for start in range(0, len(examples), _BLOCK):
        block = examples[start : start + _BLOCK]
        questions = _cut_questions(block, tokens, max_question, notes)
        cutting = _Cutting(tokens, length, stride)
        for place, (example, windows) in enumerate(
            zip(block, cutting.windows(questions, block, split), strict=True), start
        ):
            notes["questions in several windows"] += len(windows) > 1
            answer = gold_span(example)
            if not has_answer(example):
                nothing = NULL if unanswerable else IGNORED
                notes["not labelled"] += not unanswerable
                spans = [(nothing, nothing)] * len(windows)
            elif answer is None:
                notes["answers not in the context"] += 1
                spans = [(NULL, NULL)] * len(windows)
            else:
                spans = [window.locate(*answer) for window in windows]
                _count_answer(example, windows, spans, max_answer_length, notes)
            rows.add(place, windows, spans)
    return rows.encoded(tokens, notes)


def has_answer(example: Question) -> bool:
    """Whether a gold answer says anything at all."""
    return any(answer.strip() for answer in example.answers)


def gold_span(example: Question) -> tuple[int, int] | None:
    """The first answer's characters in the context; found by its text if the data do not say where."""
    if not has_answer(example):
        return None
    answer = example.answers[0]
    start = example.starts[0] if example.starts else example.context.find(answer)
    if start < 0 and len(example.context.lower()) == len(example.context):
        start = example.context.lower().find(answer.lower())
    start += len(answer) - len(answer.lstrip())
    return (start, start + len(answer.strip())) if start >= 0 and answer.strip() else None


@dataclass(frozen=True)
class _Window:
    """One sequence: its tokens, and the characters of the context that they cover."""

    ids: list[int]
    types: list[int]
    first: int  # token of the context
    starts: NDArray[np.int32]  # of the context's tokens, in characters
    ends: NDArray[np.int32]

    @classmethod
    def of(cls, encoding: Encoding, context: str, spaced: Spaced | None = None) -> _Window:
        ids, sequence = encoding.ids, encoding.sequence_ids
        if 1 not in sequence:
            nothing = np.zeros(0, np.int32)
            return cls(ids, encoding.type_ids, len(ids), nothing, nothing)
        first = sequence.index(1)
        last = len(sequence) - sequence[::-1].index(1)
        offsets = np.array(encoding.offsets[first:last], dtype=np.int32)
        starts, ends = offsets[:, 0].copy(), offsets[:, 1].copy()
        if spaced is not None:
            starts, ends = spaced.original(starts), spaced.original(ends)
        _take_marks(context, starts, ends)
        return cls(ids, encoding.type_ids, first, starts, ends)

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """The tokens that cover the characters start : end, or the null token if some are not here."""
        if not len(self.starts) or start < self.starts[0] or end > self.ends[-1]:
            return NULL, NULL
        begin = int(np.searchsorted(self.ends, start, "right"))
        stop = int(np.searchsorted(self.starts, end, "left")) - 1
        return (self.first + begin, self.first + stop) if begin <= stop else (NULL, NULL)

    def unknown_words(self, unknown: int | None) -> list[tuple[int, int]]:
        """The characters of each unknown token of the context that has more than one."""
        if unknown is None or unknown not in self.ids:
            return []
        words = zip(self.ids[self.first :], self.starts.tolist(), self.ends.tolist(), strict=False)
        return [(start, end) for id, start, end in words if id == unknown and end - start > 1]

    def characters(self, span: tuple[int, int]) -> tuple[int, int]:
        """What a span of tokens covers."""
        begin, stop = span
        return int(self.starts[begin - self.first]), int(self.ends[stop - self.first])


@dataclass(frozen=True)
class _Cutting:
    """How contexts are cut into windows."""

    tokens: Tokens
    length: int
    stride: int

    def windows(
        self, questions: Sequence[str], examples: Sequence[Question], split: Split
    ) -> list[list[_Window]]:
        """The windows of each example; unknown words are tokenised again by their characters.

        An answer inside a word that the tokenizer does not know could not be pointed at otherwise.
        """
        contexts = [example.context for example in examples]
        breaks: dict[str, list[int]] = {}
        if split == "fine":
            breaks = {context: fine_breaks(context) for context in set(contexts)}
        spaced = [Spaced.of(c, breaks[c]) if breaks.get(c) else None for c in contexts]
        windows = self._encode(questions, contexts, spaced)
        unknown = getattr(self.tokens, "unknown", None)
        again = [i for i, parts in enumerate(windows) if any(w.unknown_words(unknown) for w in parts)]
        if again:
            for i in again:
                more = inside(span for w in windows[i] for span in w.unknown_words(unknown))
                spaced[i] = Spaced.of(contexts[i], [*breaks.get(contexts[i], ()), *more])
            renewed = self._encode(
                [questions[i] for i in again],
                [contexts[i] for i in again],
                [spaced[i] for i in again],
            )
            for i, parts in zip(again, renewed, strict=True):
                windows[i] = parts
        return windows

    def _encode(
        self, questions: Sequence[str], contexts: Sequence[str], spaced: Sequence[Spaced | None]
    ) -> list[list[_Window]]:
        encodings = self.tokens.encode(
            questions,
            [c if s is None else s.text for c, s in zip(contexts, spaced, strict=True)],
            max_length=self.length,
            truncation="only_second",
            stride=self.stride,
        )
        return [
            [_Window.of(part, context, breaks) for part in (encoding, *encoding.overflowing)]
            for encoding, context, breaks in zip(encodings, contexts, spaced, strict=True)
        ]


def _take_marks(context: str, starts: NDArray[np.int32], ends: NDArray[np.int32]) -> None:
    """Let tokens end after the combining marks that follow them.

    A tokenizer that strips accents leaves vowel signs of Telugu or Bengali outside every token.
    """
    if context.isascii():
        return
    code = np.frombuffer(context.encode("utf-32-le"), np.uint32)
    nexts = np.append(starts[1:], len(context))
    gap = ends < nexts
    gap[gap] = code[ends[gap]] >= _FIRST_MARK
    for place in np.flatnonzero(gap):
        end, limit = int(ends[place]), int(nexts[place])
        while end < limit and _is_mark(context[end]):
            end += 1
        ends[place] = end


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")


@dataclass
class _Rows:
    """What grows with every window."""

    ids: list[int] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    example: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    context: list[tuple[int, int]] = field(default_factory=list)
    starts: list[NDArray[np.int32]] = field(default_factory=list)
    ends: list[NDArray[np.int32]] = field(default_factory=list)
    done: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def add(self, place: int, windows: Sequence[_Window], spans: Sequence[tuple[int, int]]) -> None:
        for window, span in zip(windows, spans, strict=True):
            self.ids += window.ids
            self.types += window.types
            self.lengths.append(len(window.ids))
            self.example.append(place)
            self.spans.append(span)
            self.context.append((window.first, window.first + len(window.starts)))
            self.starts.append(window.starts)
            self.ends.append(window.ends)
        if len(self.ids) > 1_000_000:
            self._pack()

    def _pack(self) -> None:
        """Lists of numbers take eight times a tensor's memory."""
        self.done.append(
            (
                torch.tensor(self.ids, dtype=torch.int32, device="cpu"),
                torch.tensor(self.types, dtype=torch.int32, device="cpu"),
            )
        )
        self.ids, self.types = [], []

    def encoded(self, tokens: Tokens, notes: Counter[str]) -> Encoded:
        self._pack()
        bounds = torch.tensor([0, *self.lengths], device="cpu").cumsum(0)
        spans = torch.tensor(self.spans, dtype=torch.int64, device="cpu").view(-1, 2)
        ids, types = (torch.cat(parts) for parts in zip(*self.done, strict=True))
        return Encoded(
            ids=Ragged(ids, bounds),
            types=Ragged(types, bounds) if tokens.has_types else None,
            first=torch.arange(len(self.lengths) + 1, device="cpu"),
            example=torch.tensor(self.example, dtype=torch.int64, device="cpu"),
            columns={
                "start": spans[:, 0].contiguous(),
                "end": spans[:, 1].contiguous(),
                "context": torch.tensor(self.context, dtype=torch.int64, device="cpu").view(-1, 2),
            },
            aside={"from": _ragged(self.starts), "to": _ragged(self.ends)},
            notes=dict(notes),
            pad=tokens.pad,
        )


def _ragged(arrays: Sequence[NDArray[np.int32]]) -> Ragged:
    bounds = torch.tensor([0, *map(len, arrays)], device="cpu").cumsum(0)
    flat = np.concatenate(arrays) if arrays else np.zeros(0, np.int32)
    return Ragged(torch.from_numpy(flat), bounds)


def _check_room(length: int, stride: int, max_question: int) -> None:
    room = length - max_question - _SPECIAL
    if room <= stride:
        raise ValueError(
            f"`stride` is {stride}, and sequences of {length} tokens leave {max(room, 0)} for the "
            f"context beside a question of {max_question}: lower `stride` below that, or raise "
            "`max_length` as far as the model goes."
        )


def _cut_questions(
    examples: Sequence[Question], tokens: Tokens, limit: int, notes: Counter[str]
) -> list[str]:
    """The first `limit` tokens' text of each question; the context would have no room beside more."""
    questions = [example.question for example in examples]
    encodings = tokens.encode(questions, max_length=limit + _SPECIAL // 2)
    for place, encoding in enumerate(encodings):
        if encoding.overflowing:
            questions[place] = questions[place][: max(end for _, end in encoding.offsets)]
            notes["questions cut"] += 1
    return questions


def _count_answer(
    example: Question,
    windows: Sequence[_Window],
    spans: Sequence[tuple[int, int]],
    max_answer_length: int,
    notes: Counter[str],
) -> None:
    found = [(w, s) for w, s in zip(windows, spans, strict=True) if s != (NULL, NULL)]
    if not found:
        notes["answers in no window"] += 1
        return
    window, span = found[0]
    start, end = window.characters(span)
    if example.context[start:end].strip() != example.answers[0].strip():
        notes["answers not recovered"] += 1
    if span[1] - span[0] >= max_answer_length:
        notes["answers longer than max_answer_length"] += 1
