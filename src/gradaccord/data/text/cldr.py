"""The `cldr` problem: say what kind of thing a name names, in many languages, with no download.

The names are those of the Unicode CLDR inside the PyPI package Babel. A task is a language, a class
is a kind of name (territory, city, language, currency, unit), and the split is by concept: what a
dev or test name stands for was never seen in training, in any language.

    problem = gradaccord.data.text.cldr.load(["de", "sw"])
    tokens = problem.vocabulary.encode(problem.tasks["sw"].train.texts)
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch

from gradaccord.data.dataset import ORDER, Dataset, Found
from gradaccord.data.examples import Text

if TYPE_CHECKING:
    from babel import Locale

NAME = "cldr"
KINDS = ("territory", "city", "language", "currency", "unit")

# The languages of the multilingual named-entity experiment of Lee et al. 2022, each with a number of
# training names that is to the others' roughly as their WikiAnn training sets are.
TRAIN_SIZES: Mapping[str, int] = {
    "de": 1000, "en": 1000, "es": 1000,
    "fil": 300, "hi": 300, "mr": 300,
    "kk": 120, "sw": 120, "te": 120,
    "jv": 40, "my": 40, "yo": 40,
}  # fmt: skip
LANGUAGES = tuple(sorted(TRAIN_SIZES))

# Not trained on: relatives and neighbours of the above, and some that are neither.
UNSEEN_LANGUAGES = (
    "af", "bn", "cy", "fr", "gu", "ha", "id", "it", "kn", "ky", "ms", "ne", "nl", "pl", "pt", "ru",
    "sv", "ta", "tr", "uk", "uz", "vi", "xh", "zu",
)  # fmt: skip

_TEST_SHARE = 4  # one concept in this many is a test concept
_DEV_SHARE = 6  # and of the others one in this many is held out to choose settings by
_NOT_NAMES = frozenset({"ZZ", "XA", "XB", "XXX", "XTS", "und", "mul", "mis", "zxx"})


@dataclass(frozen=True)
class Name:
    """One name in one language. Names of one concept, in all languages, share the `concept`."""

    concept: str  # "territory/DE"
    kind: str
    text: str


@dataclass(frozen=True)
class Examples:
    """Names and the position of each one's kind in `KINDS`."""

    texts: tuple[str, ...]
    labels: torch.Tensor  # [N] int64
    concepts: tuple[str, ...]

    @classmethod
    def of(cls, names: Sequence[Name]) -> Examples:
        """The same names, as inputs and targets."""
        return cls(
            texts=tuple(name.text for name in names),
            labels=torch.tensor(
                [KINDS.index(name.kind) for name in names], dtype=torch.int64, device="cpu"
            ),
            concepts=tuple(name.concept for name in names),
        )

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Task:
    """One language."""

    train: Examples
    dev: Examples
    test: Examples

    @property
    def splits(self) -> dict[str, Examples]:
        """All three, by name."""
        return {"train": self.train, "dev": self.dev, "test": self.test}


class Vocabulary:
    """Characters as integers; 0 is padding, 1 an unknown character, 2 a masked one."""

    PADDING, UNKNOWN, MASK = range(3)

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = tuple(characters)
        self._numbers = {character: i for i, character in enumerate(self.characters, start=3)}

    @classmethod
    def of(cls, texts: Iterable[str]) -> Vocabulary:
        """Every character that occurs in the texts, in the order of their code points."""
        return cls(sorted(set(chain.from_iterable(texts))))

    def __len__(self) -> int:
        return len(self.characters) + 3

    def encode(self, texts: Sequence[str], max_length: int = 32) -> torch.Tensor:
        """[N, L] int64, padded to the longest of the texts; what is longer than max_length is cut."""
        rows = [[self._numbers.get(c, self.UNKNOWN) for c in text[:max_length]] for text in texts]
        longest = max((len(row) for row in rows), default=0)
        padded = [row + [self.PADDING] * (longest - len(row)) for row in rows]
        return torch.tensor(padded, dtype=torch.int64, device="cpu").reshape(len(rows), longest)


@dataclass(frozen=True)
class CLDR:
    """The problem: a task per language, the names of the classes, and the characters."""

    tasks: dict[str, Task]
    kinds: tuple[str, ...]
    vocabulary: Vocabulary


def load(languages: Iterable[str] = LANGUAGES, seed: int = 0) -> CLDR:
    """Read the languages' names and split them by concept.

    seed: draws which of the training names a language is given, if it is given only some (see
        `TRAIN_SIZES`; other languages keep all). The split and the vocabulary do not depend on it.
    """
    languages = tuple(languages)
    if not languages:
        raise ValueError("`languages` is empty: give at least one, such as 'de'.")
    tasks = {language: task(language, languages, seed) for language in languages}
    learned = (name.text for language in languages for name in _kept(language, "train", languages))
    return CLDR(tasks, KINDS, Vocabulary.of(learned))


def task(language: str, languages: tuple[str, ...] = LANGUAGES, seed: int = 0) -> Task:
    """One language as `load` has it among several, without the others."""
    train, dev, test = (_kept(language, split, languages) for split in ORDER)
    drawn = _drawn(train, TRAIN_SIZES.get(language), f"{seed}/{language}")
    return Task(Examples.of(drawn), Examples.of(dev), Examples.of(test))


