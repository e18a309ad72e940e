"""A small whole input for every reader of data and models: its files, and the call that reads them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from data_files import KIND_ROWS
from fuzz_mutations import changed, damaged, damaged_json, damaged_lines
from hypothesis import strategies as st

from gradaccord import data
from gradaccord.data.dataset import Dataset
from gradaccord.data.files import hub
from gradaccord.data.images import class_splits

Mutate = Callable[[bytes], st.SearchStrategy[bytes]]


@dataclass(frozen=True)
class Seed:
    """files: by their path in a folder. read: is given the folder. mutate: of the file that suffers.

    slow: seconds rather than milliseconds, so that few examples are tried.
    """

    files: Mapping[str, bytes]
    read: Callable[[Path], Any]
    mutate: Mutate = damaged
    slow: bool = False

    def write(self, folder: Path, changes: Mapping[str, bytes] | None = None) -> None:
        """Into a folder, some of them with other contents."""
        for name, content in {**self.files, **(changes or {})}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def lines(*rows: Any) -> bytes:
    """JSON lines."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def picture(kind: str = "PNG", size: int = 8) -> bytes:
    """An image file."""
    from PIL import Image

    stream = io.BytesIO()
    pixels = np.arange(size * size * 3, dtype=np.uint8).reshape(size, size, 3)
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def idx(values: torch.Tensor) -> bytes:
    """An idx file of bytes."""
    head = bytes([0, 0, 8, values.dim()]) + struct.pack(f">{values.dim()}I", *values.shape)
    return head + values.to(torch.uint8).numpy().tobytes()


def svhn(compressed: bool) -> bytes:
    """SVHN's MATLAB file of four images."""
    from scipy.io import savemat

    stream = io.BytesIO()
    pixels = np.arange(4 * 3 * 32 * 32).astype(np.uint8).reshape(32, 32, 3, 4)
    digits = np.array([[1], [10], [9], [2]], dtype=np.uint8)
    savemat(stream, {"X": pixels, "y": digits}, do_compression=compressed)
    return stream.getvalue()


def cifar(count: int = 2) -> dict[str, bytes]:
    """CIFAR-10's Python batches."""
    pixels = np.arange(count * 3072).astype(np.uint8).reshape(count, 3072)
    batch = {b"data": pixels, b"labels": list(range(count))}
    return {
        "data_batch_1": pickle.dumps(batch, protocol=2),
        "test_batch": pickle.dumps(batch, protocol=2),
        "batches.meta": pickle.dumps({b"label_names": [b"cat", b"dog"]}, protocol=2),
    }


def tarred(files: Mapping[str, bytes]) -> bytes:
    """A tar.gz archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def parquet(rows: list[Any]) -> bytes:
    """A parquet file."""
    from pyarrow import Table
    from pyarrow import parquet as files

    stream = io.BytesIO()
    files.write_table(Table.from_pylist(rows), stream)
    return stream.getvalue()


def arrow(rows: list[Any], stream: bool) -> bytes:
    """Arrow's stream, or its file, which is also Feather's."""
    from pyarrow import Table, ipc

    table, written = Table.from_pylist(rows), io.BytesIO()
    with (ipc.new_stream if stream else ipc.new_file)(written, table.schema) as writer:
        writer.write_table(table)
    return written.getvalue()


def zstd(content: bytes) -> bytes:
    """Packed by Zstandard."""
    import pyarrow

    packed = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(content)
    return packed.getvalue().to_pybytes()


@st.composite
def damaged_parquet(draw: st.DrawFn, content: bytes) -> bytes:
    """A parquet file whose cells are of other types, or that is damaged as bytes."""
    from pyarrow import ArrowException
    from pyarrow import parquet as files

    if draw(st.booleans()):
        return draw(damaged(content))
    first, *rest = files.read_table(io.BytesIO(content)).to_pylist()
    try:
        return parquet([draw(changed(first)), *rest])
    except (ArrowException, AttributeError, OverflowError, UnicodeError):  # which parquet cannot hold
        return draw(damaged(content))


def tokenised(found: Dataset) -> None:
    """What was read, as its task encodes it: a text that is none must not come so far."""
    from gradaccord.models.trunks.characters import CharacterTokens
    from gradaccord.tasks.registry import task_for

    task, tokens = task_for(found), CharacterTokens("abc ")
    for examples in found.splits.values():
        for example in examples:
            assert isinstance(example.id, str)
            hash(example.cut_key)
            example.shown.encode()
            task.gold(example)
        if found.kind not in ("summarization", "image"):
            task.encode(examples, tokens)


def own(kind: str, name: str, columns: Any, folder: Path) -> Any:
    """Files of the user's own."""
    return data.read(kind, {"train": folder / name}, columns=columns or None)


