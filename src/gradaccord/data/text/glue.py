"""GLUE (Wang et al. 2018): a folder of tab-separated files for each task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradaccord.data.files.layouts import Layout, PublishedSet
from gradaccord.data.text.tsv import Tsv

ENTAILMENT = ("entailment", "not_entailment")
NLI = ("entailment", "neutral", "contradiction")
F1 = {"average": "binary"}

COLA = Tsv(3, label=1, id=None, header=False)  # of train and dev, which have no header
MRPC = Tsv("#1 String", "#2 String", "Quality")
PAIR = Tsv("sentence1", "sentence2")
MNLI = Tsv("sentence1", "sentence2", "gold_label")
QQP = Tsv("question1", "question2", "is_duplicate", "id", skip_malformed=True)


def _set(
    name: str,
    folder: str,
    labels: tuple[str, ...],
    table: Tsv,
    *layouts: Layout,
    kind: str = "classification",
    version: str = "",
    options: Mapping[str, Any] | None = None,
    aliases: tuple[str, ...] = (),
) -> PublishedSet:
    """version: what the names of the dev and test files end in."""
    names = {f"{split}{version}": split for split in ("dev", "test")}
    files = table.layout(rf"{folder}/(?P<split>train|{'|'.join(names)})\.tsv", names=names)
    pairs = {} if table.second is None else {"pair": "cross"}
    options = pairs | dict(options or {})
    return PublishedSet(name, kind, (*layouts, files), labels, options=options, aliases=aliases)


SETS = (
    _set(
        "cola",
        "CoLA",
        ("unacceptable", "acceptable"),
        Tsv("sentence"),
        COLA.layout(r"CoLA/(?P<split>train|dev)\.tsv"),
    ),
    _set("sst2", "SST-2", ("negative", "positive"), Tsv("sentence"), aliases=("sst-2",)),
    _set(
        "mrpc",
        "MRPC",
        ("not_equivalent", "equivalent"),
        MRPC,
        MRPC.layout(r"MRPC/(?P<split>train|dev)\.tsv"),
        MRPC.layout(r"msr_paraphrase_(?P<split>train|test)\.txt"),
        options=F1,
    ),
    _set(
        "sts-b",
        "STS-B",
        (),
        Tsv("sentence1", "sentence2", "score"),
        kind="regression",
        aliases=("stsb",),
    ),
    _set("qqp", "QQP", ("not_duplicate", "duplicate"), QQP, options=F1),
    _set("mnli", "MNLI", NLI, MNLI, version="_matched"),
    _set("mnli-mm", "MNLI", NLI, MNLI, version="_mismatched"),
    _set("qnli", "QNLI", ENTAILMENT, Tsv("question", "sentence")),
    _set("glue-rte", "RTE", ENTAILMENT, PAIR),
    _set("wnli", "WNLI", ("not_entailment", "entailment"), PAIR),
)
