"""The runs of an entry (one for each arm, variant, budget and seed), and which of them are missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradaccord.core.did_you_mean import nearest
from gradaccord.reproduce.encoders import encoder_of
from gradaccord.reproduce.entry import Design, Entry, Plain, Size
from gradaccord.reproduce.merge import merged
from gradaccord.reproduce.records import RunRecord, folder_of, record_file


@dataclass(frozen=True)
class Planned:
    """One run that an entry asks for."""

    entry: str
    size: Size
    variant: str
    arm: str
    budget: str
    seed: int
    settings: Plain  # of the arm on the variant, without the seed
    base: Plain  # of the variant without any arm, from which budgets are computed

    @property
    def label(self) -> str:
        """Its name on a screen."""
        return f"{self.variant}, {self.arm}, {self.budget}, seed {self.seed}"

    @property
    def key(self) -> dict[str, Any]:
        """The fields that identify its record."""
        names = ("entry", "size", "variant", "arm", "budget", "seed", "settings")
        return {name: getattr(self, name) for name in names}

    def path(self, results: Path) -> Path:
        """The file of its record."""
        own = record_file(self.variant, self.arm, self.budget, self.seed)
        return folder_of(results, self.entry, self.size) / own

    def folder(self, out: Path) -> Path:
        """Its run folder; other settings have another one."""
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:8]
        return out / f"{self.size}-{self.variant}.{self.arm}.{self.budget}.s{self.seed}-{digest}"

    def record(self, results: Path) -> RunRecord | None:
        """Its record; None if there is none, or only one of other settings."""
        path = self.path(results)
        if not path.exists():
            return None
        found = RunRecord.read_file(path)
        return found if is_current(found, self.settings) else None


def is_current(record: RunRecord, settings: Mapping[str, Any]) -> bool:
    """Whether a record was made with these settings; in a record infinity is null."""
    plain = json.loads(json.dumps(settings), parse_constant=lambda _: None)
    return record.settings == dict(plain)


def plan(
    entry: Entry,
    size: Size = "small",
    *,
    seeds: int | None = None,
    budget: str | None = None,
    only: Collection[str] = (),
    variants: Collection[str] = (),
    replace: Plain | None = None,
) -> list[Planned]:
    """All runs, seed by seed, so that an experiment that is cut short still has whole seeds. Those of
    an entry with `records_of` are the other entry's: done once, recorded there.

    only, variants: the arms and variants to run; default: all. replace: overrides of every
    configuration, for trials.
    """
    design = entry.design(size)
    _check("arm", only, list(design.arms))
    _check("variant", variants, list(design.variants))
    _check("budget", [budget] if budget else [], list(design.budgets))
    return [
        Planned(
            entry.runs, size, variant, arm, chosen, seed,
            merged(design.content(variant, arm), replace or {}),
            merged(design.base(variant), replace or {}),
        )
        for seed in range(seeds or design.seeds)
        for variant in design.variants
        for chosen in design.budgets
        for arm in design.arms_at(chosen)
        if (not only or arm in only)
        and (not variants or variant in variants)
        and (budget is None or chosen == budget)
    ]  # fmt: skip


def missing(planned: Sequence[Planned], results: Path) -> list[Planned]:
    """The runs without a record of the current settings."""
    return [one for one in planned if one.record(results) is None]


def missing_inputs(design: Design, planned: Sequence[Planned], data: Path | None) -> str | None:
    """A sentence about the data files or the encoder that runs lack; None if all are there."""
    return missing_files(design.needs, design.publisher, data) or missing_encoder(planned)


def missing_encoder(planned: Sequence[Planned]) -> str | None:
    """A sentence about an encoder pretrained here that is not there, with the command that makes it."""
    for one in planned:
        model = encoder_of(one.settings)
        if model is not None and not model.is_dir():
            return (
                f"The encoder {model} is needed, and is not in this folder: "
                f"`gradaccord pretrain {model.parent.name} --data DIR` makes it."
            )
    return None


def missing_files(needs: Sequence[str], publisher: Mapping[str, str], data: Path | None) -> str | None:
    """A sentence about the data files that are not there and who publishes them; None if all are."""
    absent = [name for name in needs if data is None or not _exists(data / name)]
    if not absent:
        return None
    shown = []
    for name in absent:
        fitting = [key for key in publisher if name == key or name.startswith(key.rstrip("/") + "/")]
        source = publisher[max(fitting, key=len)] if fitting else None
        shown.append(f"{name} ({source})" if source else name)
    where = "no --data folder was given" if data is None else f"{data} lacks them"
    return f"These data files are needed, and {where}: {'; '.join(shown)}."


def _exists(path: Path) -> bool:
    """Whether a file exists, plain or gzipped."""
    return path.exists() or path.with_name(path.name + ".gz").exists()


def _check(what: str, given: Collection[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"There is no {what} {name!r}: {nearest(name, known)}")
