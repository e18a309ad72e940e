"""`files.dialect`: separators, quotes and headers as people's files have them, found and said."""

from __future__ import annotations

import bz2
import gzip

import pytest

from gradaccord import data
from gradaccord.data.examples import Text

PAIRS = [("1", "a, b", "b; a", "0"), ("2", 'c "d"', "d", "1"), ("3", "e", "f|g", "1")]
TEXTS = [Text("a, b", "b; a", 0), Text('c "d"', "d", 1), Text("e", "f|g", 1)]


def read(path, *args, **options):
    found = data.read("classification", {"train": path}, *args, **options)
    return [Text(e.first, e.second, e.label) for e in found.split("train")], found


def table(rows, separator, header=None, quote=True, end="\n"):
    def cell(text):
        if not quote or not any(sign in text for sign in (separator, '"', "\n")):
            return text
        return '"' + text.replace('"', '""') + '"'

    lines = [separator.join(map(cell, row)) for row in ([header] if header else []) + list(rows)]
    return end.join(lines) + end


HEADER = ("id", "sentence1", "sentence2", "label")


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
@pytest.mark.parametrize("named", [True, False])
def test_the_separator_is_found_whatever_the_ending(tmp_path, separator, ending, named):
    path = tmp_path / f"a.{ending}"
    path.write_text(table(PAIRS, separator, HEADER if named else None))
    given = {} if named else {"columns": ["_", "first", "second", "label"]}
    examples, found = read(path, **given)
    assert examples == TEXTS
    name = {",": "comma", "\t": "tab", ";": "semicolon", "|": "pipe"}[separator]
    assert f"a.{ending}: separator {name}, with quotes" in found.read_as[0]
    assert ("a header" if named else "no header") in found.read_as[0]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_semicolon_csv_with_a_byte_order_mark(tmp_path, mark, end):
    rows = [("gut, ja", "1,5"), ("nein", "2,5")]
    (tmp_path / "a.csv").write_bytes((mark + table(rows, ";", ("Text", "Label"), end=end)).encode())
    examples, found = read(tmp_path / "a.csv")
    assert [e.first for e in examples] == ["gut, ja", "nein"]
    assert found.labels == ("1,5", "2,5")
    assert "first = Text, label = Label" in found.read_as[0]


def test_quotes_between_tabs_are_text_unless_they_must_be_quotes(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('label\tsentence\n0\t"so" he said\n1\t"all of it"\n')
    assert [e.first for e in read(path)[0]] == ['"so" he said', '"all of it"']
    path.write_text('label\tsentence\n0\t"a ""b"""\n1\tc\n')
    assert [e.first for e in read(path)[0]] == ['a "b"', "c"]
    assert [e.first for e in read(path, quotes=False)[0]] == ['"a ""b"""', "c"]
    path.write_text('"label"\t"sentence"\n"0"\t"a\nb"\n"1"\t"c"\n')
    examples, found = read(path)
    assert ([e.first for e in examples], found.labels) == (["a\nb", "c"], ("0", "1"))


def test_no_header_by_number_by_name_and_by_option(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"3","Wall St., down","Short-sellers, ""again"""\n"1","Peace","Talks"\n')
    joined, found = read(path, {"label": "0", "first": ["1", "2"]})
    assert [e.first for e in joined] == ['Wall St., down Short-sellers, "again"', "Peace Talks"]
    assert [e.label for e in joined] == [1, 0]
    assert "first = 1 + 2" in found.read_as[0]
    for options in ({}, {"header": False}):
        named, found = read(path, ["label", "title", "text"], **options)
        assert [e.first for e in named] == ['Short-sellers, "again"', "Talks"]
        assert found.read_as[0].endswith("first = text, label = label; not read: title.")
    assert len(read(path, ["label", "title", "text"], header=True)[0]) == 1


def test_a_header_above_numbers_is_no_example(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Class Index,Title,Description\n3,a,b\n4,c,d\n")
    for columns in (["label", "_", "first"], {"label": "0", "first": "2"}, None):
        examples, found = read(path, columns)
        assert [e.first for e in examples] == ["b", "d"]
        assert found.labels == ("3", "4")


def test_labels_by_mapping_and_by_a_list_from_one(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,1\nb,3\nc,2\n")
    names = ["world", "sport", "business"]
    by_list, found = read(path, labels=names)
    by_mapping, mapped = read(path, labels={"1": "world", "2": "sport", "3": "business"})
    assert [e.label for e in by_list] == [e.label for e in by_mapping] == [0, 2, 1]
    assert found.labels == mapped.labels == tuple(names)
    assert dict(found.written) == dict(mapped.written) == {"1": "world", "2": "sport", "3": "business"}
    joined, merged = read(path, labels={"1": "news", "2": "other", "3": "other"})
    assert ([e.label for e in joined], merged.labels) == ([0, 1, 1], ("news", "other"))
    with pytest.raises(ValueError, match=r"line 3: the label '3' is not one of 1, 2\.$"):
        read(path, labels={"1": "world", "2": "sport"})
    path.write_text("text,label\na,0\nb,1\nc,2\n")
    assert [e.label for e in read(path, labels=names)[0]] == [0, 1, 2]


def test_packed_files(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    text = table(PAIRS, ",", HEADER).encode()
    packed = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(text)
    for ending, content in {
        "gz": gzip.compress(text),
        "bz2": bz2.compress(text),
        "zst": packed.getvalue().to_pybytes(),
    }.items():
        path = tmp_path / f"a.csv.{ending}"
        path.write_bytes(content)
        assert read(path)[0] == TEXTS
        path.write_bytes(content[:-9])
        with pytest.raises(ValueError, match=rf"a\.csv\.{ending} cannot be read"):
            read(path)


def test_utf_16_and_other_encodings(tmp_path):
    rows = [("é", "x"), ("ö", "y")]
    text = table(rows, "\t", ("text", "label"))
    (tmp_path / "a.txt").write_bytes(text.encode("utf-16"))
    assert [e.first for e in read(tmp_path / "a.txt")[0]] == ["é", "ö"]
    (tmp_path / "a.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"line 2: the byte 0xe9 is not UTF-8: .* set `encoding`\.$"):
        read(tmp_path / "a.csv")
    assert [e.first for e in read(tmp_path / "a.csv", encoding="latin-1")[0]] == ["é", "ö"]
    with pytest.raises(ValueError, match="`encoding` is 'latin-one'"):
        read(tmp_path / "a.csv", encoding="latin-one")


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ("3,a,b\n4,c,d\n", {}, r"line 1: there is no column 'first'.* columns: \[label, first\]\.$"),
        ("text,label\na,b,c\nd,e\nf,g\n", {}, r"line 2: 3 columns where .* 2 \(text, label; sep"),
        ("text,label\na,x\nb,y\n", {"separator": "ab"}, "`separator` is 'ab': use tab, semicolon"),
        ("text,label\na,x\n", {"columns": ["a", "a"]}, "name each column once"),
        ('text,label\n"a"b,x\n', {}, "line 2: not CSV .* set `quotes: false`"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, content, options, sentence):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ValueError, match=sentence) as caught:
        read(tmp_path / "a.csv", **options)
    assert "\n" not in str(caught.value)
