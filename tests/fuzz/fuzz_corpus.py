# ruff: noqa: E501
"""Bad files that once ended in a traceback: which seed, what is changed, and a part of the refusal."""

from __future__ import annotations

import copy
import io
import json
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from fuzz_mutations import DEEP
from fuzz_runs import comparison_folder
from fuzz_seeds import (
    MRQA,
    MULTIRC,
    NEWSQA,
    QUASAR,
    RECORD,
    SQUAD,
    TSV,
    WSC,
    lines,
    parquet,
    picture,
    seeds,
    svhn,
    zipped,
)  # fmt: skip

Changes = Callable[[], dict[str, bytes]]
BOM = b"\xef\xbb\xbf"


def with_value(value: Any, path: str, new: Any) -> Any:
    """A JSON value with another member at a path like "data.0.title"."""
    value = copy.deepcopy(value)
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    holder = value
    for part in way:
        holder = holder[part]
    holder[last] = new
    return value


def squad(path: str, new: Any) -> Changes:
    return lambda: {"a.json": json.dumps(with_value(SQUAD, path, new)).encode()}


def row(file: str, content: Any, path: str, new: Any) -> Changes:
    return lambda: {file: lines(with_value(content, path, new))}


def config(folder: str, **changes: Any) -> Changes:
    def made() -> dict[str, bytes]:
        whole = json.loads(seeds()[folder].files["config.json"])
        return {"config.json": json.dumps({**whole, **changes}).encode()}

    return made


def encrypted() -> dict[str, bytes]:
    """The flag of encryption in both heads of the only member."""
    content = bytearray(zipped({"SST-2/train.tsv": TSV}, zipfile.ZIP_STORED))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return {"glue.zip": bytes(content)}


def unsupported() -> dict[str, bytes]:
    """A compression that no zip module knows."""
    content = bytearray(zipped({"SST-2/train.tsv": TSV}, zipfile.ZIP_STORED))
    content[8] = content[content.index(b"PK\x01\x02") + 10] = 99
    return {"glue.zip": bytes(content)}


def broken() -> dict[str, bytes]:
    """Bytes of the compressed data."""
    content = bytearray(zipped({"SST-2/train.tsv": TSV * 50}))
    place = content.index(b"train.tsv") + len(b"train.tsv") + 2
    content[place : place + 8] = b"\xff" * 8
    return {"glue.zip": bytes(content)}


def bomb() -> dict[str, bytes]:
    """A PNG that says it has 400 million pixels."""
    content = bytearray(picture())
    content[16:24] = struct.pack(">II", 20_000, 20_000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return {"p/train/a/0.png": bytes(content)}


def cell(new: Any) -> Changes:
    return lambda: {"a.parquet": parquet([{"text": new, "id": "i"}])}


def flipped_mat() -> dict[str, bytes]:
    """One bit in the type of X's numbers: scipy 1.17 ends the interpreter (SIGSEGV) over it."""
    content = bytearray(svhn(False))
    content[185] ^= 1
    return {"train_32x32.mat": bytes(content)}


def label(number: int) -> dict[str, bytes]:
    data = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, number]}
    return {"data_batch_1": pickle.dumps(data, protocol=2)}


def script() -> dict[str, bytes]:
    """A loading script, as `datasets` once ran them."""
    return {"set/set.py": b"raise SystemExit(3)\n"}


def names(found: Any) -> Changes:
    return lambda: {"batches.meta": pickle.dumps({b"label_names": found}, protocol=2)}


def metrics() -> dict[str, bytes]:
    whole = json.loads(seeds()["run folder"].files["run/results.json"])
    return {"run/results.json": json.dumps({**whole, "metrics": {}}).encode()}


def saved() -> dict[str, bytes]:
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    return {"train_32x32.mat": stream.getvalue()}


