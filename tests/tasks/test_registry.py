"""A task out of a configuration: names, options and what is said of wrong ones."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from kinds_support import CASES, SHARED, tokens

from gradaccord import data, tasks
from gradaccord.data.dataset import Dataset
from gradaccord.tasks import KINDS, Classification, MultipleChoice, Regression, build, options, task_for


def test_the_registry_lists_every_kind_without_importing_any() -> None:
    code = (
        "import sys; from gradaccord.tasks import KINDS; assert len(list(KINDS)) == 12; "
        "heavy = ('transformers', 'sklearn', 'scipy', 'gradaccord.tasks.kinds.classification'); "
        "assert not [name for name in heavy if name in sys.modules], sys.modules.keys() & set(heavy)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_names_its_class(kind: str) -> None:
    assert KINDS[kind].kind == kind
    assert getattr(tasks, KINDS[kind].__name__) is KINDS[kind]


@pytest.mark.parametrize(
    "task",
    [
        *[case.task for case in CASES.values()],
        Classification(("no", "yes"), pair="separate", head=(8, 4), dropout=0.2),
        Regression(pair=None, low=-1.0, high=1.0, bounded=True, head="hidden"),
        MultipleChoice("xx", cause="pro", effect="ergo"),
    ],
)
def test_options_survive_a_file(task: tasks.Task) -> None:  # type: ignore[type-arg]
    written = json.loads(json.dumps(options(task)))
    assert build(task.kind, **written) == task


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("regresion", {}, "did you mean 'regression'"),
        ("???", {}, "use one of classification, regression"),
        ("regression", {"pairs": "cross"}, "no option 'pairs': did you mean 'pair'"),
        ("regression", {"pair": "croos"}, "`pair` is 'croos': did you mean 'cross'"),
        ("regression", {"bounded": "yes"}, "`bounded` is 'yes': it must be true or false"),
        ("regression", {"max_length": 12.5}, "`max_length` is 12.5: it must be a whole number"),
        ("regression", {"max_length": True}, "`max_length` is True"),
        ("regression", {"dropout": "0.1"}, "it must be a number or null"),
        ("regression", {"head": [1.5]}, "it must be 'linear', 'hidden' or a list"),
        ("regression", {"low": 5, "high": 0}, "the lower one first"),
        ("regression", {"pair": None, "symmetric": True}, "only pairs have two orders"),
        ("classification", {}, "needs the option `labels`"),
        ("multiple_choice", {"language": "xx"}, "use one of en, et"),
    ],
)
def test_a_wrong_name_or_value_is_one_sentence_with_the_remedy(
    kind: str, given: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError) as caught:
        build(kind, **given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_data_set_brings_its_labels_language_and_options() -> None:
    nli = Dataset("nli", "classification", {}, ("no", "yes"), "de", {"pair": "cross"})
    assert task_for(nli, max_length=64) == Classification(("no", "yes"), pair="cross", max_length=64)
    copa = Dataset("xcopa", "multiple_choice", {}, ("choice1", "choice2"), "it")
    assert task_for(copa) == MultipleChoice(language="it")
    with pytest.raises(ValueError, match="`odd` is of the kind 'clozes': did you mean 'cloze'"):
        task_for(Dataset("odd", "clozes", {}))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("sts", "regression"), ("copa", "multiple_choice"), ("multirc", "multi_answer"),
     ("wic", "word_in_context"), ("wsc", "coreference")],
)  # fmt: skip
def test_a_set_as_it_is_read_becomes_rows(name: str, kind: str) -> None:
    if not SHARED.exists():
        pytest.skip("the shared data is not here")
    dataset = data.load(name, folder=SHARED)
    task = task_for(dataset)
    assert task.kind == kind
    examples = dataset.split("dev")[:50]
    encoded = task.encode(examples, tokens())
    assert len(encoded) == 50
    assert task.score(examples, [task.gold(e) for e in examples])[task.metric] == pytest.approx(100)
