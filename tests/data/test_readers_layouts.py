"""Each set in the layout that its publisher ships, in small files made here: names, splits, fields."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from gradaccord import data
from gradaccord.data.examples import Candidate, Choices, Cloze, Coreference, Question, Text, WordPair
from gradaccord.tasks.registry import options, task_for
from gradaccord.tasks.transfer import task_by_head


def put(folder: Path, path: str, content: str | bytes) -> Path:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    raw = content if isinstance(content, bytes) else content.encode()
    place.write_bytes(gzip.compress(raw) if path.endswith(".gz") else raw)
    return place


def tsv(*rows: tuple[object, ...]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def jsonl(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def squad(*asked: tuple[str, str, list[tuple[str, int]]], context: str, **more: object) -> str:
    qas = [
        {
            "id": id,
            "question": question,
            "answers": [{"text": t, "answer_start": s} for t, s in answers],
            **more,
        }
        for id, question, answers in asked
    ]
    return json.dumps({"version": "1", "data": [{"paragraphs": [{"context": context, "qas": qas}]}]})


def only(name: str, folder: Path, split: str = "train", **options: object):
    """The first example of a split, after the listing agreed with the reader."""
    dataset = data.load(name, folder, **options)
    listed = {found.name: found for found in data.find(folder)}[dataset.name]
    assert dict(listed.counts) == dataset.counts
    assert not listed.problem
    return dataset.split(split)[0]


# --- sentences and pairs ----------------------------------------------------------------------------


def test_minbert_files_with_quotes_and_the_test_header_that_is_one_name_short(tmp_path):
    put(
        tmp_path,
        "data/ids-sst-train.csv",
        tsv(("", "id", "sentence", "sentiment"), (0, "a", " Good .", 3)),
    )
    put(tmp_path, "data/ids-sst-test-student.csv", "\tid\tsentence\n0\t0.0\tb\t Bad .\n")
    quoted = '"He said ""no"" twice."'
    rows = ("", "id", "sentence1", "sentence2", "is_duplicate"), (7, "c", quoted, 'say "x"', "1.0")
    put(tmp_path, "data/quora-train.csv", tsv(*rows))
    rows = ("", "id", "sentence1", "sentence2", "similarity"), (7, "d", "A", "B", "2.5")
    put(tmp_path, "data/sts-train.csv.gz", tsv(*rows))
    put(
        tmp_path,
        "data/sts-test-student.csv",
        tsv(("", "id", "sentence1", "sentence2"), (7, "e", "A", "B")),
    )
    sst = data.load("sst", tmp_path)
    assert sst.splits == {
        "train": [Text("Good .", None, 3, "a")],
        "test": [Text("Bad .", None, None, "b")],
    }
    assert only("quora", tmp_path) == Text('He said "no" twice.', 'say "x"', 1, "c")
    assert only("sts", tmp_path) == Text("A", "B", 2.5, "d")
    assert only("sts", tmp_path, "test") == Text("A", "B", None, "e")


def test_sst_with_bars(tmp_path):
    put(tmp_path, "sst-train.txt", "4 ||| Great fun\n0 ||| Dull\n")
    assert only("sst", tmp_path) == Text("Great fun", None, 4, "train-0")


def test_glue_as_published(tmp_path):
    put(tmp_path, "glue/CoLA/train.tsv", tsv(("gj04", 1, "", "It is."), ("gj04", 0, "*", "Is it it.")))
    put(tmp_path, "glue/CoLA/test.tsv", tsv(("index", "sentence"), (0, "Is it?")))
    put(tmp_path, "glue/SST-2/dev.tsv", tsv(("sentence", "label"), ("fun ", 1)))
    head = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    put(tmp_path, "glue/MRPC/train.tsv", b"\xef\xbb\xbf" + tsv(head, (1, 5, 6, '" A', "B")).encode())
    put(tmp_path, "glue/MRPC/msr_paraphrase_test.txt", tsv(head, (0, 5, 6, "C", "D")))
    put(
        tmp_path,
        "glue/QNLI/train.tsv",
        tsv(("index", "question", "sentence", "label"), (3, "Q", "S", "entailment")),
    )
    head = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    put(tmp_path, "glue/QQP/train.tsv", tsv(head, (3, 1, 2, "Q", "S", 1), (4, "cut off")))
    head = ("index", "genre", "sentence1", "sentence2", "label1", "gold_label")
    row = (0, "fiction", "P", "H", "neutral", "contradiction")
    put(tmp_path, "glue/MNLI/train.tsv", tsv(head, row))
    put(tmp_path, "glue/MNLI/dev_matched.tsv", tsv(head, row))
    put(tmp_path, "glue/MNLI/dev_mismatched.tsv", tsv(head, row, row))
    put(tmp_path, "glue/MNLI/test_matched.tsv", tsv(head[:4], row[:4]))
    put(
        tmp_path,
        "glue/STS-B/dev.tsv",
        tsv(("index", "sentence1", "sentence2", "score"), (0, "A", "B", 3.8)),
    )
    put(
        tmp_path,
        "glue/WNLI/dev.tsv",
        tsv(("index", "sentence1", "sentence2", "label"), (0, "A", "B", 1)),
    )
    assert [e.label for e in data.load("cola", tmp_path).split("train")] == [1, 0]
    assert only("cola", tmp_path, "test") == Text("Is it?", None, None, "0")
    assert only("sst2", tmp_path, "dev").first == "fun"
    assert only("mrpc", tmp_path) == Text('" A', "B", 1, "train-0")
    assert only("mrpc", tmp_path, "test").label == 0
    assert only("qnli", tmp_path) == Text("Q", "S", 0, "3")
    assert data.load("qqp", tmp_path).notes == {"train: malformed lines left out": 1}
    assert only("qqp", tmp_path) == Text("Q", "S", 1, "3")
    assert only("mnli", tmp_path, "dev") == Text("P", "H", 2, "0")
    assert only("mnli", tmp_path, "test").label is None
    assert data.load("mnli-mm", tmp_path).counts == {"train": 1, "dev": 2}
    assert only("sts-b", tmp_path, "dev").label == 3.8
    assert only("wnli", tmp_path, "dev").label == 1
    assert data.load("glue/cola", tmp_path).name == "cola"


def test_superglue_as_published(tmp_path):
    put(
        tmp_path,
        "BoolQ/val.jsonl",
        jsonl({"question": "is it", "passage": "It is.", "idx": 4, "label": True}),
    )
    put(tmp_path, "BoolQ/test.jsonl", jsonl({"question": "is it", "passage": "It is.", "idx": 4}))
    put(
        tmp_path,
        "CB/train.jsonl",
        jsonl({"premise": "P", "hypothesis": "H", "label": "neutral", "idx": 0}),
    )
    put(
        tmp_path,
        "RTE/val.jsonl",
        jsonl({"premise": "P", "hypothesis": "H", "label": "entailment", "idx": 0}),
    )
    copa = {"premise": "P", "choice1": "a", "choice2": "b", "question": "cause", "label": 1, "idx": 2}
    put(tmp_path, "COPA/train.jsonl", jsonl(copa))
    answers = [{"text": "yes", "idx": 0, "label": 1}, {"text": "no", "idx": 1, "label": 0}]
    questions = [{"question": "Q?", "answers": answers, "idx": 3}]
    put(
        tmp_path,
        "MultiRC/train.jsonl",
        jsonl({"idx": 5, "passage": {"text": "P", "questions": questions}}),
    )
    record = {
        "idx": 1,
        "passage": {
            "text": "Ann met Bob.\n@highlight\nAnn won",
            "entities": [{"start": 0, "end": 2}, {"start": 8, "end": 10}, {"start": 24, "end": 26}],
        },
        "qas": [
            {"query": "@placeholder won", "answers": [{"start": 0, "end": 2, "text": "Ann"}], "idx": 9}
        ],
    }
    put(tmp_path, "ReCoRD/val.jsonl", jsonl(record))
    wic = {
        "word": "bank", "sentence1": "A bank.", "sentence2": "Banks lend.", "idx": 0, "label": False,
        "start1": 2, "end1": 6, "start2": 0, "end2": 5,
    }  # fmt: skip
    put(tmp_path, "WiC/train.jsonl", jsonl(wic))
    target = {"span1_index": 0, "span1_text": "Mark", "span2_index": 5, "span2_text": "he"}
    wsc = {"text": 'Mark told Pete, the liar, "he lied".', "target": target, "idx": 0, "label": False}
    put(tmp_path, "WSC/train.jsonl", jsonl(wsc))
    axb = {"sentence1": "A", "sentence2": "B", "idx": "0", "label": "not_entailment"}
    put(tmp_path, "AX-b/AX-b.jsonl", jsonl(axb))
    put(
        tmp_path,
        "AX-g/AX-g.jsonl",
        jsonl({"premise": "A", "hypothesis": "B", "idx": 0, "label": "entailment"}),
    )
    assert only("boolq", tmp_path, "dev") == Text("is it", "It is.", 1, "4")
    assert only("boolq", tmp_path, "test").label is None
    assert only("cb", tmp_path).label == 2
    assert only("rte", tmp_path, "dev").label == 0
    assert only("copa", tmp_path) == Choices("P", "cause", ("a", "b"), 1, "2")
    assert data.load("multirc", tmp_path).split("train") == [
        Candidate("P", "Q?", "yes", 1, "5-3", "5-3-0"),
        Candidate("P", "Q?", "no", 0, "5-3", "5-3-1"),
    ]
    text = record["passage"]["text"]
    expected = Cloze(text, "@placeholder won", ("Ann", "Bob"), ("Ann",), "1-9")
    assert only("record", tmp_path, "dev") == expected
    assert only("wic", tmp_path) == WordPair("A bank.", "Banks lend.", (2, 6), (0, 5), 0, "0")
    found = only("wsc", tmp_path)
    assert found == Coreference(wsc["text"], (0, 4), (27, 29), 0, "0")
    assert only("axb", tmp_path, "test").label == 1
    assert only("axg", tmp_path, "test").label == 0
    assert data.load("superglue/rte", tmp_path).name == "rte"


def test_xnli_in_one_file_for_all_languages_and_with_translated_training_pairs(tmp_path):
    head = ("language", "gold_label", "sentence1_binary_parse", "sentence1", "sentence2", "pairID")
    rows = [(lang, "neutral", "", f"{lang} p", f"{lang} h", 1) for lang in ("ar", "de", "sw")]
    put(tmp_path, "XNLI-1.0/xnli.dev.tsv", tsv(head, *rows, ("de", "entailment", "", "p2", "h2", 2)))
    put(tmp_path, "XNLI-1.0/xnli.test.tsv", tsv(head, *rows))
    train = ("premise", "hypo", "label"), ("p", "h", "contradictory")
    put(tmp_path, "XNLI-MT-1.0/multinli/multinli.train.de.tsv", tsv(*train))
    german = data.load("xnli/de", tmp_path)
    assert german.counts == {"train": 1, "dev": 2, "test": 1}
    assert german.split("train")[0].label == 2
    assert german.split("dev") == [Text("de p", "de h", 1, "dev-0"), Text("p2", "h2", 0, "dev-1")]
    assert data.load("xnli", tmp_path, language="sw", splits=["test"]).counts == {"test": 1}


def test_xnli_without_test_labels_and_xcopa(tmp_path):
    put(tmp_path, "xnli/test-th.tsv.gz", tsv(("p", "h")))
    copa = {"premise": "P", "choice1": "a", "choice2": "b", "question": "effect", "label": 0, "idx": 2}
    put(tmp_path, "xcopa/data/et/val.et.jsonl", jsonl({**copa, "changed": False}))
    put(tmp_path, "xcopa/data-gmt/et/val.et.jsonl", jsonl({**copa, "premise": "translated"}))
    assert only("xnli/th", tmp_path, "test") == Text("p", "h", None, "test-0")
    assert only("xcopa/et", tmp_path, "dev") == Choices("P", "effect", ("a", "b"), 0, "2")


# --- questions --------------------------------------------------------------------------------------


def test_squad_as_published(tmp_path):
    put(tmp_path, "squad/train-v1.1.json", squad(("a", " Who? ", [("Ann", 0)]), context="Ann won."))
    put(
        tmp_path,
        "squad/dev-v1.1.json",
        squad(("a", "Who?", [("Ann", 0), ("Ann won", 0)]), context="Ann won."),
    )
    put(
        tmp_path,
        "train-v2.0.json.gz",
        squad(("b", "Who?", [("Ann", 0)]), context="Ann won.", is_impossible=False),
    )
    hopeless = squad(("b", "Why?", []), context="Ann won.", is_impossible=True, plausible_answers=[])
    put(tmp_path, "dev-v2.0.json", hopeless)
    assert only("squad1", tmp_path) == Question("Who?", "Ann won.", ("Ann",), (0,), "en", "a")
    assert only("squad", tmp_path, "dev").answers == ("Ann", "Ann won")
    assert only("squad2", tmp_path, "dev") == Question("Why?", "Ann won.", (), (), "en", "b")


def test_multilingual_squad_files_as_published(tmp_path):
    one = squad(("a", "Wer?", [("Änne", 0)]), context="Änne gewann.")
    put(tmp_path, "xquad/xquad.de.json", one)
    put(tmp_path, "MLQA_V1/test/test-context-de-question-de.json", one)
    put(tmp_path, "MLQA_V1/test/test-context-de-question-en.json", one)
    put(tmp_path, "MLQA_V1/dev/dev-context-de-question-de.json", one)
    both = squad(
        ("finnish-1-0", "Kuka?", [("Änne", 0)]),
        ("korean-1-0", "?", [("Änne", 0)]),
        context="Änne gewann.",
    )
    put(tmp_path, "tydiqa-goldp-v1.1-train.json", both)
    put(
        tmp_path,
        "tydiqa-goldp-v1.1-dev/tydiqa-goldp-dev-finnish.json",
        squad(("f", "K?", [("Ä", 0)]), context="Ä"),
    )
    assert only("xquad/de", tmp_path, "test").language == "de"
    assert data.load("mlqa/de", tmp_path).counts == {"dev": 1, "test": 1}
    assert only("mlqa/de-en", tmp_path, "test").language == "de"
    assert options(task_for(data.load("mlqa/de-en", tmp_path)))["normalise"] == "mlqa"
    source = task_for(data.load("mlqa/de", tmp_path))
    other = task_by_head("xquad", data.load("xquad/de", tmp_path), "mlqa", source)
    assert options(other)["normalise"] == "squad"
    assert data.load("tydiqa/fi", tmp_path).counts == {"train": 1, "dev": 1}
    assert only("tydiqa/ko", tmp_path).id == "korean-1-0"


def test_newsqa_of_mrqa_and_of_its_own_script(tmp_path):
    span = {"text": "Ann", "char_spans": [[4, 6]], "token_spans": [[1, 1]]}
    asked = {"qid": "q", "question": "Who?", "detected_answers": [span], "answers": ["Ann"]}
    rows = (
        {"header": {"dataset": "NewsQA"}},
        {"id": "", "context": "So, Ann won.".replace(",", ""), "qas": [asked]},
    )
    rows[1]["context"] = "Yes Ann won."
    put(tmp_path, "mrqa/train/NewsQA.jsonl.gz", jsonl(*rows))
    put(tmp_path, "mrqa/dev/NewsQA.jsonl.gz", jsonl(*rows))
    assert only("newsqa", tmp_path) == Question("Who?", "Yes Ann won.", ("Ann",), (4,), "en", "q")
    other = tmp_path / "other"
    stories = [
        {
            "storyId": "s",
            "type": kind,
            "text": "Yes Ann won.",
            "questions": [
                {"q": "Who?", "consensus": {"s": 4, "e": 8}},
                {"q": "?", "consensus": {"noAnswer": True}},
            ],
        }
        for kind in ("train", "dev", "test")
    ]
    put(other, "combined-newsqa-data-v1.json", json.dumps({"data": stories}))
    newsqa = data.load("newsqa", other)
    assert newsqa.split("test") == [Question("Who?", "Yes Ann won.", ("Ann",), (4,), "en", "s-0")]
    assert newsqa.notes["train: questions without an agreed answer left out"] == 1


def test_quasar_t_joins_questions_and_contexts_and_finds_the_answers(tmp_path):
    for split in ("train", "dev"):
        questions = (
            {"uid": "1", "question": "Capital of Italy", "answer": "rome", "tags": []},
            {"uid": "2", "question": "Capital of Mali", "answer": "bamako", "tags": []},
        )
        contexts = (
            {"uid": "1", "contexts": [[0.9, "Rome is old"], [0.5, "to rome , not Romelike"]]},
            {"uid": "2", "contexts": [[0.9, "no such town"]]},
        )
        put(tmp_path, f"quasar-t/questions/{split}_questions.json.gz", jsonl(*questions))
        put(tmp_path, f"quasar-t/contexts/short/{split}_contexts.json.gz", jsonl(*contexts))
    quasar = data.load("quasar-t", tmp_path)
    first = quasar.split("train")[0]
    assert (first.answers, first.starts) == (("Rome", "rome"), (0, 15))
    assert quasar.notes == {"train: questions left out whose answer is in no context": 1}
    assert quasar.counts == {"train": 1, "dev": 2}
    assert (quasar.split("dev")[1].answers, quasar.split("dev")[1].starts) == (("bamako",), ())


# --- entities ---------------------------------------------------------------------------------------


def tags(
    name: str, folder: Path, split: str = "train"
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    only(name, folder, split)
    return [(e.words, e.tags) for e in data.load(name, folder).split(split)]


def test_wikiann_with_and_without_its_language_prefix(tmp_path):
    put(tmp_path, "wikiann/de/train", "de:Ulm\tB-LOC\nde:de:\tO\n\nde:Bonn\tB-LOC\n\n")
    put(tmp_path, "panx/dev-de.tsv", "Ulm\tB-LOC\nde:x\tO\n")
    assert tags("wikiann/de", tmp_path) == [(("Ulm", "de:"), ("B-LOC", "O")), (("Bonn",), ("B-LOC",))]
    assert tags("panx/de", tmp_path, "dev")[0][0] == ("Ulm", "de:x")


def test_conll_2002_and_2003_old_encoding_and_iob1(tmp_path):
    put(tmp_path, "esp.train", "El O\nRío I-LOC\nGrande I-LOC\n\nSão B-PER\n".encode("latin-1"))
    put(tmp_path, "ned.testa", "-DOCSTART- -DOCSTART- O\nJan N B-PER\nloopt V O\n")
    first = "EU NNP I-NP I-ORG\nUK NNP I-NP B-ORG\nsaid VBD I-VP O\n"
    put(tmp_path, "eng.train", f"-DOCSTART- -X- O O\n\n{first}\nUS NNP I-NP I-LOC\n")
    assert tags("conll2002/es", tmp_path)[0] == (("El", "Río", "Grande"), ("O", "B-LOC", "I-LOC"))
    assert tags("conll2002/nl", tmp_path, "dev") == [(("Jan", "loopt"), ("B-PER", "O"))]
    assert tags("conll2003/en", tmp_path) == [
        (("EU", "UK", "said"), ("B-ORG", "B-ORG", "O")),
        (("US",), ("B-LOC",)),
    ]


def test_ner_of_one_language_as_published(tmp_path):
    put(tmp_path, "MasakhaNER2.0/data/swa/train.txt", "Juma B-PER\nleo B-DATE\n\n")
    put(tmp_path, "HiNER/data/collapsed/train.conll", "a\tB-ORGANIZATION\nb\tI-ORGANIZATION\n\n")
    put(tmp_path, "KazNERD/IOB2_train.txt", "a B-GPE\nb B-CARDINAL\nc B-PERSON\n\nd O\n\n")
    put(
        tmp_path,
        "MahaNER/IOB/train_iob.txt",
        "words\tlabels\tsentence_id\na\tBNEP\t1.0\nb\tINEP\t1.0\nc\tBNEM\t2.0\n",
    )
    put(tmp_path, "telugu/train_sentences_0_IOB.txt", "a NN B-MISC\nb NNP B-PERSON\n\n")
    put(tmp_path, "myNER/train_v5.conll", "a\tn\tB-LOC\nb\tn\tE-LOC\nc\tn\tS-PER\nd\tn\tS-NUM\n\n")
    iob2 = "# sent_id = 1\n# text = K Aa\n1\tK\tB-PER\tx\ts\n2\tAa\tB-OTH\tx\ts\n\n"
    put(tmp_path, "UNER_Danish-DDT/da_ddt-ud-train.iob2", iob2)
    put(tmp_path, "UNER_Serbian-SET/sr_set-ud-train.iob2", iob2)
    assert tags("masakhaner2/swa", tmp_path) == [(("Juma", "leo"), ("B-PER", "B-DATE"))]
    assert tags("hiner/hi", tmp_path)[0][1] == ("B-ORG", "I-ORG")
    assert tags("kaznerd/kk", tmp_path) == [
        (("a", "b", "c"), ("B-LOC", "O", "B-PER")),
        (("d",), ("O",)),
    ]
    assert tags("mahaner/mr", tmp_path) == [(("a", "b"), ("B-PER", "I-PER")), (("c",), ("O",))]
    assert tags("telugu_gold/te", tmp_path)[0][1] == ("O", "B-PER")
    assert tags("myner/my", tmp_path)[0][1] == ("B-LOC", "I-LOC", "B-PER", "O")
    assert tags("uner/da", tmp_path) == [(("K", "Aa"), ("B-PER", "O"))]
    assert tags("uner/sr", tmp_path)[0][1] == ("B-PER", "B-OTH")


# --- summaries, plain text --------------------------------------------------------------------------


def test_summaries_as_published(tmp_path):
    put(tmp_path, "sumdata/train/train.article.txt.gz", "long one\nlong two\n")
    put(tmp_path, "sumdata/train/train.title.txt.gz", "one\ntwo\n")
    put(tmp_path, "sumdata/train/valid.article.filter.txt", "long one\n")
    put(tmp_path, "sumdata/train/valid.title.filter.txt", "one\n")
    put(tmp_path, "sumdata/Giga/input.txt", "a b c\n")
    put(tmp_path, "sumdata/Giga/task1_ref0.txt", "a\n")
    put(tmp_path, "sumdata/DUC2004/input.txt", "a b c\n")
    for number in range(4):
        put(tmp_path, f"sumdata/DUC2004/task1_ref{number}.txt", f"{number}\n")
    assert data.load("gigaword", tmp_path).counts == {"train": 2, "dev": 1, "test": 1}
    assert only("gigaword", tmp_path).summaries == ("one",)
    assert only("duc2004", tmp_path, "test").summaries == ("0", "1", "2", "3")
    pair = {"graph": {"sentence": "A b c."}, "compression": {"text": "A c."}}
    put(
        tmp_path,
        "sent-comp.train01.json.gz",
        json.dumps(pair, indent=1) + "\n\n" + json.dumps(pair, indent=1),
    )
    put(tmp_path, "sent-comp.train02.json.gz", json.dumps(pair, indent=1) + "\n\n")
    put(tmp_path, "comp-data.eval.json", "\n\n".join([json.dumps(pair, indent=1)] * 1002))
    assert data.load("google-compression", tmp_path).counts == {"train": 3, "dev": 2, "test": 1000}
    assert only("google-compression", tmp_path).summaries == ("A c.",)


def test_gigaword_as_source_and_target(tmp_path):
    for split in ("train", "dev", "test"):
        put(tmp_path, f"ggw_data/org_data/{split}.src.txt", "long\n")
        put(tmp_path, f"ggw_data/org_data/{split}.tgt.txt", "short\n")
    assert data.load("gigaword", tmp_path).counts == {"train": 1, "dev": 1, "test": 1}
    assert only("gigaword", tmp_path, "test").summaries == ("short",)


def test_ntrex(tmp_path):
    put(tmp_path, "NTREX-128/newstest2019-ref.fra-CA.txt", "Un\u2028e\nDeux\n")
    assert only("ntrex/fra-CA", tmp_path, "test").text == "Un\u2028e"  # not a line's end
    assert data.load("ntrex", tmp_path).counts == {"test": 2}


# --- where files lie --------------------------------------------------------------------------------


def test_files_inside_a_zip_archive_are_found_and_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "CoLA.zip", "w") as archive:
        archive.writestr("CoLA/train.tsv", tsv(("gj04", 1, "", "It is.")))
        archive.writestr("CoLA/dev.tsv.gz", gzip.compress(tsv(("gj04", 0, "", "Is.")).encode()))
        archive.writestr("sumdata/train/train.article.txt", "long\n")
        archive.writestr("sumdata/train/train.title.txt", "short\n")
    assert data.load("cola", tmp_path).counts == {"train": 1, "dev": 1}
    assert only("cola", tmp_path, "dev").label == 0
    assert only("gigaword", tmp_path).summaries == ("short",)


def test_the_folder_may_come_from_the_environment_and_be_the_sets_own(tmp_path, monkeypatch):
    put(tmp_path, "glue/CoLA/train.tsv", tsv(("gj04", 1, "", "It is.")))
    monkeypatch.setenv("GRADACCORD_DATA", str(tmp_path))
    assert data.load("cola").counts == {"train": 1}
    assert "cola" in [found.name for found in data.find()]
    monkeypatch.delenv("GRADACCORD_DATA")
    with pytest.raises(ValueError, match="GRADACCORD_DATA"):
        data.load("cola")


def test_cldr_needs_no_folder(monkeypatch):
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)
    german = data.load("cldr/de")
    assert german.kind == "classification"
    assert {e.label for e in german.split("train")} == set(range(len(german.labels)))
    unseen = data.load("cldr", language="fr", splits=["test"])
    assert [*unseen.splits] == ["test"]
    listed = {found.name: found for found in data.find()}
    assert dict(listed["cldr/de"].counts) == german.counts
