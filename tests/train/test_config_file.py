"""A configuration file: shorthands, overrides, and mistakes answered with the line and the remedy."""

import re
import time

import pytest

from gradaccord.cli.app import main
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.train.config import Config
from gradaccord.train.config_file import ConfigError, check_config, read_config, write_config

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


@pytest.fixture
def command_line(capsys):
    """What a command that cannot do what it was asked for writes to standard error."""

    def called(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        assert ended.value.code == 2
        return capsys.readouterr().err

    return called


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


def test_what_is_written_is_read_back_equal(file, tmp_path):
    config = read_config(file, ["regularize=[{name: smart, weight: 0.5}]"])
    write_config(config, tmp_path / "again.yaml")
    assert read_config(tmp_path / "again.yaml") == config


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("epochs: 3", "epoch: 3"), "line 7: train has no key 'epoch': did you mean 'epochs'?"),
        (("lr: 2e-5", "lr: fast"), "line 8: `train.lr` is 'fast'"),
        (("lr: 2e-5", "lr: -1"), "greater than 0"),
        (("epochs: 3", "epochs: 3\n  steps: 4"), "`epochs` and `steps` both say how long"),
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
        ("method={name: dotprod, weight: '0,1'}", "`weight` is '0,1': did you mean '0.1'?"),
        ("method={name: dotprod, weight: inf}", "`weight` is 'inf': it must be a number."),
        ("method={name: dotprod, mode: 3}", "`mode` is 3: it must be 'exact' or 'difference'."),
        ("method={name: dotprod, mode: exakt}", "`mode` is 'exakt': did you mean 'exact'?"),
        ("method={name: sum, measure: nonsense}", "`measure` is 'nonsense': it must be true or false."),
        ("method={name: mean, reduction: sum}", "The method 'mean' has no option 'reduction'"),
        (
            "method={name: reptile, inner_steps: true}",
            "`inner_steps` is True: it must be a whole number",
        ),
        ("method={name: sam, batches: true}", "`batches` is True: it must be a whole number."),
        ("method={name: pcgrad, shared: 3}", "`shared` is 3: it must be a text, a list or null."),
        ("method={name: torchjd, weighting: CAGrad, c: a}", "`c` is 'a': it must be a number."),
        ("regularize={name: smart, weight: '0,1'}", "The regulariser 'smart': `weight` is '0,1'"),
        (
            "regularize={name: swep, hidden_size: 1.5}",
            "`hidden_size` is 1.5: it must be a whole number",
        ),
        ("sampler={name: proportional, q: high}", "The sampler 'proportional': `q` is 'high'"),
        ("sampler=weighted", "The sampler 'weighted' needs the option `weights`"),
        ("train.optimizer={name: adamw, eps: '1,0'}", "The optimiser 'adamw': `eps` is '1,0': did you"),
        ("train.optimizer={name: adamw, betas: [0.9]}", "`betas` is [0.9]: it must be a longer list."),
        ("train.optimizer={name: recadam, k: yes}", "The optimiser 'recadam': `k` is True: it must be"),
        ("model={name: minilm, pooling: 3}", "The model 'minilm': `pooling` is 3"),
    ],
)
def test_an_option_of_another_type_is_refused(file, override, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_config(file, [override])


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


def test_overrides_of_a_file_that_holds_no_mapping(file):
    for text in ("", "[1, 2]"):
        file.write_text(text)
        with pytest.raises(ConfigError, match="holds no mapping"):
            read_config(file, ["train.lr=1"])


def test_a_slip_in_a_models_name_does_not_ask_the_hub():
    with pytest.raises(ValueError, match="There is no model 'minlm': did you mean 'minilm'?"):
        load_trunk("minlm")


def test_an_override_without_a_value_is_told(file):
    with pytest.raises(ConfigError, match="has no `=`"):
        read_config(file, ["train.lr"])


def test_a_file_that_is_not_utf8(tmp_path):
    (tmp_path / "run.yaml").write_bytes(b"model: caf\xe9\n")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        read_config(tmp_path / "run.yaml")


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


def test_an_unknown_recipe_names_those_there_are():
    with pytest.raises(ConfigError, match="minbert-trio"):
        read_config("minbert")


def bomb(levels):
    """Ten aliases of ten aliases of ..., in some three hundred bytes."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]")
    return "\n".join(lines)


def chain(length):
    """Every list holds the one before it."""
    return "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, length))])


HOSTILE = {
    "an alias bomb": (bomb(6), "line 5, has more than 100,000 values once its aliases are followed"),
    "a larger one": (bomb(9), "has more than 100,000 values"),
    "a bomb of merges": (
        "a: &a {k: 1}\n" + "b: &b {<<: [" + ",".join(["*a"] * 400) + "]}\n"
        "c: {<<: [" + ",".join(["*b"] * 400) + "]}",
        "has more than 100,000 values",
    ),
    "deep lists": ("tasks: " + "[" * 5000 + "]" * 5000, "line 1, is nested more than 40 deep"),
    "deep mappings": ("\n".join(" " * n + "a:" for n in range(300)), "is nested more than 40 deep"),
    "unclosed": ("[" * 100_000, "is nested more than 40 deep"),
    "deep by aliases": (chain(100), "is nested more than 40 deep"),
    "very deep by aliases": (chain(3000), "is nested more than 40 deep"),
    "a list that holds itself": ("tasks: &a [*a]", "refers to itself"),
    "a mapping that holds itself": ("tasks: &a {x: *a}", "refers to itself"),
    "a long file": ("#" * (1 << 20) + "\ntasks: x", "is longer than 1,048,576 characters"),
    "a list as a key": ("tasks:\n  ? [a, b]\n  : c", "line 2, has a list or a mapping as a key"),
    "a mapping as a key": ("tasks: {{a: b}: c}", "line 1, has a list or a mapping as a key"),
    "a key that is no text": ("tasks:\n  2001-01-01: sst", "line 2"),
    "a key of bytes": ("tasks: {!!binary aGk=: sst}", "line 1"),
    "no key": ("tasks: {null: sst}", "line 1"),
    "a fraction as a key": ("tasks: {1.5: sst}", "line 1"),
    "a set": ("tasks: !!set {a, b}", "line 1"),
    "pairs": ("tasks: !!pairs [a: b]", "line 1"),
    "no such day": ("tasks: {a: 2001-99-99}", "line 1"),
    "no number": ("tasks: {a: !!int x}", "line 1"),
    "no time": ("tasks: {a: !!timestamp x}", "line 1"),
    "no truth": ("tasks: {a: !!bool x}", "line 1"),
    "a number of 5,000 digits": ("tasks: {a: " + "9" * 5000 + "}", "line 1"),
    "an object": ("tasks: !!python/object/apply:os.system [x]", "line 1"),
    "a merge of a text": ("tasks: {<<: x}", "line 1"),
    "a control character": ("tasks: a\x01", "is not YAML"),
    "two documents": ("tasks: a\n---\ntasks: b", "is not YAML"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_sentence_at_once(name, tmp_path, command_line):
    text, said = HOSTILE[name]
    path = tmp_path / "run.yaml"
    path.write_text(text)
    began = time.perf_counter()
    sentence = command_line("validate", path)
    assert said in sentence
    assert str(path) in sentence
    assert sentence.count("\n") == 1
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("value", ["[" * 500, "{[a]: b}", "!!int x", "!!python/name:os.system"])
def test_a_hostile_override_is_one_sentence(value, file, command_line):
    for arguments in (
        ("validate", file, f"method.weight={value}"),
        ("compare", file, "--methods", f"dotprod:weight={value}"),
    ):
        assert command_line(*arguments).count("\n") == 1


def test_anchors_and_merges_are_read(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(
        "tasks:\n  sst: &one {data: sst, max_length: 9}\n  again: {<<: *one, max_length: 8}\n"
    )
    tasks = read_config(path).tasks
    assert [task.options["max_length"] for task in tasks.values()] == [9, 8]


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
    with pytest.raises(ConfigError, match=r"line 3: .*`header` is about own `files`: leave it out\.$"):
        read_config(file)
