"""YAML that is hostile or merely unusual: one sentence at once, or what it says."""

import time

import pytest

from gradaccord.cli.app import main
from gradaccord.train.config_file import read_config


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("model: minilm\ntasks: {sst: sst}\n")
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
