"""Pretraining texts by language: reads them, leaves out texts of evaluation sets, holds some out."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data import registry
from gradaccord.data.examples import EXAMPLES
from gradaccord.data.files.own_files import read
from gradaccord.data.files.tensor_cache import cached, fingerprint
from gradaccord.data.files.text_files import files_under
from gradaccord.data.leakage import hashes_of, stable_hash, texts_and_sentences
from gradaccord.data.stored import Stored, stored
from gradaccord.pretrain.config import PretrainConfig

NONE = torch.empty(0, dtype=torch.int64)
LEFT_OUT = ("dev", "test")  # splits whose texts are not trained on
EVERY_SET = "all"


@dataclass(frozen=True)
class Texts:
    """The texts of one language. forbidden: hashes of texts that must not be used."""

    language: str
    parts: Sequence[Sequence[Any]]  # examples of some kind
    forbidden: torch.Tensor = field(default_factory=lambda: NONE)
    held_out: float = 0.01
    most: int = 500
    watch: Watch = NOBODY

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[str]:
        for part in self.parts:
            for example in part:
                text = getattr(example, "text", None) or example.leak_key
                yield " ".join(text.split())

    @cached_property
    def identity(self) -> str:
        """A hash that changes with the texts and with how they are split."""
        left_out = len(self.forbidden), int(self.forbidden.sum())
        how = (self.language, self.held_out, self.most, left_out)
        digest = blake2b(repr(how).encode(), digest_size=20)
        for part in self.parts:
            if isinstance(part, Stored):
                digest.update(part.identity.encode())
                continue
            digest.update(repr(part).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    @cached_property
    def roles(self) -> torch.Tensor:
        """The role of each text: 0 trained on, 1 held out, 2 left out.

        Those with the smallest hashes are held out, so that copies of a text have the same role.
        """
        counted = self.watch.each(f"splitting the texts of {self.language}", self, len(self))
        hashes = torch.tensor(array("q", map(stable_hash, counted)), device="cpu")
        roles = torch.zeros(len(hashes), dtype=torch.uint8, device="cpu")
        if len(self.forbidden):
            roles[torch.isin(hashes_of(self), self.forbidden)] = 2
        different: torch.Tensor = torch.unique(hashes[roles == 0])  # sorted
        if len(different) < 2:
            raise ValueError(
                f"The language {self.language!r} has {len(different)} different texts that may be "
                "trained on: give at least two, since one is held out, or leave the language out."
            )
        count = max(1, min(round(self.held_out * len(different)), self.most))
        roles[(hashes <= different[count - 1]) & (roles == 0)] = 1
        return roles

    def of_role(self, role: int) -> Iterator[str]:
        """The texts that are trained on (0) or held out (1)."""
        for text, own in zip(self, self.roles.tolist(), strict=True):
            if own == role:
                yield text


def load_texts(config: PretrainConfig, folder: Path | None, watch: Watch = NOBODY) -> list[Texts]:
    """Every language that a configuration names. folder: of the data sets, if not configured."""
    folder = config.data_folder or folder
    found: dict[str, list[Sequence[Any]]] = {}
    given = config.texts if isinstance(config.texts, dict) else {"": config.texts}
    for language, sources in given.items():
        for source in sources:
            for own, examples in _read(source, language, folder, config.encoding, watch).items():
                found.setdefault(own, []).append(examples)
    forbidden = _forbidden(config, folder, watch) if config.leave_out else NONE
    most = config.held_out_most
    return [
        Texts(language, parts, forbidden, config.held_out, most, watch)
        for language, parts in found.items()
    ]


def _read(
    source: str, language: str, folder: Path | None, encoding: str, watch: Watch
) -> Mapping[str, Sequence[Any]]:
    """The examples of a file, a folder or a set, by language."""
    path = Path(source)
    if path.is_dir() and not source.startswith(registry.HUB):
        there = files_under(path).items()
        files = [file for name, file in there if name.endswith(".txt") and not file.member]
        if not files:
            raise ValueError(f"The folder {path} of `texts` holds no file that ends in .txt.")
        # Without a language, names give it: de.txt.gz, or de/2019.txt.
        named: dict[str, list[Path]] = {}
        for file in files:
            inside = file.path.relative_to(path).parts[0]
            named.setdefault(language or inside.partition(".")[0], []).append(file.path)
        return {own: _files(paths, encoding, watch) for own, paths in sorted(named.items())}
    if path.is_file():
        return {language or path.name.partition(".")[0]: _files([path], encoding, watch)}
    if path.suffix in (".txt", ".gz", ".bz2", ".zst", ".jsonl", ".csv", ".tsv", ".parquet", ".zip"):
        raise ValueError(
            f"`texts` names {source}, which does not exist: relative paths start at the YAML file's "
            "folder, those on the command line at the current one."
        )
    names = [source]
    if not source.startswith(registry.HUB) and "/" not in source:
        names = [*registry.splits_of(source, folder)] or names
    return {language or _code(name): _train_split(name, folder, watch) for name in names}


def _files(paths: Sequence[Path], encoding: str, watch: Watch) -> Sequence[Any]:
    known = "\n".join(fingerprint(path) for path in paths) + f" {encoding} for pretraining"
    what = paths[0].name
    return stored(
        lambda keep: read(
            "masked_lm", {"train": paths}, name=what, encoding=encoding, keep=keep, watch=watch
        ),
        known,
        what,
        watch,
    ).splits["train"]


def _code(name: str) -> str:
    return name.removeprefix(registry.HUB).rpartition("/")[2]


def _train_split(name: str, folder: Path | None, watch: Watch) -> Sequence[Any]:
    dataset = registry.load(name, folder, on_disk=True, watch=watch)
    if dataset.kind not in EXAMPLES:
        raise ValueError(f"`texts` names {name}, which is a set of images: name one of texts.")
    return dataset.split("train")


def _forbidden(config: PretrainConfig, folder: Path | None, watch: Watch) -> torch.Tensor:
    """Hashes of every text and sentence in the sets to leave out, from the cache if it has them."""
    names: list[str] = []
    for name in config.leave_out:
        if name == EVERY_SET or (not Path(name).is_file() and "/" not in name):
            there = registry.splits_of("" if name == EVERY_SET else name, folder)
            evaluated = [each for each, splits in there.items() if {*splits} & {*LEFT_OUT}]
            names += evaluated
            if not evaluated:
                raise ValueError(
                    f"`leave_out` names {name}, which has no dev or test split here: check the "
                    "name and the data folder."
                )
        else:
            names.append(name)

    def examples(name: str) -> Iterator[Any]:
        if Path(name).is_file():
            yield from _files([Path(name)], config.encoding, watch)
            return
        dataset = registry.load(name, folder, on_disk=True, watch=watch)
        for split in LEFT_OUT:
            yield from dataset.splits.get(split, ())

    def make() -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        hashes = []
        for done, name in enumerate(names):
            watch.at(f"reading {name}, to leave it out", done, len(names))
            hashes.append(hashes_of(texts_and_sentences(examples(name))))
        return {"hashes": torch.unique(torch.cat(hashes))}, {}

    files = [Path(name) for name in names if Path(name).is_file()]
    where = [*files, *([Path(registry.data_folder(folder, "all"))] if len(files) < len(names) else [])]
    known = "\n".join([*names, config.encoding, *map(fingerprint, where)])
    return cached("left-out", f"1 {known}", make, what="texts left out", watch=watch)[0]["hashes"]
