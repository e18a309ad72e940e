"""Trained tokenizers: balanced over languages, of the size asked for, whole when read again."""

import pytest
from pretrain_toy import configured

from gradaccord.pretrain.texts import load_texts
from gradaccord.pretrain.tokenizer import balanced, trained_tokenizer


def by_script(character):
    if "Ѐ" <= character <= "ӿ":
        return "ru"
    if "ऀ" <= character <= "ॿ":
        return "hi"
    return "de"


@pytest.mark.parametrize("balance", [0.0, 0.3, 1.0])
def test_the_sample_has_languages_by_a_power_of_their_size(texts, balance):
    config = configured(texts, balance=balance)
    loaded = load_texts(config, None)
    sizes = {own.language: sum(map(len, own.of_role(0))) for own in loaded}
    sample = balanced(loaded, config)
    found = dict.fromkeys(sizes, 0)
    for text in sample:
        found[by_script(text[0])] += len(text)
    powers = {language: size**balance for language, size in sizes.items()}
    for language, count in found.items():
        expected = powers[language] / sum(powers.values())
        assert count / sum(found.values()) == pytest.approx(expected, abs=0.005)  # a text or so
    assert sum(found.values()) == pytest.approx(sum(sizes.values()), rel=0.01)
    assert not {*sample} & {text for own in loaded for text in own.of_role(1)}


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_pieces_as_many_as_asked_for_and_text_comes_back(texts, tmp_path, kind):
    size = {"unigram": 170, "wordpiece": 260}[kind]
    config = configured(texts, tokenizer={"kind": kind, "size": size, "coverage": 1.0})
    loaded = load_texts(config, None)
    tokens = trained_tokenizer(config, loaded)
    assert tokens.size == size
    for own in loaded:
        for text in [*own.of_role(1)][:3]:
            (encoding,) = tokens.pieces([text])
            assert tokens.unknown not in encoding.ids
            assert tokens.decode(encoding.ids).replace(" ", "") == text.replace(" ", "")
    tokens.save(tmp_path)
    from transformers import AutoTokenizer

    again = AutoTokenizer.from_pretrained(tmp_path)
    first, _, last = again("der Hund")["input_ids"][0], None, again("der Hund")["input_ids"][-1]
    assert [first, last] == [again.cls_token_id, again.sep_token_id]
    assert trained_tokenizer(config, loaded).fingerprint == tokens.fingerprint  # from the cache


def test_rare_characters_are_unknown(texts):
    """Hindi is a tenth of the characters of a sample that is not balanced."""
    config = configured(texts, balance=1.0, tokenizer={"size": 60, "coverage": 0.8})
    tokens = trained_tokenizer(config, load_texts(config, None))
    assert tokens.unknown in tokens.pieces(["मछुआरा"])[0].ids
    assert tokens.unknown not in tokens.pieces(["er isst"])[0].ids


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_a_size_that_the_texts_do_not_support_is_refused(texts, kind):
    for size, said in ((20_000, r"the texts support \d+ pieces"), (20, "too few for the characters")):
        config = configured(texts, tokenizer={"kind": kind, "size": size, "coverage": 1.0})
        with pytest.raises(ValueError, match=said):
            trained_tokenizer(config, load_texts(config, None))


def test_lower_case(texts):
    options = {"kind": "wordpiece", "size": 250, "lowercase": True}
    tokens = trained_tokenizer(
        configured(texts, tokenizer=options), load_texts(configured(texts), None)
    )
    assert tokens.pieces(["DER HUND"])[0].ids == tokens.pieces(["der hund"])[0].ids
