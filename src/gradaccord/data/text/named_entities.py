"""Named entities: WikiANN, CoNLL 2002 and 2003, MasakhaNER 2.0, and sets of one language each."""

from __future__ import annotations

from typing import Any

from gradaccord.data.files.conll import PLAIN, Conll, count_sentences
from gradaccord.data.files.layouts import Layout, PublishedSet

TYPES = ("PER", "LOC", "ORG")
SPLIT = r"(?P<split>train|dev|valid|validation|test)"
# The encoding that the shared tasks of 2002 and 2003 were published in.
OLD = ("utf-8", "latin-1")


def _dropping(*types: str) -> dict[str, str]:
    return dict.fromkeys(types, "O")


HINER = Conll(types={"PERSON": "PER", "LOCATION": "LOC", "ORGANIZATION": "ORG"})
KAZNERD = Conll(
    types={
        "PERSON": "PER", "GPE": "LOC", "LOCATION": "LOC", "ORGANISATION": "ORG",
        **_dropping(
            "ADAGE", "ART", "CARDINAL", "CONTACT", "DATE", "DISEASE", "EVENT", "FACILITY", "LANGUAGE",
            "LAW", "MISCELLANEOUS", "MONEY", "NON_HUMAN", "NORP", "ORDINAL", "PERCENTAGE", "POSITION",
            "PRODUCT", "PROJECT", "QUANTITY", "TIME",
        ),
    }
)  # fmt: skip
MAHANER = Conll(
    tag=1,
    sentence=2,
    bare=True,
    types={"NEP": "PER", "NEL": "LOC", "NEO": "ORG", **_dropping("NEM", "NETI", "NED", "ED")},
)
TELUGU = Conll(types={"PERSON": "PER", **_dropping("MISC")})
MYNER = Conll(bioes=True, types=_dropping("NUM", "DATE", "TIME"))
UNER = Conll(word=1, tag=2, comments=True, types=_dropping("OTH"))
SERBIAN = Conll(word=1, tag=2, comments=True)
SHARED_TASK = Conll(encodings=OLD)


def _set(name: str, *published: Layout, labels: tuple[str, ...] = TYPES, **more: Any) -> PublishedSet:
    folder = name.replace("-", "_")
    ours = Layout(
        rf"{folder}/(?P<language>[a-z][\w-]*)/{SPLIT}(?:\.(?:conll|txt|tsv|bio))?",
        PLAIN,
        count_sentences,
    )
    return PublishedSet(name, "tagging", (ours, *published), labels, languages=True, **more)


SETS = (
    _set(
        "wikiann",
        Layout(rf"pan-?x\w*/{SPLIT}-(?P<language>[a-z][\w-]*)\.tsv", PLAIN, count_sentences),
        Layout(rf"pan-?x\w*/(?P<language>[a-z][\w-]*)/{SPLIT}(?:\.\w+)?", PLAIN, count_sentences),
        aliases=("panx", "pan-x"),
    ),
    _set(
        "conll2002",
        Layout(
            r"(?P<language>esp|ned)\.(?P<split>train|testa|testb)",
            SHARED_TASK,
            codes={"esp": "es", "ned": "nl"},
        ),
        labels=(*TYPES, "MISC"),
    ),
    _set(
        "conll2003",
        Layout(
            r"(?P<language>eng|deu)\.(?P<split>train|testa|testb)(?:\.txt)?",
            SHARED_TASK,
            codes={"eng": "en", "deu": "de"},
        ),
        Layout(rf"conll_?-?2003/{SPLIT}\.txt", SHARED_TASK, inside_languages=("en",)),
        labels=(*TYPES, "MISC"),
    ),
    _set(
        "masakhaner2",
        Layout(
            rf"MasakhaNER2\.0/(?:data/)?(?P<language>[a-z]{{3}})/{SPLIT}\.txt", PLAIN, count_sentences
        ),
        labels=(*TYPES, "DATE"),
        aliases=("masakhaner",),
    ),
    _set("ilner"),
    _set("hiner", Layout(rf"collapsed/{SPLIT}\.conll", HINER, inside_languages=("hi",))),
    _set("kaznerd", Layout(rf"IOB2_{SPLIT}\.txt", KAZNERD, inside_languages=("kk",))),
    _set("mahaner", Layout(rf"{SPLIT}_iob\.txt", MAHANER, inside_languages=("mr",))),
    _set(
        "telugu-gold",
        Layout(r"(?P<split>train|test)_sentences_0_IOB\.txt", TELUGU, inside_languages=("te",)),
    ),
    _set("myner", Layout(r"(?P<split>train|val|test)_v5\.conll", MYNER, inside_languages=("my",))),
    _set(
        "uner",
        Layout(rf"(?P<language>sr_set)-u[bd]-{SPLIT}\.iob2", SERBIAN, codes={"sr_set": "sr"}),
        Layout(rf"(?P<language>[a-z]+_[a-z]+)-u[bd]-{SPLIT}\.iob2", UNER, codes={"da_ddt": "da"}),
        labels_in={"sr": (*TYPES, "OTH")},
    ),
)
