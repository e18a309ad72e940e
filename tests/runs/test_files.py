"""Files are written whole or not at all."""

import json

import pytest
import torch

from gradaccord.runs.files import (
    DamagedFileError,
    folder_name,
    read_object,
    read_tensors,
    write_atomic,
    write_json,
    write_tensors,
)


def test_json_is_written_whole(tmp_path):
    write_json(tmp_path / "a.json", {"ä": 1})
    assert json.loads((tmp_path / "a.json").read_text()) == {"ä": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_tensors_text_and_bytes_are_written_whole(tmp_path):
    write_tensors(tmp_path / "a.pt", {"x": torch.arange(3)})
    assert torch.equal(read_tensors(tmp_path / "a.pt")["x"], torch.arange(3))
    write_atomic(tmp_path / "a.txt", "ä\n")
    assert (tmp_path / "a.txt").read_bytes() == "ä\n".encode()
    write_atomic(tmp_path / "a.txt", b"b")
    assert (tmp_path / "a.txt").read_bytes() == b"b"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    def fail(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    write_atomic(tmp_path / "a", "old")
    with pytest.raises(OSError, match="No space"):
        write_atomic(tmp_path / "a", fail)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


@pytest.mark.parametrize("name", ["film", "xnli.de", "dotprod_weight=0.2+smart@1.1", "my task", "тест"])
def test_a_safe_name_stays_as_it_is(name):
    assert folder_name(name) == name


def test_any_name_becomes_one_folder_of_its_own(tmp_path):
    names = [
        "", ".", "..", "../../x", "/etc/passwd", "a/b", "a_b", "a\\b", "C:x", "CON", "nul.txt", ".lock",
        "results.json", "end.", " end", "end ", "line\nbreak", "zero\0", "x" * 300, "\udcff", "~",
    ]  # fmt: skip
    folders = [tmp_path / folder_name(name) for name in names]
    for folder in folders:
        folder.mkdir()
        assert folder.resolve().parent == tmp_path.resolve()
    assert len({folder.name.lower() for folder in folders}) == len(names)


def test_a_name_that_is_not_safe_has_the_same_folder_for_ever():
    """A run goes on in it. The hash: `printf a/b | sha256sum`."""
    assert folder_name("a/b") == "a_b-c14cddc033f6"


def test_a_full_disk_is_told_with_file_and_remedy(tmp_path):
    def fail(file):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError) as raised:
        write_atomic(tmp_path / "a", fail)
    assert str(raised.value) == (
        f"{tmp_path / 'a'} cannot be written (No space left on device): make room, and repeat the "
        "command."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", ["", "[", "[]", "null", "7", '"a"', "[" * 100_000, "9" * 5000, "\udcff"], ids=len
)
def test_a_file_of_another_shape_is_one_sentence_with_the_remedy(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(DamagedFileError) as raised:
        read_object(path)
    assert str(raised.value).startswith(f"{path} is damaged (")
    assert str(raised.value).endswith("): repeat the command that wrote it.")
    assert "\n" not in str(raised.value)