def dataset(language: str) -> Dataset:
    """What kind of thing a name names, in one language.

    A dev or test name's concept is in no language's train split, nor is a dev or test name of any of
    the twelve languages of the demo or of this one.
    """
    if not language:
        raise ValueError(f"`cldr` has many languages: choose one, such as 'cldr/{LANGUAGES[0]}'.")
    parts = task(language, tuple(dict.fromkeys([*LANGUAGES, language])))
    splits = {
        split: [
            Text(text, None, int(label), f"{split}-{number}-{concept}")
            for number, (text, label, concept) in enumerate(
                zip(names.texts, names.labels.tolist(), names.concepts, strict=True)
            )
        ]
        for split, names in parts.splits.items()
    }
    return Dataset(f"cldr/{language}", "classification", splits, KINDS, language)


@lru_cache(maxsize=1)
def found() -> tuple[Found, ...]:
    """The languages of the demo; none if the package that holds the names is missing."""
    try:
        tasks = load().tasks
    except ModuleNotFoundError:
        return ()
    return tuple(
        Found(
            name=f"cldr/{language}",
            kind="classification",
            language=language,
            counts={split: len(names) for split, names in task.splits.items()},
            labels=KINDS,
            files=("embedded",),
        )
        for language, task in tasks.items()
    )


def _kept(language: str, split: str, languages: tuple[str, ...]) -> list[Name]:
    """A split's names. Two concepts may share one, in any two languages: test keeps it, else dev."""
    later = ORDER[ORDER.index(split) + 1 :]
    taken = set().union(*(_texts(other, one) for other in languages for one in later))
    return [name for name in _names_of(language, split) if name.text.casefold() not in taken]


@lru_cache(maxsize=512)
def _names_of(language: str, split: str) -> tuple[Name, ...]:
    return tuple(name for name in names(language) if split_of(name.concept) == split)


@lru_cache(maxsize=512)
def _texts(language: str, split: str) -> frozenset[str]:
    return frozenset(name.text.casefold() for name in _names_of(language, split))


@lru_cache(maxsize=128)
def names(language: str) -> tuple[Name, ...]:
    """Every name that CLDR has in a language, by its code ("sw"), sorted by concept.

    Left out: names that are the same in English (not translated), that name things of two kinds
    (a city and its state: no answer is right), and that say nothing twice (the second time).
    """
    found = list(_read(language))
    untranslated = _english_forms() if language != "en" else frozenset()
    kinds = defaultdict(set)
    for name in found:
        kinds[name.text.casefold()].add(name.kind)
    kept: dict[str, Name] = {}
    for name in sorted(found, key=lambda name: (name.concept, name.text)):
        key = name.text.casefold()
        if key not in untranslated and len(kinds[key]) == 1:
            kept.setdefault(key, name)
    return tuple(kept.values())


@lru_cache(maxsize=8192)
def split_of(concept: str) -> str:
    """The split that a concept belongs to, the same in every language, process and version.

    Train concepts may be learned from, with labels or without.
    """
    number = _digest(concept)
    if number % _TEST_SHARE == 0:
        return "test"
    return "dev" if number // _TEST_SHARE % _DEV_SHARE == 0 else "train"


def _drawn(known: list[Name], size: int | None, draw: str) -> list[Name]:
    """The first `size` names in an order that depends on the draw and on nothing else."""
    return sorted(known, key=lambda name: _digest(f"{draw}/{name.concept}/{name.text}"))[:size]


def _digest(text: str) -> int:
    # Python's own hash() differs from process to process.
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


@lru_cache(maxsize=1)
def _english_forms() -> frozenset[str]:
    """All English names, and the units' short forms, which many languages take over."""
    units = _locale("en").unit_display_names.values()
    short = (form for unit in units for form in unit.values())
    return frozenset(text.casefold() for text in chain((name.text for name in _read("en")), short))


def _read(language: str) -> Iterator[Name]:
    """All names as they stand in CLDR; codes that differ only in a variant are one concept."""
    locale = _locale(language)
    for code, text in locale.territories.items():
        yield from _name("territory", code, code, text)
    for zone, text in _cities(locale):
        yield from _name("city", zone, zone, text)
    for code, text in locale.languages.items():
        yield from _name("language", code, code.split("_")[0], text)  # de_AT is German
    for code, text in locale.currencies.items():
        yield from _name("currency", code, code[:2], text)  # the country, with its old currencies
    for code, forms in locale.unit_display_names.items():
        text = forms.get("long") or forms.get("short")
        yield from _name("unit", code, code.removesuffix("-imperial"), text)


def _name(kind: str, code: str, concept: str, text: str | None) -> Iterator[Name]:
    text = unicodedata.normalize("NFC", (text or "").strip())
    if code not in _NOT_NAMES and any(character.isalpha() for character in text):
        yield Name(f"{kind}/{concept}", kind, text)


def _cities(locale: Locale) -> Iterator[tuple[str, str]]:
    """The city that each time zone is named after."""
    from babel.core import get_global

    aliases: Mapping[str, str] = get_global("zone_aliases")
    cities = {zone: entry["city"] for zone, entry in locale.time_zones.items() if "city" in entry}
    if locale.language == "en":  # CLDR lists a city only where it differs from the zone's own name
        plain: Mapping[str, Any] = get_global("zone_territories")
        cities = {zone: zone.split("/")[-1].replace("_", " ") for zone in plain} | cities
    for zone, city in cities.items():
        if not zone.startswith("Etc/"):
            yield aliases.get(zone, zone), city


def _locale(language: str) -> Locale:
    try:
        from babel import Locale, UnknownLocaleError
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'The `cldr` problem needs the package Babel: pip install "gradaccord[demo]".',
            name="babel",
        ) from error
    try:
        return Locale.parse(language)
    except (UnknownLocaleError, ValueError) as error:
        raise ValueError(
            f"`languages` has {language!r}, which CLDR does not know: use a code such as 'de' or 'sw'."
        ) from error
