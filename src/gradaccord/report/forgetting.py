"""What the encoder forgets: masked-LM losses on texts of trained tasks and of others."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from gradaccord.compare.statistics import Mean
from gradaccord.report.data import ReportData
from gradaccord.report.run_figures import over_evaluations
from gradaccord.report.section import Figure, Table, mean_cell, named
from gradaccord.runs.results import EvaluationRecord

SEEN, UNSEEN = "seen", "unseen"  # in training


def forgetting_table(data: ReportData) -> Table | None:
    """Masked-LM losses at the last evaluation; None if they were not measured."""
    texts = probed_texts(data)
    if not texts:
        return None
    rows = []
    for name, runs in data.methods.items():
        last = [(run.evaluations[-1].masked_lm or {}) if run.evaluations else {} for run in runs]
        means = [Mean.of(losses.get(text, math.nan) for losses in last) for text in texts]
        rows.append([named(data.names[name]), *(mean_cell(mean, 3) for mean in means)])
    headings = [f"{text} ({mark})" if mark else text for text, mark in texts.items()]
    return Table(
        "forgetting",
        "Masked-LM loss at the end",
        ["method", *headings],
        rows,
        "Mean ± standard error over seeds; higher: more forgotten.",
    )


def forgetting_figures(data: ReportData) -> list[Figure]:
    """Masked-LM losses over training: trained texts together, untrained ones, each other by itself."""
    return [
        over_evaluations(
            data,
            f"forgetting-{title}",
            f"Masked-LM loss: {title}",
            partial(_mean_loss, texts),
            "masked-LM loss",
            "The pretrained masked-LM head on the fine-tuned encoder: higher is more forgotten. "
            f"{data.band}",
        )
        for title, texts in _groups(probed_texts(data))
    ]


def probed_texts(data: ReportData) -> dict[str, str]:
    """Every text that was measured, and whether it was "seen" or "unseen" in training.

    By its name: that of a task, trained on or not, or with one of these words in it; else "".
    """
    names = dict.fromkeys(
        text for run in data.runs for record in run.evaluations for text in record.masked_lm or {}
    )
    first = data.runs[0].results
    trained = set(first.trained)
    return {name: _mark(name, trained, set(first.metrics) - trained) for name in names}


def _mark(name: str, trained: set[str], untrained: set[str]) -> str:
    words = re.split(r"[^a-z]+", name.lower())
    if UNSEEN in words or name in untrained:
        return UNSEEN
    return SEEN if SEEN in words or name in trained else ""


def _groups(marks: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    for mark in (SEEN, UNSEEN):
        texts = [text for text, own in marks.items() if own == mark]
        if texts:
            yield f"texts {mark} in training ({', '.join(texts)})", texts
    for text, mark in marks.items():
        if not mark:
            yield text, [text]


def _mean_loss(texts: Sequence[str], record: EvaluationRecord) -> float:
    losses = record.masked_lm or {}
    known = [v for v in map(losses.get, texts) if v is not None and math.isfinite(v)]
    return statistics.fmean(known) if known else math.nan