def named(name: str, folder: Path) -> Any:
    """A published set."""
    return data.load(name, folder)


def fewshot(name: str, folder: Path) -> Any:
    """Images in class folders, decoded without the cache's help."""
    return class_splits.load(folder / name)


def fewshot_set(name: str, folder: Path) -> Any:
    """A published set of few-shot tasks."""
    return class_splits.load(name, folder)


def trunk(folder: Path) -> Any:
    """A model folder."""
    from gradaccord.models.trunks.loading import load_trunk

    return load_trunk(folder)


def saved_model(folder: Path) -> Any:
    """A model with its tasks."""
    from gradaccord.tasks.saved_models import load

    return load(folder)


def from_hub(folder: Path) -> Any:
    """A folder that Hugging Face `datasets` reads."""
    return hub.load(folder / "set", kind="classification", cache=folder / "cache")


SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "an Ann of Ulm",
                    "qas": [
                        {
                            "id": "q1",
                            "question": "who?",
                            "is_impossible": False,
                            "answers": [{"text": "Ann", "answer_start": 3}],
                        }
                    ],
                }
            ],
        }
    ],
}
MRQA = (
    {"header": {"dataset": "x"}},
    {
        "context": "an Ann of Ulm",
        "qas": [
            {
                "qid": "a",
                "question": "who?",
                "detected_answers": [{"text": "Ann", "char_spans": [[3, 5]]}],
            }
        ],
    },
)
NEWSQA = {
    "data": [
        {"storyId": "s", "type": "train", "text": "an Ann of Ulm",
         "questions": [{"q": "who?", "consensus": {"s": 3, "e": 7}}]}
    ]
}  # fmt: skip
MULTIRC = {
    "idx": 0,
    "passage": {
        "text": "p",
        "questions": [{"idx": 0, "question": "q", "answers": [{"idx": 0, "text": "a", "label": 1}]}],
    },
}
RECORD = {
    "idx": 0,
    "passage": {"text": "Ann in Ulm", "entities": [{"start": 0, "end": 2}]},
    "qas": [{"idx": 0, "query": "@placeholder x", "answers": [{"start": 0, "end": 2, "text": "Ann"}]}],
}
WSC = {
    "idx": 0,
    "text": "Ann said she",
    "target": {"span1_index": 0, "span1_text": "Ann", "span2_index": 2, "span2_text": "she"},
    "label": True,
}
WIC = {
    "idx": 0, "word": "bank", "sentence1": "a bank", "sentence2": "banks", "start1": 2, "end1": 6,
    "start2": 0, "end2": 5, "label": True,
}  # fmt: skip
QUASAR = {
    "train_questions.json": lines({"uid": "u", "question": "who?", "answer": "ann", "tags": []}),
    "train_contexts.json": lines({"uid": "u", "contexts": [[0.5, "an Ann of Ulm"]]}),
}
CONLL = b"Ann\tB-PER\nin\tO\nUlm\tB-LOC\n\nUlm\tB-LOC\n"
TSV = b"sentence\tlabel\na film\t1\nno film\t0\n"
PAIRS = b"\tid\tsentence1\tsentence2\tis_duplicate\n0\tx\ta\tb\t1.0\n1\ty\tc\td\t0.0\n"
PICTURES = {f"train/{name}/{i}.png": picture() for name in "abcdefghi" for i in range(2)}


