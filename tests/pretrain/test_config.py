"""Configurations of pretraining: files, recipes, overrides, and a sentence for each mistake."""

import pytest
from pretrain_toy import content

from gradaccord.pretrain.config import PretrainConfig, read_own_config, read_pretrain_config
from gradaccord.recipes import recipe_texts
from gradaccord.runs.config_files import ConfigError, write_config
from gradaccord.runs.files import DamagedFileError


def test_every_recipe_is_valid_and_says_what_it_is_for():
    assert "multilingual-small" in recipe_texts("pretrain")
    for name, text in recipe_texts("pretrain").items():
        assert read_pretrain_config(name).texts
        assert text.startswith("# ")
        assert name not in recipe_texts()


def test_paths_of_a_file_start_at_its_folder_and_those_of_overrides_here(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "here" / "model").mkdir(parents=True)
    (tmp_path / "there" / "de.txt").write_text("ein Text")
    (tmp_path / "here" / "fr.txt").write_text("un texte")
    (tmp_path / "there" / "run.yaml").write_text("texts: {de: [de.txt, xnli/de], sw: ./no.txt}\n")
    monkeypatch.chdir(tmp_path / "here")
    config = read_pretrain_config(tmp_path / "there" / "run.yaml", ["model=model", "texts.fr=fr.txt"])
    assert config.texts == {
        "de": [str(tmp_path / "there" / "de.txt"), "xnli/de"],
        "sw": [str(tmp_path / "there" / "no.txt")],
        "fr": [str(tmp_path / "here" / "fr.txt")],
    }
    assert config.model.name == str(tmp_path / "here" / "model")


def test_what_a_run_writes_down_is_read_again(tmp_path):
    config = PretrainConfig.model_validate(content(["xnli"]))
    write_config(config, tmp_path / "config.yaml")
    assert read_own_config(tmp_path / "config.yaml") == config
    (tmp_path / "config.yaml").write_text("texts: 3\n")
    with pytest.raises(DamagedFileError, match=r"config.yaml is damaged .*texts"):
        read_own_config(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "holds no mapping: start with `texts:`"),
        ("model: bert\n", "`texts` is missing"),
        ("texts: []\n", "give at least one file, folder or set"),
        ("texts: {de: []}\n", "give at least one file, folder or set"),
        ("texts: xnli\ntrian: {}\n", "line 2: the top level has no key 'trian': did you mean 'train'"),
        ("texts: xnli\ntrain: {lr: -1}\n", "line 2: `train.lr` is -1: input should be greater than 0"),
        (
            "texts: xnli\ntrain: {steps: 5, epochs: 1}\n",
            "both set the length: give one of them",
        ),
        ("texts: xnli\ntokenizer: {kind: bpe}\n", "`tokenizer.kind` is 'bpe'"),
        ("texts: xnli\ntokenizer: {name: bert, size: 99}\n", "`size` is for a new one"),
        ("texts: xnli\nlength: 4\n", "`length` is 4"),
    ],
)
def test_mistakes_get_a_sentence_with_their_line(tmp_path, text, said):
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_pretrain_config(tmp_path / "run.yaml")


def test_an_unknown_recipe_names_those_there_are():
    with pytest.raises(ConfigError, match="the recipes are multilingual-small"):
        read_pretrain_config("multilingual-smal")
