"""A configuration is read from a file and written to one; overrides have their own mistakes."""

import math

import pytest

from gradaccord.runs.config_files import ConfigError, write_config
from gradaccord.train.config_file import read_config


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("model: minilm\ntasks: {sst: sst}\n")
    return path


def test_what_is_written_is_read_back_equal(file, tmp_path):
    changes = ["regularize=[{name: smart, weight: 0.5}]", "method={name: dotprod, max_ratio: .inf}"]
    config = read_config(file, changes)
    assert config.method.options == {"max_ratio": math.inf}
    write_config(config, tmp_path / "again.yaml")
    assert read_config(tmp_path / "again.yaml") == config


def test_overrides_of_a_file_that_holds_no_mapping(file):
    for text in ("", "[1, 2]"):
        file.write_text(text)
        with pytest.raises(ConfigError, match="holds no mapping"):
            read_config(file, ["train.lr=1"])


def test_an_override_without_a_value_is_told(file):
    with pytest.raises(ConfigError, match="has no `=`"):
        read_config(file, ["train.lr"])


def test_a_file_that_is_not_utf8(tmp_path):
    (tmp_path / "run.yaml").write_bytes(b"model: caf\xe9\n")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        read_config(tmp_path / "run.yaml")


def test_an_unknown_recipe_names_those_there_are():
    with pytest.raises(ConfigError, match="minbert-trio"):
        read_config("minbert")