def _text_seeds() -> dict[str, Seed]:
    found = {}
    for kind, (row, columns, _) in KIND_ROWS.items():
        found[f"own {kind} jsonl"] = Seed(
            {"a.jsonl": lines(row, row)}, partial(own, kind, "a.jsonl", columns), damaged_lines
        )
        found[f"own {kind} parquet"] = Seed(
            {"a.parquet": parquet([row])}, partial(own, kind, "a.parquet", columns), damaged_parquet
        )
    text = {"sentence": "a film", "label": "good", "idx": 3}
    for kind, label, another in (("classification", "good", "bad"), ("regression", 0.5, 1)):
        row, second = {**text, "label": label}, {**text, "label": another}
        found[f"own {kind} json"] = Seed(
            {"a.json": json.dumps([row, second]).encode()},
            partial(own, kind, "a.json", {}),
            damaged_json,
        )
        found[f"own {kind} jsonl"] = Seed(
            {"a.jsonl": lines(row, second)}, partial(own, kind, "a.jsonl", {}), damaged_lines
        )
        found[f"own {kind} parquet"] = Seed(
            {"a.parquet": parquet([row, second])},
            partial(own, kind, "a.parquet", {}),
            damaged_parquet,
        )
    read_csv = partial(own, "classification", "a.csv", {})
    found["own csv"] = Seed({"a.csv": b'sentence,label\n"a ""film""",1\nno,0\n'}, read_csv)
    found["own csv gz"] = Seed(
        {"a.csv.gz": gzip.compress(TSV.replace(b"\t", b","))},
        partial(own, "classification", "a.csv.gz", {}),
    )
    for name, content in {
        "own semicolon csv": b"\xef\xbb\xbfsentence;label\r\na, b;1\r\nno;0\r\n",
        "own tab csv": TSV,
        "own quoted tab csv": b'"sentence"\t"label"\n"a ""b"""\t"1"\n"c"\t"0"\n',
        "own utf-16 csv": TSV.decode().encode("utf-16"),
    }.items():
        found[name] = Seed({"a.csv": content}, read_csv)
    headerless = partial(own, "classification", "a.csv", ["label", "_", "first"])
    found["own csv without a header"] = Seed({"a.csv": b'"3","a, b","c"\n"1","d","e"\n'}, headerless)
    found["own pipes by number"] = Seed(
        {"a.csv": b"3|a|b\n1|c|d\n"},
        partial(own, "classification", "a.csv", {"label": "0", "first": ["1", "2"]}),
    )
    for ending, packed in (("bz2", bz2.compress(TSV)), ("zst", zstd(TSV))):
        found[f"own csv {ending}"] = Seed(
            {f"a.csv.{ending}": packed}, partial(own, "classification", f"a.csv.{ending}", {})
        )
    for ending, stream in (("arrow", True), ("feather", False)):
        found[f"own {ending}"] = Seed(
            {
                f"a.{ending}": arrow(
                    [{"sentence": "a", "label": 1}, {"sentence": "b", "label": 0}], stream
                )
            },
            partial(own, "classification", f"a.{ending}", {}),
        )
    found["own tsv"] = Seed({"a.tsv": TSV}, partial(own, "classification", "a.tsv", {}))
    found["own txt"] = Seed({"a.txt": b"a line\nanother\n"}, partial(own, "masked_lm", "a.txt", {}))
    found["own conll"] = Seed({"a.conll": CONLL}, partial(own, "tagging", "a.conll", {}))
    found["own squad"] = Seed(
        {"a.json": json.dumps(SQUAD).encode()},
        partial(own, "question_answering", "a.json", {}),
        damaged_json,
    )
    for name, file, content, mutate in (
        ("squad1", "train-v1.1.json", json.dumps(SQUAD).encode(), damaged_json),
        ("race", "train/RACE.jsonl", lines(*MRQA), damaged_lines),
        ("newsqa", "combined-newsqa-data-v1.json", json.dumps(NEWSQA).encode(), damaged_json),
        ("multirc", "MultiRC/train.jsonl", lines(MULTIRC, MULTIRC), damaged_lines),
        ("record", "ReCoRD/train.jsonl", lines(RECORD, RECORD), damaged_lines),
        ("wsc", "WSC/train.jsonl", lines(WSC, WSC), damaged_lines),
        ("wic", "WiC/train.jsonl", lines(WIC, WIC), damaged_lines),
        ("copa", "COPA/train.jsonl", lines(KIND_ROWS["multiple_choice"][0]), damaged_lines),
        ("sst2", "SST-2/train.tsv", TSV, damaged),
        ("sst", "sst-dev.txt", b"3 ||| a film\n0 ||| no film\n", damaged),
        ("quora", "quora-train.csv", PAIRS, damaged),
        ("sts", "sts-test-student.csv", PAIRS.replace(b"\tis_duplicate", b""), damaged),
        (
            "xnli/en",
            "xnli.dev.tsv",
            b"language\tgold_label\tsentence1\tsentence2\nen\tneutral\ta\tb\n",
            damaged,
        ),
        ("myner/my", "train_v5.conll", b"Ann\tS-PER\nin\tO\nNew\tB-LOC\nUlm\tE-LOC\n", damaged),
        (
            "tydiqa/sw",
            "tydiqa-goldp-v1.1-train.json",
            json.dumps(SQUAD).replace('"q1"', '"swahili-1"').encode(),
            damaged_json,
        ),
        ("xnli/de", "xnli/train-de.tsv", b"a\tb\tneutral\nc\td\tentailment\n", damaged),
        ("sst", "ids-sst-train.csv", b"\tid\tsentence\tsentiment\n0\tx\ta film\t3\n", damaged),
        ("conll2003/en", "eng.train", b"Ann NN I-NP I-PER\nin IN O O\n\nUlm NN I-NP I-LOC\n", damaged),
        ("uner/en_ewt", "en_ewt-ud-train.iob2", b"# x\n1\tAnn\tB-PER\t-\n2\tin\tO\t-\n", damaged),
        ("mahaner/mr", "train_iob.txt", b"word\ttag\tn\nAnn\tBNEP\t1\nin\tO\t2\n", damaged),
        ("ntrex/deu", "newstest2019-ref.deu.txt", b"ein Satz\nzwei\n", damaged),
        (
            "reuters",
            "reuters21578_lead_headline.jsonl",
            lines({"lewissplit": "TRAIN", "document": "long", "summary": "short"}),
            damaged_lines,
        ),
        (
            "google-compression",
            "sent-comp.train1.json",
            json.dumps({"graph": {"sentence": "long"}, "compression": {"text": "short"}}).encode(),
            damaged_json,
        ),
    ):
        found[f"set {name} {file}"] = Seed({file: content}, partial(named, name), mutate)
    found["set gigaword references"] = Seed(
        {"Giga/input.txt": b"long\n", "Giga/task1_ref0.txt": b"a\n", "Giga/task1_ref1.txt": b"b\n"},
        partial(named, "gigaword"),
    )
    found["set quasar-t"] = Seed(QUASAR, partial(named, "quasar-t"), damaged_lines)
    found["set gigaword"] = Seed(
        {"train.article.txt": b"long one\nlong two\n", "train.title.txt": b"one\ntwo\n"},
        partial(named, "gigaword"),
    )
    found["set in zip"] = Seed({"glue.zip": zipped({"SST-2/train.tsv": TSV})}, partial(named, "sst2"))
    found["list data"] = Seed(
        {"glue.zip": zipped({"SST-2/train.tsv": TSV, "MultiRC/train.jsonl": lines(MULTIRC)})}, data.find
    )
    return found


