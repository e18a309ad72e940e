"""Every set of the shared folder: the counts of its README, by reading and by the cheap listing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradaccord import data

FOLDER = Path(__file__).resolve().parents[2] / "../shared/data"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the shared data sets are not beside the repository"
)


def splits(*counts: int | None) -> dict[str, int]:
    return {s: c for s, c in zip(("train", "dev", "test"), counts, strict=False) if c is not None}


XNLI = ["ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh"]
XCOPA = ["et", "ht", "id", "it", "qu", "sw", "ta", "th", "tr", "vi", "zh"]
XQUAD = ["ar", "de", "el", "en", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh"]
NTREX = [
    "arb",
    "bul",
    "deu",
    "ell",
    "eng",
    "fil",
    "fra",
    "hin",
    "ind",
    "kaz",
    "mar",
    "mya",
    "rus",
    "spa",
    "swa",
    "tel",
    "tha",
    "tur",
    "urd",
    "vie",
    "yor",
    "zho-CN",
]
MASAKHANER = [
    "bam",
    "bbj",
    "ewe",
    "fon",
    "hau",
    "ibo",
    "kin",
    "lug",
    "luo",
    "mos",
    "nya",
    "pcm",
    "sna",
    "swa",
    "tsn",
    "twi",
    "wol",
    "xho",
    "yor",
    "zul",
]
TYDIQA_DEV = {
    "ar": 921,
    "bn": 113,
    "en": 440,
    "fi": 782,
    "id": 565,
    "ko": 276,
    "ru": 812,
    "sw": 499,
    "te": 669,
}
TYDIQA_TRAIN = {"en": 3696, "ko": 1625, "sw": 2755}
MLQA = {"ar": 517, "de": 512, "en": 1148, "es": 500, "hi": 507, "vi": 511, "zh": 504}

# Some of the 110 languages.
COMMON_VOICE = {"de": 42984, "en": 54792, "hi": 18552, "kk": 6130, "my": 806, "te": 245, "yo": 5409}
COUNTS = {
    "sst": splits(8544, 1101, 2210),
    "sts": splits(6040, 863, 1725),
    "quora": splits(13506, 20214),
    "cfimdb": splits(1707, 245, 488),
    "squad1": splits(4961, 5609),
    "squad1-articles": splits(3807, 10570),
    "squad2": splits(None, 6078),
    "newsqa": splits(None, 4212),
    "duorc": splits(127, 126),
    "race": splits(127, 128),
    "relation-extraction": splits(127, 128),
    "cola": splits(8551, 1043),
    "mrpc": splits(3667, 408, 1725),
    "qnli": splits(None, 5463),
    "glue-rte": splits(2490, 277),
    "sst2": splits(67349, 872),
    "sts-b": splits(5749, 1500),
    "wnli": splits(635, 71),
    "boolq": splits(None, 3270),
    "cb": splits(250, 56),
    "copa": splits(400, 100),
    "multirc": splits(27243, 4848),
    "rte": splits(2490, 277),
    "wsc": splits(554, 104),
    "wic": splits(5428, 638),
    "axb": splits(None, None, 1104),
    "axg": splits(None, None, 356),
    "wikiann/de": splits(20000, 10000, 10000),
    "wikiann/en": splits(20000, 10000, 10000),
    "conll2002/es": splits(8323, 1915, 1517),
    "masakhaner2/swa": splits(6593, 942, 1883),
    "masakhaner2/yor": splits(6876, 983, 1964),
    "hiner/hi": splits(None, 10851),
    "kaznerd/kk": splits(None, 11167, 11307),
    "mahaner/mr": splits(None, 1500, 1999),
    "telugu-gold/te": splits(2609, None, 652),
    "myner/my": splits(13323, 1640, 1641),
    "ilner/hi": splits(11076, 1389, 1388),
    "ilner/te": splits(2993, 384, 384),
    "ilner/ur": splits(8720, 1094, 1096),
    "uner/da": splits(4383, 564, 565),
    "uner/sr": splits(3328, 536, 520),
    "uner/tl_trg": splits(None, None, 128),
    "uner/tl_ugnayan": splits(None, None, 94),
    "gigaword": splits(None, None, 1951),
    "duc2004": splits(None, None, 500),
    "google-compression": splits(None, None, 1000),
    "reuters": splits(11613, 671, 4993),
    **{f"xnli/{language}": splits(None, 2490, 5010) for language in XNLI},
    **{f"xcopa/{language}": splits(None, 100, 500) for language in XCOPA},
    **{f"xquad/{language}": splits(None, None, 1190) for language in XQUAD},
    **{f"tydiqa/{lang}": splits(TYDIQA_TRAIN.get(lang), dev) for lang, dev in TYDIQA_DEV.items()},
    **{f"mlqa/{language}": splits(None, dev) for language, dev in MLQA.items()},
    **{f"common-voice-text/{language}": splits(lines) for language, lines in COMMON_VOICE.items()},
    **{f"ntrex/{language}": splits(None, None, 1997) for language in NTREX},
}
PICTURES = {
    "omniglot": {"background": 19280, "evaluation": 13180},
    "cub200": {"train": 5994, "test": 5794},
    "tiny-imagenet-fewshot": {"train": 6400, "dev": 1600, "test": 2000},
    "tiny-imagenet-half-1": {"train": 4000, "test": 1000},
    "tiny-imagenet-half-2": {"train": 4000, "test": 1000},
    "fashion-mnist": {"train": 10000, "test": 10000},
    "cifar10": {"train": 10000, "test": 2000},
}


@pytest.fixture(scope="module")
def listed():
    return {found.name: found for found in data.find(FOLDER)}


def test_the_listing_counts_what_the_readme_counts_and_knows_every_set(listed):
    for name, counts in {**COUNTS, **PICTURES}.items():
        assert dict(listed[name].counts) == counts, name
    voices = {name for name in listed if name.startswith("common-voice-text/")}
    assert len(voices) == 110
    assert {"common-voice-text/zh-CN", "common-voice-text/fy-NL"} <= voices
    others = {name for name in listed if not name.startswith("cldr/")} - {*COUNTS, *PICTURES} - voices
    assert others == {f"masakhaner2/{lang}" for lang in MASAKHANER} - {*COUNTS}
    assert not [found.problem for found in listed.values() if found.problem]


def test_masakhaner_has_the_range_that_the_readme_gives(listed):
    trains = {lang: listed[f"masakhaner2/{lang}"].counts["train"] for lang in MASAKHANER}
    assert min(trains, key=trains.get) == "bbj"
    assert trains["bbj"] == 3384
    assert max(trains, key=trains.get) == "kin"
    assert trains["kin"] == 7825


def test_reading_gives_as_many_examples_as_the_listing_counts_in_every_set(listed):
    for name, found in listed.items():
        if "image" in found.kind or (name.startswith("common-voice") and name not in COUNTS):
            continue
        dataset = data.load(name, FOLDER)
        assert dataset.counts == dict(found.counts), name
        assert (dataset.kind, dataset.labels) == (found.kind, found.labels), name
        for split, examples in dataset.splits.items():
            ids = [example.id for example in examples]
            assert len(set(ids)) == len(ids), (name, split)


def load(name: str, **options):
    return data.load(name, FOLDER, **options)


def test_classes_of_real_files_are_where_their_numbers_say():
    xnli = load("xnli/sw", splits=["test"])
    classes = [e.label for e in xnli.splits["test"]]
    assert [classes.count(number) for number in range(3)] == [1670] * 3
    assert xnli.labels == ("entailment", "neutral", "contradiction")
    assert xnli.options == {"pair": "cross"}
    sst = load("sst", splits=["test"]).splits["test"]
    assert (sst[0].first, sst[0].label) == ("Effective but too-tepid biopic", 2)
    assert sst[0].id == "b7573736a6ddf7be102b7fee0"
    quora = load("quora", splits=["train"]).splits["train"]
    assert [sum(e.label == n for e in quora) for n in (0, 1)] == [8476, 5030]
    sts = load("sts", splits=["dev"]).splits["dev"]
    assert sts[1].label == 4.6


def test_cifar10_in_a_zip_of_class_folders():
    cifar = load("cifar10")
    assert cifar.labels == (
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
    )  # fmt: skip
    assert cifar.split("train").images.shape == (10000, 3, 32, 32)
    assert cifar.split("test").labels.bincount().tolist() == [200] * 10


def test_quora_rows_without_a_label_stay_unlabelled_and_are_counted():
    quora = load("quora", splits=["dev"])
    assert sum(e.label is None for e in quora.splits["dev"]) == 2
    assert quora.notes == {"dev: pairs without a label": 2}


def test_tydiqa_evaluation_files_have_no_answers_and_that_is_said():
    tydiqa = load("tydiqa/sw")
    assert not any(example.labelled for example in tydiqa.splits["dev"])
    assert sum(tydiqa.notes.values()) == 499
    assert all(example.labelled for example in tydiqa.splits["train"])
    cut = data.cut(tydiqa, 0.1)
    assert all(example.labelled for example in cut.splits["dev"])
    assert not {e.context for e in cut.splits["train"]} & {e.context for e in cut.splits["dev"]}


def test_squad2_has_its_unanswerable_questions_and_says_so():
    squad = load("squad2")
    assert sum(not e.answers for e in squad.splits["dev"]) == 3168
    assert squad.options["unanswerable"] is True


def test_wsc_spans_cover_the_texts_that_the_file_gives():
    examples = [e for part in load("wsc").splits.values() for e in part]
    pronouns = {e.text[slice(*e.pronoun_span)].lower() for e in examples}
    usual = {"he", "she", "it", "they", "him", "her", "them", "his", "their", "its"}
    odd = [e for e in examples if e.text[slice(*e.pronoun_span)].lower() not in usual]
    assert len(odd) < 0.05 * len(examples), pronouns - usual
    assert all(e.text[slice(*e.noun_span)].strip() for e in examples)


def test_wic_words_are_inside_their_sentences():
    examples = load("wic", splits=["dev"]).splits["dev"]
    pairs = [
        (e.first[slice(*e.first_span)].lower(), e.second[slice(*e.second_span)].lower())
        for e in examples
    ]
    same = sum(first[:2] == second[:2] for first, second in pairs)  # forms of one word
    assert same > 0.97 * len(pairs)


def test_published_tags_that_cannot_be_are_mended_or_refused_as_asked():
    mended = load("myner/my")
    assert sum(mended.notes.values()) == 1173 + 156 + 140
    for part in mended.splits.values():
        for example in part:
            for before, tag in zip(("O", *example.tags), example.tags, strict=False):
                assert tag[0] != "I" or before[1:] == tag[1:]
    with pytest.raises(
        ValueError, match=r"train\.conll\.gz, line \d+: the tag 'I-LOC' cannot follow 'O'"
    ):
        load("myner/my", iob="strict")


def test_a_cut_is_at_the_same_lines_in_every_language():
    english, swahili = (load(f"xnli/{lang}", cut=0.2) for lang in ("en", "sw"))
    assert [e.id for e in english.splits["dev"]] == [e.id for e in swahili.splits["dev"]]
    assert abs(len(english.splits["dev"]) - 0.2 * 2490) < 0.05 * 2490
    german, thai = (load(f"ntrex/{lang}", cut=0.5) for lang in ("deu", "tha"))
    assert [e.id for e in german.splits["dev"]] == [e.id for e in thai.splits["dev"]]
    assert len(german.splits["train"]) + len(german.splits["dev"]) == 1997


@pytest.mark.parametrize("name", ["hiner/hi", "kaznerd/kk", "mahaner/mr"])
def test_ner_sets_without_a_train_split_get_one(name):
    dataset = load(name, cut=0.25)
    train, dev = ({e.words for e in dataset.splits[split]} for split in ("train", "dev"))
    assert train
    assert dev
    assert not train & dev
