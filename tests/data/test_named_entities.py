"""`text.named_entities`: every corpus as published."""

from __future__ import annotations

from pathlib import Path

from data_files import only, put

from gradaccord import data


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