def _image_seeds() -> dict[str, Seed]:
    pixels, digits = idx(torch.arange(2 * 16).view(2, 4, 4)), idx(torch.tensor([1, 2]))
    binary = {"data_batch_1.bin": bytes(2 * 3073), "batches.meta.txt": b"cat\ndog\n"}
    return {
        "idx": Seed(
            {"train-images-idx3-ubyte": pixels, "train-labels-idx1-ubyte": digits},
            partial(named, "mnist"),
        ),
        "idx gz": Seed(
            {
                "train-images-idx3-ubyte.gz": gzip.compress(pixels),
                "train-labels-idx1-ubyte": digits,
            },
            partial(named, "mnist"),
        ),
        "svhn": Seed({"train_32x32.mat": svhn(False)}, partial(named, "svhn")),
        "svhn compressed": Seed({"train_32x32.mat": svhn(True)}, partial(named, "svhn")),
        "cifar": Seed(cifar(), partial(named, "cifar10")),
        "cifar binary": Seed(binary, partial(named, "cifar10")),
        "cifar tar": Seed({"cifar-10-python.tar.gz": tarred(cifar())}, partial(named, "cifar10")),
        "class folders": Seed({f"p/{n}": c for n, c in PICTURES.items()}, partial(fewshot, "p")),
        "class folders zip": Seed({"p.zip": zipped(PICTURES)}, partial(fewshot, "p.zip")),
        "omniglot": Seed(
            {f"omniglot/{part}.zip": zipped({f"Greek/{c}/{c}.png": picture() for c in "ab"})
             for part in ("images_background", "images_evaluation")},
            partial(fewshot_set, "omniglot"),
        ),
        "fashion mnist": Seed(
            {f"fashion_mnist/{part}-{what}-ubyte": content for part in ("train", "t10k")
             for what, content in (("images-idx3", idx(torch.arange(160).view(10, 4, 4))),
                                   ("labels-idx1", idx(torch.arange(10))))},
            partial(fewshot_set, "fashion_mnist"),
        ),
        "jpeg": Seed({**{f"p/{n}": c for n, c in PICTURES.items()}, "p/train/a/0.png": picture("JPEG")},
                     partial(fewshot, "p")),
        "list images": Seed(
            {
                "mnist/train-images-idx3-ubyte.gz": gzip.compress(pixels),
                "svhn/train_32x32.mat": svhn(True),
                "cub200/birds.zip": zipped(PICTURES),
            },
            data.find,
        ),
    }  # fmt: skip