CASES: dict[str, tuple[str, Changes, str]] = {
    "squad: answers are a number": ("own squad", squad("data.0.paragraphs.0.qas.0.answers", 3), "'answers'"),
    "squad: an answer is a text": ("own squad", squad("data.0.paragraphs.0.qas.0.answers", ["x"]), "'text'"),
    "squad: a question is a list": ("own squad", squad("data.0.paragraphs.0.qas.0", []), "'id'"),
    "squad: a start is true": ("own squad", squad("data.0.paragraphs.0.qas.0.answers.0.answer_start", True), "not at character True"),
    "mrqa: spans are numbers": ("set race train/RACE.jsonl", row("train/RACE.jsonl", MRQA[1], "qas.0.detected_answers.0.char_spans", [1]), "RACE.jsonl"),
    "mrqa: a context is a number": ("set race train/RACE.jsonl", row("train/RACE.jsonl", MRQA[1], "context", 5), "'context' is 5: give a text"),
    "newsqa: a span is a text": ("set newsqa combined-newsqa-data-v1.json", lambda: {"combined-newsqa-data-v1.json": json.dumps(with_value(NEWSQA, "data.0.questions.0.consensus.s", "3")).encode()}, "give a whole number"),
    "multirc: a passage is a number": ("set multirc MultiRC/train.jsonl", row("MultiRC/train.jsonl", MULTIRC, "passage.text", 5), "give a text"),
    "multirc: a question is a text": ("set multirc MultiRC/train.jsonl", row("MultiRC/train.jsonl", MULTIRC, "passage.questions", ["q"]), "MultiRC/train.jsonl"),
    "record: an entity is a number": ("set record ReCoRD/train.jsonl", row("ReCoRD/train.jsonl", RECORD, "passage.entities", [1]), "there is no field 'start'"),
    "wsc: an index is a text": ("set wsc WSC/train.jsonl", row("WSC/train.jsonl", WSC, "target.span1_index", "0"), "give a whole number"),
    "quasar: a context without a score": ("set quasar-t", lambda: {**QUASAR, "train_contexts.json": lines({"uid": "u", "contexts": ["x"]})}, "cannot be read"),
    "jsonl: half a surrogate pair": ("own masked_lm jsonl", lambda: {"a.jsonl": b'{"text": "\\ud800"}'}, "cannot be read"),
    "google: half a surrogate pair": ("set google-compression sent-comp.train1.json", lambda: {"sent-comp.train1.json": b'{"graph": {"sentence": "\\ud800"}, "compression": {"text": "x"}}'}, "sent-comp.train1.json cannot be read"),
    "jsonl: a number of 5000 digits": ("own masked_lm jsonl", lambda: {"a.jsonl": b'{"text": ' + b"9" * 5000 + b"}"}, "line 1 cannot be read"),
    "jsonl: a column of 5000 digits": ("own question_answering jsonl", lambda: {"a.jsonl": b'{"' + b"9" * 5000 + b'": "x"}'}, "there is no column 'question'"),
    "jsonl: nested too deep": ("own masked_lm jsonl", lambda: {"a.jsonl": b'{"text": ' + b"[" * DEEP}, "line 1 cannot be read (RecursionError"),
    "json: nested too deep": ("own classification json", lambda: {"a.json": b"[" * DEEP}, "RecursionError"),
    "parquet: a cell of bytes": ("own masked_lm parquet", cell(b"\xff"), "of the type bytes: give a text"),
    "parquet: a cell of objects": ("own masked_lm parquet", cell({"x": 1}), "of the type dict: give a text"),
    "parquet: cut off": ("own masked_lm parquet", lambda: {"a.parquet": b"PAR1PAR1"}, "a.parquet cannot be read"),
    "text: only a byte-order mark": ("own txt", lambda: {"a.txt": BOM}, "a.txt is empty"),
    "tsv: only a byte-order mark": ("own tsv", lambda: {"a.tsv": BOM + b"\n"}, "a.tsv is empty"),
    "tsv: a header of 5000 digits": ("set sst2 SST-2/train.tsv", lambda: {"SST-2/train.tsv": b"9" * 5000}, "there is no column"),
    "zip: encrypted": ("set in zip", encrypted, "encrypted"),
    "zip: an unknown compression": ("set in zip", unsupported, "NotImplementedError"),
    "zip: broken compression": ("set in zip", broken, "cannot be read"),
    "image: above the bomb limit": ("class folders", bomb, "p/train/a/0.png cannot be read (DecompressionBomb"),
    "idx: no dimensions": ("idx", lambda: {"train-images-idx3-ubyte": b"\0\0\x08\0" + b"\0"}, "is not an idx file"),
    "idx: one dimension": ("idx", lambda: {"train-images-idx3-ubyte": b"\0\0\x08\1\0\0\0\1\0"}, "must be uint8"),
    "cifar: names are numbers": ("cifar", names([1, 2]), "batches.meta in"),
    "cifar: names are a number": ("cifar", names(5), "batches.meta in"),
    "cifar: a label without a class": ("cifar", lambda: label(7), "has the label 7 where there are 2 classes"),
    "svhn: a flipped bit": ("svhn", flipped_mat, "train_32x32.mat cannot be read"),
    "svhn: another format": ("svhn", saved, "not a MATLAB file of version 5"),
    "hub: a script": ("hub folder", script, "could not load"),
    "model: quantised": ("model bert", config("model bert", quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True}), "cannot be loaded"),
    "model: no heads": ("model bert", config("model bert", num_attention_heads=0), "cannot be loaded"),
    "model: a width of text": ("model bert", config("model bert", hidden_size="wide"), "cannot be loaded"),
    "model: a billion layers": ("model bert", config("model bert", num_hidden_layers=10**9), "`num_hidden_layers` is 1000000000"),
    "model: a billion positions": ("model bert", config("model bert", max_position_embeddings=10**9), "`max_position_embeddings`"),
    "model: filters of text": ("model conv4", config("model conv4", filters="2"), "`filters` is '2': it must be a whole number"),
    "model: a width beyond memory": ("model characters", config("model characters", width=9_000_000), "do not belong together"),
    "model: characters that are none": ("model characters", lambda: {"characters.json": b"[1, {}]"}, "characters.json cannot be read"),
    "run: results nested too deep": ("run folder", lambda: {"run/results.json": b"[" * DEEP}, "results.json is damaged (maximum recursion"),
    "run: half a surrogate pair": ("run folder", lambda: {"run/results.json": b'{"seed": "\\ud800"}'}, "results.json is damaged ('utf-8' codec"),
    "run: a task without its metric": ("run folder", metrics, "has no metric"),
    "run: about is a list": ("run folder", lambda: {"run/about.json": b"[1]"}, "about.json is damaged"),
    "comparison: scores of no split": ("comparison folder", lambda: {"run/comparison.json": json.dumps({**json.loads(comparison_folder()["comparison.json"]), "split": ""}).encode()}, "comparison.json is damaged"),
    "comparison: a command of numbers": ("comparison folder", lambda: {"run/about.json": b'{"command": [1], "started": 2}'}, "about.json is damaged"),
    "few-shot: settings are a list": ("fewshot settings", lambda: {"settings.json": b"[1]"}, "settings.json is damaged"),
    "predict: nested too deep": ("predict file", lambda: {"a.jsonl": b'{"a":' * DEEP}, "line 1 cannot be read (RecursionError"),
    "model: no description of tasks": ("model with tasks", lambda: {"gradaccord.json": b'{"format": 1, "tasks": []}'}, "gradaccord.json cannot be read"),
}  # fmt: skip
