"""Encoders pretrained here that entries start from: their records, and their section of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from gradaccord.pretrain.results import Losses, PretrainResults
from gradaccord.reproduce.records import origin
from gradaccord.runs.escape import table_head, table_row
from gradaccord.runs.files import MODEL
from gradaccord.runs.versioned import Versioned

RUNS = "runs"  # where `gradaccord pretrain` leaves its encoders, below the current folder
RECORDS = "pretraining"  # the folder of their records, below that of the results


class EncoderRecord(Versioned):
    """How an encoder was pretrained, and its held-out losses at the end."""

    FILE: ClassVar[str] = "record.json"  # each has its own name

    name: str
    finished: str
    commit: str | None
    versions: dict[str, str]
    architecture: str
    weights: int
    pieces: int
    seed: int
    steps: int
    tokens: int
    hours: float  # of training steps, by the clock
    texts: dict[str, int]
    left_out: dict[str, int]
    unigrams: Losses
    held_out: Losses
    curve: list[tuple[int, float]]  # step, mean held-out loss over languages

    @classmethod
    def of(cls, folder: Path) -> EncoderRecord:
        """The record of the finished run in a folder."""
        found = PretrainResults.read(folder)
        kept = (
            "finished",
            "weights",
            "pieces",
            "seed",
            "steps",
            "tokens",
            "texts",
            "left_out",
            "unigrams",
        )
        return cls(
            name=folder.name,
            **origin(folder),
            **found.model_dump(include=set(kept)),
            architecture=found.model,
            hours=round(found.seconds / 3600, 3),
            held_out=found.last.held_out,
            curve=[(one.step, one.mean) for one in found.evaluations],
        )


def encoder_of(settings: Mapping[str, Any]) -> Path | None:
    """The folder of the encoder pretrained here that a configuration starts from, if it names one."""
    model = settings.get("model")
    name = model.get("name") if isinstance(model, Mapping) else model
    if not isinstance(name, str):
        return None
    parts = Path(name).parts
    return Path(name) if len(parts) == 3 and (parts[0], parts[2]) == (RUNS, MODEL) else None


def record_encoders(all_settings: Iterable[Mapping[str, Any]], results: Path) -> None:
    """Write the record of every encoder that these configurations start from."""
    for model in {encoder_of(settings) for settings in all_settings} - {None}:
        if model is not None and PretrainResults.exists(model.parent):
            (results / RECORDS).mkdir(parents=True, exist_ok=True)
            EncoderRecord.of(model.parent).write_file(results / RECORDS / f"{model.parent.name}.json")


def encoders_section(results: Path) -> Iterator[str]:
    """The recorded encoders in Markdown: how each was made, and its loss by language."""
    paths = sorted((results / RECORDS).glob("*.json"))
    if not paths:
        return
    yield from ("## Pretrained encoders", "")
    for path in paths:
        found = EncoderRecord.read_file(path)
        beaten = [name for name, loss in found.held_out.items() if loss < found.unigrams[name]]
        yield (
            f"`gradaccord pretrain {found.name} --data DIR`: {found.architecture}, "
            f"{found.weights / 1e6:.1f} M weights, {found.pieces:,} pieces, {found.steps:,} steps, "
            f"{found.tokens / 1e6:.1f} M tokens, {found.hours:.2f} hours, seed {found.seed}, commit "
            f"{(found.commit or 'unknown')[:10]}. Texts of test sets that were left out: "
            f"{sum(found.left_out.values()):,}. Loss in nats per masked token of held-out text, beside "
            f"that of token frequencies; lower in {len(beaten)} of {len(found.held_out)} languages."
        )
        yield ""
        yield from table_head("language", "texts", "held-out loss", "unigrams")
        for language, loss in found.held_out.items():
            texts, unigrams = found.texts[language], found.unigrams[language]
            yield table_row((language, f"{texts:,}", f"{loss:.2f}", f"{unigrams:.2f}"))
        means = fmean(found.held_out.values()), fmean(found.unigrams.values())
        yield table_row(("mean", f"{sum(found.texts.values()):,}", *(f"{mean:.2f}" for mean in means)))
        yield ""