def _folder(write: Callable[[Path], Any]) -> dict[str, bytes]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        return {
            p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
        }


def _characters(folder: Path) -> None:
    from gradaccord.models.trunks.characters import CharacterTokens, CharacterTrunk

    tokens = CharacterTokens("abc")
    CharacterTrunk(tokens.size, width=8, depth=1).save(folder)
    tokens.save(folder)


def _conv4(folder: Path) -> None:
    from gradaccord.models.trunks.images import Conv4Trunk

    Conv4Trunk(filters=2).save(folder)


def _bert(folder: Path) -> None:
    from small_models import save_checkpoint

    save_checkpoint(folder, "bert", vocabulary=60, width=8, depth=1, positions=16)


def _with_tasks(folder: Path) -> None:
    from gradaccord.models.multitask import MultiTaskModel
    from gradaccord.models.trunks.characters import CharacterTokens, CharacterTrunk
    from gradaccord.tasks.registry import build
    from gradaccord.tasks.saved_models import save

    tokens = CharacterTokens("abc")
    trunk = CharacterTrunk(tokens.size, width=8, depth=1)
    task = build("classification", labels=("a", "b"))
    model = MultiTaskModel(trunk, {"x": task.new_head(trunk)}, {"x": "x"})
    save(folder / "model", model, tokens, {"x": task})


def _model_seeds() -> dict[str, Seed]:
    tasks = {name.removeprefix("model/"): c for name, c in _folder(_with_tasks).items()}
    rows = lines({"text": "a", "label": "x"}, {"text": "b", "label": "y"})
    return {
        "model characters": Seed(_folder(_characters), trunk, damaged_any),
        "model conv4": Seed(_folder(_conv4), trunk, damaged_any),
        "model bert": Seed(_folder(_bert), trunk, damaged_any, slow=True),
        "model with tasks": Seed(tasks, saved_model, damaged_any),
        "hub folder": Seed({"set/train.jsonl": rows}, from_hub, damaged_lines, slow=True),
    }  # fmt: skip


@st.composite
def damaged_any(draw: st.DrawFn, content: bytes) -> bytes:
    """JSON by its members, anything else by its bytes."""
    return draw(damaged_json(content) if content[:1] in (b"{", b"[") else damaged(content))


@cache
def seeds() -> dict[str, Seed]:
    """All of them by name."""
    from fuzz_runs import run_seeds

    return {**_text_seeds(), **_image_seeds(), **_model_seeds(), **run_seeds()}
