"""Bad input ends in one sentence that names the file and the line, and exit code 2: no traceback."""

import gzip

import pytest
import yaml

from gradaccord.cli.app import main

GOOD = "text,label\na good film,yes\na bad film,no\n"
TAGGED = "Anna\tB-PER\nsings\tO\n\n"

CASES = {
    "missing column": ("csv", "words,label\na film,yes\n", "text"),
    "unknown label": ("csv", GOOD + "odd,perhaps\n", "perhaps"),
    "malformed line": ("jsonl", '{"text": "a film", "label": "yes"}\n{"text": \n', "line 2"),
    "empty": ("csv", "", "empty"),
    "impossible tags": ("conll", TAGGED + "Oslo\tO\nBerlin\tI-LOC\n\n", "I-LOC"),
    "too few columns": ("conll", TAGGED + "Oslo\n\n", "line"),
}


def run(tmp_path, capsys, checkpoint, file, kind="classification"):
    task = {"files": {"train": str(file), "dev": str(file)}, "kind": kind}
    if kind == "classification":
        task |= {"columns": {"first": "text", "label": "label"}, "labels": ["no", "yes"]}
    config = {"model": str(checkpoint), "tasks": {"t": task}, "train": {"steps": 1}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(SystemExit) as ended:
        main(["train", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run")])
    error = capsys.readouterr().err.strip()
    assert ended.value.code == 2, error
    assert "\n" not in error
    assert "Traceback" not in error
    assert error.startswith("gradaccord: ")
    return error


@pytest.mark.parametrize("case", CASES)
def test_bad_files(case, tmp_path, capsys, checkpoint):
    ending, content, said = CASES[case]
    file = tmp_path / f"bad.{ending}"
    file.write_text(content)
    error = run(
        tmp_path, capsys, checkpoint, file, "tagging" if ending == "conll" else "classification"
    )
    assert said in error
    assert "bad." in error


def test_a_broken_gzip(tmp_path, capsys, checkpoint):
    file = tmp_path / "bad.csv.gz"
    file.write_bytes(gzip.compress((GOOD * 500).encode())[:60])
    assert "bad.csv.gz" in run(tmp_path, capsys, checkpoint, file)


def test_a_wrong_encoding(tmp_path, capsys, checkpoint):
    file = tmp_path / "bad.csv"
    file.write_bytes(GOOD.encode() + "café,yes\n".encode("latin-1"))
    error = run(tmp_path, capsys, checkpoint, file)
    assert "bad.csv" in error
    assert "UTF-8" in error or "utf-8" in error


def test_a_file_that_is_not_there(tmp_path, capsys, checkpoint):
    assert "none.csv" in run(tmp_path, capsys, checkpoint, tmp_path / "none.csv")


def test_a_model_that_is_not_there(tmp_path, capsys, files):
    file = files / "film.dev.csv"
    assert "nowhere" in run(tmp_path, capsys, tmp_path / "nowhere", file)
