"""`files.text_files`: archives, broken files, encodings."""

from __future__ import annotations

import gzip
import zipfile

from data_files import only, put, refused, tsv

from gradaccord import data

HEADER = "sentence\tlabel\n"


def test_broken_truncated_and_empty_files(tmp_path):
    whole = gzip.compress((HEADER + "fine day\t1\n" * 50).encode())
    put(tmp_path, "SST-2/train.tsv.gz", whole[: len(whole) // 2])
    assert "train.tsv.gz cannot be read (EOFError: Compressed file ended" in refused("sst2", tmp_path)
    listed = {found.name: found for found in data.find(tmp_path)}["sst2"]
    assert "cannot be read (EOFError" in listed.problem
    assert not listed.counts
    put(tmp_path, "SST-2/train.tsv.gz", whole[:30] + b"\0\0\0" + whole[33:])
    assert "cannot be read (BadGzipFile: CRC check failed" in refused("sst2", tmp_path)
    put(tmp_path, "SST-2/train.tsv.gz", gzip.compress(b""))
    assert "train.tsv.gz is empty" in refused("sst2", tmp_path)
    put(tmp_path, "xquad.de.json", "\n")
    assert "xquad.de.json is empty" in refused("xquad/de", tmp_path)


def test_a_member_of_an_archive_that_is_broken(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("SST-2/train.tsv", HEADER + "x" * 100 + "\t1\n")
    content = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(content.replace(b"x" * 100, b"y" * 100))
    assert "SST-2/train.tsv in" in refused("sst2", tmp_path)


def test_wrong_encoding_names_the_line(tmp_path):
    put(tmp_path, "SST-2/train.tsv", (HEADER + "fine\t1\ncafé\t1\n").encode("latin-1"))
    assert "train.tsv, line 3: the byte 0xe9 is not UTF-8" in refused("sst2", tmp_path)


def test_files_inside_a_zip_archive_are_found_and_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "CoLA.zip", "w") as archive:
        archive.writestr("CoLA/train.tsv", tsv(("gj04", 1, "", "It is.")))
        archive.writestr("CoLA/dev.tsv.gz", gzip.compress(tsv(("gj04", 0, "", "Is.")).encode()))
        archive.writestr("sumdata/train/train.article.txt", "long\n")
        archive.writestr("sumdata/train/train.title.txt", "short\n")
    assert data.load("cola", tmp_path).counts == {"train": 1, "dev": 1}
    assert only("cola", tmp_path, "dev").label == 0
    assert only("gigaword", tmp_path).summaries == ("short",)
