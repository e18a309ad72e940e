"""Data sets by name: `load` reads one, `find` lists what is in a folder.

    pairs = load("xnli/sw", folder="data")             # or GRADACCORD_DATA=data
    for found in find("data"):
        print(found.name, found.counts)

A folder may hold the files as they were published or packed (.gz, .zip), in any sub-folder: they are
recognised by the end of their path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from gradaccord.core.did_you_mean import closest
from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.dataset import Dataset, Found, chosen_splits
from gradaccord.data.files.layouts import Iob, Keep, PublishedSet, Source, Wanted
from gradaccord.data.files.tensor_cache import fingerprint
from gradaccord.data.files.text_files import File, files_under
from gradaccord.data.images import published as images
from gradaccord.data.splits import cut as cut_splits
from gradaccord.data.stored import stored
from gradaccord.data.text import cldr

FOLDER = "GRADACCORD_DATA"
LARGE = 4 * 10**6  # bytes of files, packed as they are, from which on reading takes seconds
HUB = "hub:"  # begins the name of a set of Hugging Face
_GROUPS = ("glue-", "superglue-", "robustqa-", "ner-", "summarization-")


@lru_cache(maxsize=1)
def sets() -> dict[str, PublishedSet]:
    """Every set of text files that can be read, by name."""
    from gradaccord.data.text import (
        crosslingual,
        glue,
        minbert,
        named_entities,
        plain_text,
        question_answering,
        summarization,
        superglue,
    )

    families = (
        minbert, glue, superglue, crosslingual, question_answering, named_entities, summarization,
        plain_text,
    )  # fmt: skip
    return {each.name: each for family in families for each in family.SETS}


def load(
    name: str,
    folder: str | Path | None = None,
    splits: Iterable[str] | None = None,
    language: str | None = None,
    *,
    cut: float | Mapping[str, float] | None = None,
    iob: Iob = "repair",
    on_disk: bool = False,
    watch: Watch = NOBODY,
) -> Dataset:
    """Read a data set.

    name: as `gradaccord list data` shows it ("sst", "xnli/sw"), or "hub:" and a name or folder that
        Hugging Face `datasets` reads (`files/hub.py`).
    folder: where its files are, at any depth; else $GRADACCORD_DATA.
    splits: which of train, dev and test to read; default: all.
    language: instead of one after a slash in the name.
    cut: new splits cut from one (`splits.cut`).
    iob: "repair" reads an I- tag that continues nothing as B-, counted in `notes`; "strict" refuses.
    on_disk: a large set of text is read once and then mapped from the cache (`stored`).
    """
    if iob not in ("repair", "strict"):
        raise ValueError(f"`iob` is {iob!r}: use 'repair' or 'strict'.")
    if name.startswith(HUB):
        from gradaccord.data.files import hub

        dataset = hub.load(
            name.removeprefix(HUB),
            splits=splits,
            language=language or "",
            iob=iob,
            on_disk=on_disk,
            watch=watch,
        )
        return dataset if cut is None else cut_splits(dataset, cut)
    known, wished = _named(name, language)
    if known == cldr.NAME:
        dataset = cldr.dataset(wished)
    elif known in images.NAMES:
        dataset = images.load(known, data_folder(folder, name))
    else:
        read = partial(_read, sets()[known], wished, data_folder(folder, name), splits, iob)
        dataset = read(watch) if on_disk else read(None)
    if splits is not None:
        chosen = chosen_splits(splits, dataset.splits, dataset.name)
        dataset = replace(dataset, splits={split: dataset.splits[split] for split in chosen})
    return dataset if cut is None else cut_splits(dataset, cut)


def find(folder: str | Path | None = None) -> list[Found]:
    """All sets below a folder (default: $GRADACCORD_DATA) with counts, and sets that need no folder."""
    root = folder or os.environ.get(FOLDER)
    listed = [*cldr.found()]
    if not root:
        return listed
    files = files_under(Path(root))
    work = [
        (each, language, sources)
        for each in sets().values()
        for language, sources in each.sources(files).items()
    ]
    # Two threads: unpacking, most of the work, runs outside Python's lock.
    with ThreadPoolExecutor(2) as pool:
        listed += pool.map(lambda item: _count(*item), work)
    return sorted(listed + images.found(Path(root)), key=lambda found: (found.kind, found.name))


def splits_of(name: str = "", folder: str | Path | None = None) -> dict[str, tuple[str, ...]]:
    """The splits below a folder, of one set of texts in all its languages or of all sets, by name.

    No file is opened.
    """
    known = [each for each in sets().values() if not name or each.name == _named(name, None)[0]]
    files = files_under(data_folder(folder, name or "all"))
    return {
        f"{each.name}/{code}" if each.languages else each.name: tuple(splits)
        for each in known
        for code, splits in each.sources(files).items()
    }


def names() -> list[str]:
    """The names of all known sets, without their languages."""
    return sorted([*sets(), cldr.NAME, *images.NAMES])


def kind_of(name: str) -> str | None:
    """The kind of task that a set is for; None where only reading it tells. Needs no folder."""
    if name.startswith(HUB):
        return None
    known, _ = _named(name, None)
    return sets()[known].kind if known in sets() else "image" if known in images.NAMES else None


def data_folder(folder: str | Path | None, name: str) -> Path:
    """The folder given, or the one of the environment; having neither is an error."""
    root = folder or os.environ.get(FOLDER)
    if not root:
        raise ValueError(
            f"The folder of the set {name!r} is not known: give `folder` (on the command line --data), "
            f"or set {FOLDER}."
        )
    return Path(root)


def _named(name: str, language: str | None) -> tuple[str, str]:
    """The known set and the language that a name means."""
    first, _, rest = name.strip().partition("/")
    known = _known(first)
    if known is None and rest:  # a group before the name: "glue/cola", "ner/wikiann/de"
        prefixed = _known(f"{first}-{rest.partition('/')[0]}")
        second, _, after = rest.partition("/")
        known, rest = (prefixed or _known(second) if _group(first) else None), after
    if known is None:
        near = closest(_plain(name), _all_names()) or closest(_plain(first), _all_names())
        hint = f"did you mean {_all_names()[near]!r}?" if near else "see `gradaccord list data`."
        raise ValueError(f"There is no data set {name!r}: {hint}")
    if rest and language and _plain(rest) != _plain(language):
        raise ValueError(
            f"{name!r} names the language {rest!r}, and `language` is {language!r}: give one."
        )
    return known, rest or language or ""


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _group(word: str) -> bool:
    return f"{_plain(word)}-" in _GROUPS


@lru_cache(maxsize=1)
def _all_names() -> dict[str, str]:
    known = {_plain(name): name for name in names()}
    aliases = {_plain(alias): each.name for each in sets().values() for alias in each.aliases}
    return {**aliases, **known}


def _known(word: str) -> str | None:
    return _all_names().get(_plain(word))


def _read(
    known: PublishedSet,
    language: str,
    root: Path,
    splits: Iterable[str] | None,
    iob: Iob,
    watch: Watch | None,
) -> Dataset:
    """The data set; from the cache if it is large, and if somebody watches."""
    there = known.sources(files_under(root))
    if not there:
        raise ValueError(
            f"{root} holds no file of the set {known.name!r}: see `gradaccord list data` for "
            "what it holds."
        )
    code = _language(known, language, there)
    name = f"{known.name}/{code}" if known.languages else known.name
    chosen = {split: there[code][split] for split in chosen_splits(splits, there[code], name)}
    labels, options = known.labels_of(code), dict(known.options)

    def read(keep: Keep) -> Dataset:
        examples: dict[str, Sequence[Any]] = {}
        notes: dict[str, int] = {}
        for split, source in chosen.items():
            wanted = _wanted(known, code, split, iob)
            examples[split] = keep(source.read(wanted))
            notes.update(wanted.notes)
        return Dataset(name, known.kind, examples, labels, _language_of_texts(code), options, notes)

    files = sorted({file for source in chosen.values() for file in source.files}, key=str)
    if watch is None or sum(file.size for file in files) < LARGE:
        return read(lambda examples: [*examples])
    how = f"{name} {[*chosen]} {iob} {[str(file) for file in files]}"
    return stored(read, f"{how}\n{_beside(files)}", name, watch)


def _beside(files: Iterable[File]) -> str:
    """Names, sizes and times of files, and of those around them, which some sets also consist of."""
    folders = {file.path.parent for file in files}
    around = (path for folder in folders | {f.parent for f in folders} for path in folder.iterdir())
    return "\n".join(fingerprint(path) for path in sorted(set(around)) if path.is_file())


def _wanted(known: PublishedSet, code: str, split: str, iob: Iob = "repair") -> Wanted:
    return Wanted(split, _language_of_texts(code), known.labels_of(code), iob)


def _language_of_texts(code: str) -> str:
    """The language of the texts in a set with this code: "de" for MLQA's "de-en", "tl" for "tl_trg"."""
    first, dash, second = code.partition("-")
    return first if dash and len(first) == len(second) == 2 else code.partition("_")[0]


