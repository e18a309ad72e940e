"""Transfer: the task that reads a data set with the head of another."""

from __future__ import annotations

import pytest
from kinds_support import SHARED, minilm, tokens

from gradaccord import data
from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import Text
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.tasks import Classification, MultipleChoice, evaluate, task_for
from gradaccord.tasks.transfer import task_by_head

YES_NO = Classification(("no", "yes"))


def test_the_head_keeps_its_options_and_the_target_its_language() -> None:
    source = MultipleChoice(max_length=24, head="hidden")
    italian = Dataset("xcopa.it", "multiple_choice", {}, (), "it", {"head": "linear"})
    assert task_by_head("xcopa.it", italian, "copa", source) == MultipleChoice(
        "it", max_length=24, head="hidden"
    )


@pytest.mark.parametrize(
    ("target", "given", "said"),
    [
        (Dataset("c", "classification", {}, ("yes", "no")), {}, "has the labels yes, no and 'a' has"),
        (Dataset("c", "regression", {"test": [Text("a", "b", 1.0)]}), {}, "only tasks of one kind"),
        (Dataset("c", "classification", {}), {"head": "hidden"}, "leave `head` out"),
    ],
)
def test_a_task_that_does_not_fit_the_head_is_refused(
    target: Dataset, given: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError) as caught:
        task_by_head("c", target, "a", YES_NO, given)
    assert said in str(caught.value)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not here")
def test_english_xnli_to_all_other_languages() -> None:
    english = data.load("xnli/en", folder=SHARED, splits=["test"])
    task, trunk = task_for(english, max_length=32), minilm()
    model = MultiTaskModel(trunk, {"en": task.new_head(trunk)})
    for language in (
        "ar",
        "bg",
        "de",
        "el",
        "es",
        "fr",
        "hi",
        "ru",
        "sw",
        "th",
        "tr",
        "ur",
        "vi",
        "zh",
    ):
        target = data.load("xnli", folder=SHARED, language=language, splits=["test"])
        made = task_by_head(language, target, "en", task)
        examples = target.split("test")[:6]
        assert made == task
        assert (
            len(evaluate(model, "en", made, examples, made.encode(examples, tokens())).predictions) == 6
        )
