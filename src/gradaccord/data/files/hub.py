"""Sets of Hugging Face `datasets`, by name or from a folder on disk.

    load("nyu-mll/glue:cola")                                   # or data.load("hub:nyu-mll/glue:cola")
    load("my/folder", kind="classification", columns={"first": "review"})

A folder may hold jsonl, csv or parquet files, or be what `save_to_disk` wrote; then nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.dataset import SPLITS, Dataset, chosen_splits
from gradaccord.data.examples import EXAMPLES
from gradaccord.data.files.bad_files import reading, reason
from gradaccord.data.files.columns import Columns, Reader
from gradaccord.data.files.layouts import Iob, Keep
from gradaccord.data.files.own_files import dataset_of
from gradaccord.data.files.tables import Row, Rows
from gradaccord.data.files.text_files import File
from gradaccord.data.stored import stored

_BLOCK = 4096  # rows that are objects of Python at once
MANY = 20_000  # rows from which on a set is kept on disk, if that is asked for


def load(
    path: str | Path,
    *,
    kind: str | None = None,
    columns: Columns | None = None,
    labels: Sequence[str] | None = None,
    splits: Iterable[str] | None = None,
    language: str = "",
    iob: Iob = "repair",
    cache: str | Path | None = None,
    on_disk: bool = False,
    watch: Watch = NOBODY,
) -> Dataset:
    """A data set that `datasets.load_dataset` or `load_from_disk` reads.

    path: a name on the hub, followed by `:configuration` if there are several, or a folder.
    kind: of task; None: found by the columns. columns, labels: as in `data.read`; the names of a
    ClassLabel column need not be given. splits: some of train, dev, test. cache: of `datasets`.
    on_disk: examples of a large set are read once, and then mapped from our cache (`data.stored`).
    """
    parts = _open(str(path), cache)
    found = {_split(name): part for name, part in parts.items() if _split(name)}
    if not found:
        raise ValueError(f"{path} has no train, dev or test split, but {', '.join(parts)}.")
    chosen = chosen_splits(splits, found, str(path))
    features = found[chosen[0]].features
    kind = kind or _kind(features, str(path))
    reader = Reader(kind, columns or {}, tuple(labels or ()))
    if not labels:
        reader = replace(reader, labels=_labels(reader, features))
    file = File(Path(str(path)))
    rows = {split: [(file, Rows(partial(_rows, found[split]), len(found[split])))] for split in chosen}

    def read(keep: Keep) -> Dataset:
        with reading(file):
            return dataset_of(str(path), reader, rows, language, iob, keep=keep, watch=watch)

    if not on_disk or sum(len(found[split]) for split in chosen) < MANY:
        return read(list)
    content = {split: found[split]._fingerprint for split in chosen}  # as `datasets` knows it
    return stored(read, f"{path} {reader} {language} {iob} {content}", str(path), watch)


def _open(path: str, cache: str | Path | None) -> Mapping[str, Any]:
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'Sets of Hugging Face need the package datasets: pip install "gradaccord[datasets]".',
            name="datasets",
        ) from error
    folder, config = Path(path), None
    if not folder.exists() and ":" in path:
        path, _, config = path.rpartition(":")
        folder = Path(path)
    saved = any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))
    try:
        if saved:
            opened = datasets.load_from_disk(path)
        else:
            opened = datasets.load_dataset(
                path, config, cache_dir=None if cache is None else str(cache)
            )
    except Exception as error:  # a sentence of its own does not name what was to be loaded
        raise ValueError(
            f"`datasets` could not load {path!r} ({reason(error)}): check the name, or the files "
            "in the folder."
        ) from error
    return opened if isinstance(opened, Mapping) else {"train": opened}


def _split(name: str) -> str:
    """train, dev or test; "" if it is none. MNLI's "validation_matched" is dev."""
    first, _, rest = name.partition("_")
    return SPLITS.get(first, "") if rest in ("", "matched") else ""


def _kind(features: Mapping[str, Any], path: str) -> str:
    numbers = str(getattr(features.get("label"), "dtype", "")).startswith("float")
    for example in dict.fromkeys(EXAMPLES.values()):
        if example.signs and all(any(name in features for name in names) for names in example.signs):
            kinds = example.kinds
            first = next(iter(kinds))
            return next((kind for kind in kinds if (kinds[kind] == "number") == numbers), first)
    raise ValueError(
        f"The columns of {path} ({', '.join(features)}) do not tell the kind of task: give `kind`."
    )


def _names(feature: Any) -> list[str] | None:
    """The names of a ClassLabel, or of a list of them."""
    inner = getattr(feature, "feature", feature)
    names = getattr(inner, "names", None)
    return list(names) if isinstance(names, list) else None


def _labels(reader: Reader, features: Mapping[str, Any]) -> tuple[str, ...]:
    if not reader.has_names:
        return ()
    if reader.answer == "class":
        return tuple(_names(features.get(str(reader.columns.get("label", "label")))) or ())
    for name in (reader.columns.get("tags"), "tags", "ner_tags", "labels"):
        tags = _names(features.get(str(name)))
        if tags:
            return tuple(dict.fromkeys(tag[2:] for tag in tags if tag != "O"))
    return ()


def _rows(part: Any, at_row: Callable[[int], None]) -> Iterator[Row]:
    """Rows with class numbers written as names, as files have them; -1, not labelled, stays."""
    named = {c: names for c, feature in part.features.items() if (names := _names(feature))}
    for start in range(0, len(part), _BLOCK):
        at_row(start)
        block = part.select(range(start, min(start + _BLOCK, len(part))))
        for number, row in enumerate(block.to_list(), start=start + 1):
            for column, names in named.items():
                cell = row[column]
                if isinstance(cell, list):
                    row[column] = [names[number] for number in cell]
                elif cell is not None and cell >= 0:
                    row[column] = names[cell]
            yield number, row
