"""A configuration file: shorthands, overrides, and mistakes answered with the line and the remedy."""

import pytest

from gradaccord.models.trunks.loading import load_trunk
from gradaccord.runs.config_files import ConfigError, write_config
from gradaccord.train.config import Config
from gradaccord.train.config_file import check_config, read_config

FILE = """\
model: minilm
tasks:
  sst: sst
  sts: {data: sts, pair: cross}
method: {name: dotprod, weight: 2e-1}
train:
  epochs: 3
  lr: 2e-5
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(FILE)
    return path


def test_names_alone_will_do(file):
    config = read_config(file)
    assert config.model.name == "minilm"
    assert config.tasks["sst"].data == "sst"
    assert config.tasks["sts"].options == {"pair": "cross"}
    assert config.method.options == {"weight": 0.2}
    assert config.train.lr == 2e-5


def test_overrides_reach_into_shorthands(file):
    config = read_config(
        file,
        ["method.weight=0.3", "tasks.sst.limit.train=10", "train.optimizer.name=sgd", "train.lr=1e-3"],
    )
    assert config.method.options["weight"] == 0.3
    assert config.tasks["sst"].limit == {"train": 10}
    assert config.train.optimizer.name == "sgd"
    assert config.train.lr == 1e-3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("epochs: 3", "epoch: 3"), "line 7: train has no key 'epoch': did you mean 'epochs'?"),
        (("lr: 2e-5", "lr: fast"), "line 8: `train.lr` is 'fast'"),
        (("lr: 2e-5", "lr: -1"), "greater than 0"),
        (("epochs: 3", "epochs: 3\n  steps: 4"), "`epochs` and `steps` both set the length"),
        (("tasks:", "task:"), "line 2: the top level has no key 'task': did you mean 'tasks'?"),
        (("sst: sst", "sst: {data: sst, evaluate_only: true, source: x}"), "name a trained task"),
        (
            ("model: minilm", "model: minilm\nmodel: x"),
            "line 2, is not YAML: the key 'model' is given twice",
        ),
        (("epochs: 3", "epochs: [3"), "is not YAML"),
        (("dotprod", "dotprd"), "line 5: The method 'dotprd' is unknown: did you mean 'dotprod'?"),
        (
            ("weight", "wieght"),
            "line 5: The method 'dotprod' has no option 'wieght': did you mean 'weight'?",
        ),
        (
            ("sst: sst", "sst: sstt"),
            "line 3: Task 'sst': There is no data set 'sstt': did you mean 'sst'?",
        ),
        (("pair: cross", "pare: cross"), "line 4: Task 'sts': a regression task has no option 'pare'"),
        (
            ("pair: cross", "limt: {dev: 4}"),
            "line 4: Task 'sts': a regression task has no option 'limt': did you mean 'limit'?",
        ),
        (
            ("pair: cross", "limit: {dve: 4}"),
            "line 4: Task 'sts': `limit` names the split 'dve': did you",
        ),
        (
            ("pair: cross", "kind: regresion"),
            "line 4: Task 'sts': the kind 'regresion' is unknown: did you mean 'regression'?",
        ),
        (
            ("lr: 2e-5", "optimizer: {name: adamw, betaz: 1}"),
            "line 8: The optimiser 'adamw' has no option 'betaz': did you mean 'betas'?",
        ),
        (("lr: 2e-5", "optimizer: adm"), "line 8: The optimiser 'adm' is unknown"),
        (
            ("train:", "sampler: {name: proportional, p: 1}\ntrain:"),
            "line 6: The sampler 'proportional' has no option 'p': it takes q, n.",
        ),
        (
            ("train:", "regularize: smrt\ntrain:"),
            "line 6: The regulariser 'smrt' is unknown: did you mean",
        ),
        (
            ("train:", "regularize: [{name: smart, wight: 1}]\ntrain:"),
            "line 6: The regulariser 'smart' has no option 'wight': did you mean 'weight'?",
        ),
        (
            ("minilm", "{name: minilm, poling: cls}"),
            "line 1: The model 'minilm' has no option 'poling': did you mean 'pooling'?",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(file, change, said):
    file.write_text(FILE.replace(*change))
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "train.stepz=4",
            "The override 'train.stepz=4': train has no key 'stepz': did you mean 'steps'?",
        ),
        ("method=pcgard", "The override 'method=pcgard': The method 'pcgard' is unknown: did you mean"),
        (
            "tasks.sts.pare=cross",
            "The override 'tasks.sts.pare=cross': Task 'sts': a regression task has",
        ),
    ],
)
def test_a_mistake_in_an_override_is_not_said_of_the_file(file, override, said):
    with pytest.raises(ConfigError) as caught:
        read_config(file, [override])
    assert str(caught.value).startswith(said)


def test_labels_that_yaml_takes_for_something_else(file):
    files = "tasks.sst={files: {train: a.csv}, kind: classification, labels: %s}"
    assert read_config(file, [files % "[0, 1]"]).tasks["sst"].labels == ["0", "1"]
    with pytest.raises(ConfigError, match=r"`tasks.sst.labels`: yes, no, .*: put them in quotes"):
        read_config(file, [files % "[no, yes]"])


def test_a_slip_in_a_models_name_does_not_ask_the_hub():
    with pytest.raises(ValueError, match="There is no model 'minlm': did you mean 'minilm'?"):
        load_trunk("minlm")


def test_an_empty_file_says_where_to_start():
    with pytest.raises(ConfigError, match="gradaccord init"):
        check_config(None)


def test_the_schema_describes_every_section():
    schema = Config.model_json_schema()
    assert set(schema["properties"]) >= {
        "model",
        "tasks",
        "method",
        "regularize",
        "sampler",
        "train",
        "probe",
    }


def test_every_recipe_is_valid():
    from gradaccord.methods.registry import SINGLE_TASK, find_method
    from gradaccord.recipes import recipe_texts

    names = recipe_texts()
    assert names
    for name in names:
        config = read_config(name)
        if config.method.name != SINGLE_TASK:
            find_method(config.method.name).check(config.method.options)


def test_own_files_in_one_line(tmp_path):
    file = tmp_path / "a.yaml"
    task = "{kind: classification, train: a.csv, test: [b.csv], columns: {label: 0, first: [1, 2]}"
    file.write_text(f"model: minilm\ntasks:\n  news: {task}, labels: {{1: world, 2: sport}}}}\n")
    own = read_config(file).tasks["news"]
    assert own.files == {"train": str(tmp_path / "a.csv"), "test": [str(tmp_path / "b.csv")]}
    assert own.columns == {"label": "0", "first": ["1", "2"]}
    assert own.labels == {"1": "world", "2": "sport"}
    write_config(read_config(file), tmp_path / "b.yaml")
    assert read_config(tmp_path / "b.yaml") == read_config(file)
    file.write_text("model: minilm\ntasks:\n  sst: {data: sst, header: false}\n")
    with pytest.raises(ConfigError, match=r"line 3: .*`header` is for own `files`: leave it out\.$"):
        read_config(file)
