"""The `cldr` problem: classify what a name stands for, in many languages, with no download.

The names are those of the Unicode CLDR inside the PyPI package Babel. A task is a language, a class
is a kind of name (territory, city, language, currency, unit), and the split is by concept: what a
dev or test name stands for was never seen in training, in any language.

    swahili = gradaccord.data.load("cldr/sw")
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any

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


def dataset(language: str) -> Dataset:
    """What kind of thing a name stands for, in one language.

    A dev or test name's concept is in no language's train split, nor is a dev or test name of any of
    the twelve languages of the demo or of this one.
    """
    if not language:
        raise ValueError(f"`cldr` has many languages: choose one, such as 'cldr/{LANGUAGES[0]}'.")
    languages = tuple(dict.fromkeys([*LANGUAGES, language]))
    splits = {split: _kept(language, split, languages) for split in ORDER}
    drawn = sorted(
        splits["train"], key=lambda name: _digest(f"0/{language}/{name.concept}/{name.text}")
    )
    splits["train"] = drawn[: TRAIN_SIZES.get(language)]
    examples = {
        split: [
            Text(name.text, None, KINDS.index(name.kind), f"{split}-{number}-{name.concept}")
            for number, name in enumerate(names)
        ]
        for split, names in splits.items()
    }
    return Dataset(f"cldr/{language}", "classification", examples, KINDS, language)


@lru_cache(maxsize=1)
def found() -> tuple[Found, ...]:
    """The languages of the demo; none if the package that holds the names is missing."""
    try:
        sets = [dataset(language) for language in LANGUAGES]
    except ModuleNotFoundError:
        return ()
    return tuple(
        Found(each.name, each.kind, each.language, each.counts, KINDS, ("embedded",)) for each in sets
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
    (a city and its state: no answer is right), and repeated names (the second time).
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
            f"`language` is {language!r}, which CLDR does not know: use a code such as 'de' or 'sw'."
        ) from error
