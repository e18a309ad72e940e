"""Texts of pretraining: where they come from, what is held out, and what must not be seen."""

import gzip

import pytest
import torch
from pretrain_toy import configured, sentences, write_texts

from gradaccord.pretrain.texts import load_texts


def by_language(config, data=None):
    return {own.language: own for own in load_texts(config, data)}


def test_files_and_folders_are_languages_by_their_names(tmp_path, cache):
    write_texts(tmp_path / "own", {"de": 5})
    (tmp_path / "own" / "sw").mkdir()
    (tmp_path / "own" / "sw" / "a.txt").write_text("habari ya asubuhi\nasante sana\n")
    with gzip.open(tmp_path / "own" / "sw" / "b.txt.gz", "wt") as file:
        file.write("karibu nyumbani\n")
    found = by_language(configured(tmp_path / "own"))
    assert {language: len(own) for language, own in found.items()} == {"de": 5, "sw": 3}
    assert [*found["de"]] == sentences("de")[:5]
    (tmp_path / "fr.txt").write_text("bonjour\nmerci\n")
    named = by_language(configured([str(tmp_path / "fr.txt"), str(tmp_path / "own" / "de.txt")]))
    assert [*named] == ["fr", "de"]
    joined = by_language(configured({"all": [str(tmp_path / "fr.txt"), str(tmp_path / "own")]}))
    assert {language: len(own) for language, own in joined.items()} == {"all": 10}


def test_a_set_of_the_registry_brings_its_languages(tmp_path, cache):
    (tmp_path / "common_voice_text").mkdir()
    for language in ("sw", "zh-CN"):
        (tmp_path / "common_voice_text" / f"{language}.txt").write_text("one text\nanother text\n")
    assert [*by_language(configured(["common-voice-text"]), tmp_path)] == ["sw", "zh-CN"]
    one = by_language(configured({"mine": "common-voice-text/sw"}), tmp_path)
    assert [*one["mine"]] == ["one text", "another text"]


def test_copies_of_a_text_are_held_out_together(tmp_path, cache):
    lines = [line for line in sentences("de")[:50] for _ in range(3)]
    (tmp_path / "de.txt").write_text("\n".join(lines))
    (own,) = load_texts(configured([str(tmp_path / "de.txt")], held_out=0.2), None)
    train, held_out = {*own.of_role(0)}, {*own.of_role(1)}
    assert len(held_out) == 10
    assert not train & held_out
    assert len([*own.of_role(0)]) == 3 * len(train) == 120
    (few,) = load_texts(configured([str(tmp_path / "de.txt")], held_out=0.2, held_out_most=4), None)
    assert len({*few.of_role(1)}) == 4


def test_what_is_held_out_does_not_depend_on_the_order(tmp_path, cache):
    lines = sentences("de")[:100]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    (tmp_path / "b.txt").write_text("\n".join(reversed(lines)))
    first, second = load_texts(configured([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]), None)
    assert {*first.of_role(1)} == {*second.of_role(1)}


def test_texts_and_sentences_of_test_sets_are_left_out(tmp_path, cache):
    """A premise of XNLI; a sentence inside a context; case and punctuation do not matter."""
    lines = sentences("de")[:40]
    (tmp_path / "de.txt").write_text("\n".join(lines))
    (tmp_path / "data" / "xnli").mkdir(parents=True)
    row = f"{lines[3].upper()}\tUnd: {lines[4]} {lines[5]}\tneutral"
    (tmp_path / "data" / "xnli" / "test-de.tsv").write_text(f"{row}\n")
    (tmp_path / "data" / "xnli" / "train-de.tsv").write_text(f"{lines[6]}\tx\tneutral\n")
    for named in ("all", "xnli", "xnli/de"):
        config = configured([str(tmp_path / "de.txt")], leave_out=named)
        (own,) = load_texts(config, tmp_path / "data")
        left_out = [line for line, role in zip(own, own.roles.tolist(), strict=True) if role == 2]
        assert left_out == [lines[3], lines[5]]
    (tmp_path / "never.txt").write_text(lines[0])
    config = configured([str(tmp_path / "de.txt")], leave_out=str(tmp_path / "never.txt"))
    assert int((load_texts(config, None)[0].roles == 2).sum()) == 1


def test_all_roles_together_are_the_texts(texts, cache):
    for own in load_texts(configured(texts), None):
        assert sorted([*own.of_role(0), *own.of_role(1)]) == sorted(own)
        assert torch.equal(own.roles, own.roles.clamp(max=1))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        ("Straße und Fluß\nund Öl".encode("latin-1"), "line 1: the byte 0xdf is not UTF-8"),
        (b"nur ein Text", "has 1 different texts that may be trained on"),
        (b"zweimal\nzweimal", "has 1 different texts that may be trained on"),
    ],
)
def test_bad_files_get_a_sentence(tmp_path, cache, content, said):
    (tmp_path / "de.txt").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        [own.roles for own in load_texts(configured([str(tmp_path / "de.txt")]), None)]


def test_other_encodings_are_read_when_they_are_named(tmp_path, cache):
    (tmp_path / "de.txt").write_bytes("Straße\nÖl".encode("latin-1"))
    (own,) = load_texts(configured([str(tmp_path / "de.txt")], encoding="latin-1"), None)
    assert [*own] == ["Straße", "Öl"]
    (tmp_path / "wide.txt").write_bytes("Straße\nÖl".encode("utf-16"))
    (own,) = load_texts(configured([str(tmp_path / "wide.txt")]), None)
    assert [*own] == ["Straße", "Öl"]


def test_missing_sources_get_a_sentence(tmp_path, cache):
    (tmp_path / "empty").mkdir()
    for source, said in (
        (str(tmp_path / "none.txt"), "which does not exist"),
        (str(tmp_path / "empty"), "holds no file that ends in .txt"),
        ("comon-voice-text", "did you mean 'common-voice-text'"),
    ):
        with pytest.raises(ValueError, match=said):
            load_texts(configured([source]), tmp_path)
    with pytest.raises(ValueError, match="which has no dev or test split here"):
        load_texts(configured([str(write_texts(tmp_path / "t"))], leave_out="xnli"), tmp_path)