def _language(known: PublishedSet, language: str, there: Mapping[str, object]) -> str:
    codes = {_plain(code): code for code in there}
    if not known.languages:
        if language and _plain(language) != _plain(known.language):
            raise ValueError(
                f"`{known.name}` is in one language, {known.language!r}: leave {language!r} out."
            )
        return next(iter(there))
    if not language and len(codes) == 1:
        return next(iter(there))
    if _plain(language) in codes:
        return codes[_plain(language)]
    problem = f"no language {language!r}" if language else "several languages"
    raise ValueError(
        f"`{known.name}` has {problem} here: choose one of {', '.join(there)}, as in "
        f"'{known.name}/{next(iter(there))}'."
    )


def _count(known: PublishedSet, code: str, sources: Mapping[str, Source]) -> Found:
    counts, problem = {}, ""
    for split, source in sources.items():
        try:
            counts[split] = source.count(_wanted(known, code, split))
        except (ValueError, OSError) as error:
            problem = problem or str(error)
    return Found(
        name=f"{known.name}/{code}" if known.languages else known.name,
        kind=known.kind,
        language=_language_of_texts(code),
        counts=counts,
        labels=known.labels_of(code),
        files=tuple(str(file) for source in sources.values() for file in source.files),
        problem=problem,
    )
