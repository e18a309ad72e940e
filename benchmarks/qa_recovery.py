"""How many gold answers are spans of whole tokens, by data set and language, and the time it takes.

    python benchmarks/qa_recovery.py DATA [--tokenizer FOLDER] [--split fine]

DATA holds squad/, tydiqa_goldp/, xquad/ and mlqa_dev/ in SQuAD's JSON, gzipped.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path

import torch

from gradaccord.data.examples import Question
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks.kinds.question_answering import QuestionAnswering
from gradaccord.tasks.qa.spans import best_spans
from gradaccord.tasks.qa.windows import has_answer, recovered


def read(path: Path) -> list[Question]:
    """The questions of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        data = json.load(file)["data"]
    return [
        Question(
            asked["question"],
            paragraph["context"],
            tuple(answer["text"] for answer in asked["answers"]),
            tuple(answer["answer_start"] for answer in asked["answers"]),
        )
        for article in data
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tokenizer", help="folder of a fast tokenizer; MiniLM's if not given")
    parser.add_argument("--split", default="tokenizer", choices=["tokenizer", "fine"])
    options = parser.parse_args()
    tokens = HuggingFaceTokens.load(options.tokenizer) if options.tokenizer else load_trunk("minilm")[1]
    task = QuestionAnswering(unanswerable=True, split=options.split)
    folders = ("squad", "tydiqa_goldp", "xquad", "mlqa_dev")
    print("| file | answers | windows | recovered % | encode s | decode s |")
    print("|---|---|---|---|---|---|")
    for path in sorted(p for folder in folders for p in (options.data / folder).glob("*.json.gz")):
        examples = read(path)
        count = sum(map(has_answer, examples))
        start = time.perf_counter()
        encoded = task.encode(examples, tokens)
        encoding = time.perf_counter() - start
        same = sum(
            text == example.answers[0].strip()
            for example, text in zip(examples, recovered(examples, encoded), strict=True)
            if has_answer(example)
        )
        start = time.perf_counter()
        rows = []
        for places in torch.arange(len(encoded)).split(32):
            logits = torch.randn(len(places), int(encoded.lengths[places].max()), 2)
            context = encoded.columns["context"][places]
            rows += best_spans(logits, context, task.max_answer_length, task.n_best)
        task.score(examples, task.decode(examples, encoded, rows))
        decoding = time.perf_counter() - start
        share = f"{100 * same / count:.2f}" if count else "not labelled"
        name = path.name.removesuffix(".json.gz")
        print(f"| {name} | {count} | {len(encoded)} | {share} | {encoding:.1f} | {decoding:.1f} |")


if __name__ == "__main__":
    main()
