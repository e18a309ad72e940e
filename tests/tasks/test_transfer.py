"""Transfer: which head judges a task that was never trained on, and the table of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kinds_support import CASES, SHARED, minilm, tokens

from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import Choices, Text
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.tasks import Classification, MultipleChoice, evaluate, evaluate_transfer, predict
from gradaccord.tasks.transfer import MeanOfHeads

YES_NO = Classification(("no", "yes"))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path))


def sentences(name: str, labels: tuple[str, ...] = ("no", "yes")) -> Dataset:
    rows = [
        Text(f"{name} {'good' if i % 2 else 'bad'} " + "x " * i, None, i % 2, str(i)) for i in range(6)
    ]
    return Dataset(name, "classification", {"test": rows}, labels)


def model_of(*names: str, shared: bool = False) -> MultiTaskModel:
    trunk = minilm()
    if shared:
        return MultiTaskModel(trunk, {"one": YES_NO.new_head(trunk)}, dict.fromkeys(names, "one"))
    return MultiTaskModel(trunk, {name: YES_NO.new_head(trunk) for name in names})


def test_an_unseen_task_is_judged_by_the_named_head_and_a_seen_one_by_its_own() -> None:
    model, sources = model_of("a", "b"), {"a": YES_NO, "b": YES_NO}
    table = evaluate_transfer(
        model, tokens(), sources, {"b": sentences("b"), "c": sentences("c")}, head="a"
    )
    assert [(row.task, row.head, row.seen, row.examples) for row in table] == [
        ("b", "b", True, 6),
        ("c", "a", False, 6),
    ]
    for row in table:
        examples = sentences(row.task).split("test")
        encoded = YES_NO.encode(examples, tokens())
        assert row.scores == evaluate(model, row.head, YES_NO, examples, encoded).scores
    assert table["c"].score == table.mean(seen=False)
    assert table.to_json()[1] == {"task": "c", "head": "a", "seen": False, "examples": 6,
                                  **table["c"].scores}  # fmt: skip
    shown = str(table).splitlines()
    assert shown[0].split() == ["task", "head", "seen", "examples", "accuracy", "f1"]
    assert shown[-1].startswith("mean, unseen")


def test_the_mean_head_averages_logits_and_runs_the_trunk_once() -> None:
    model = model_of("a", "b")
    examples = sentences("c").split("test")
    encoded = YES_NO.encode(examples, tokens())
    calls: list[int] = []
    model.trunk.register_forward_hook(lambda *_: calls.append(1))
    mean = torch.stack(predict(MeanOfHeads(model, ["a", "b"]), "mean", YES_NO, examples, encoded)[1])
    assert len(calls) == 1
    each = [torch.stack(predict(model, n, YES_NO, examples, encoded)[1]) for n in ("a", "b")]
    torch.testing.assert_close(mean, (each[0] + each[1]) / 2, atol=1e-5, rtol=0)
    table = evaluate_transfer(model, tokens(), {"a": YES_NO, "b": YES_NO}, {"c": sentences("c")})
    assert table["c"].head == "mean"


def test_sources_that_share_one_head_need_no_mean() -> None:
    model = model_of("a", "b", shared=True)
    table = evaluate_transfer(model, tokens(), {"a": YES_NO, "b": YES_NO}, {"c": sentences("c")})
    assert table["c"].head == "a"


def test_the_head_keeps_its_options_and_the_target_its_language() -> None:
    trunk = minilm()
    source = MultipleChoice(max_length=24, head="hidden")
    model = MultiTaskModel(trunk, {"copa": source.new_head(trunk)})
    rows = [Choices("Pioveva.", "effect", ("Bagnato.", "Secco."), 0, "1")]
    italian = Dataset("xcopa.it", "multiple_choice", {"test": rows}, (), "it", {"head": "linear"})
    read = []
    original = MultipleChoice.question

    def seen(self: MultipleChoice, example: Choices) -> str:
        read.append((self.language, self.max_length, self.head))
        return original(self, example)

    MultipleChoice.question = seen  # type: ignore[method-assign]
    try:
        evaluate_transfer(model, tokens(), {"copa": source}, {"xcopa.it": italian})
    finally:
        MultipleChoice.question = original  # type: ignore[method-assign]
    assert set(read) == {("it", 24, "hidden")}


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        (sentences("c", ("yes", "no")), {}, "has the labels yes, no and 'a' has no, yes"),
        (Dataset("c", "regression", {"test": [Text("a", "b", 1.0)]}), {}, "only tasks of one kind"),
        (sentences("c"), {"head": "z"}, "`head` is 'z': use one of a, b, or 'mean'"),
        (sentences("c"), {"split": "dev"}, "`a` has no split 'dev'"),
    ],
)
def test_what_cannot_be_judged_is_told_before_anything_runs(
    target: Dataset, options: dict[str, str], said: str
) -> None:
    model = model_of("a", "b")
    model.trunk.register_forward_hook(lambda *_: pytest.fail("the model was run"))
    sources = {"a": YES_NO, "b": YES_NO}
    with pytest.raises(ValueError) as caught:
        evaluate_transfer(model, tokens(), sources, {"a": sentences("a"), "c": target}, **options)  # type: ignore[arg-type]
    assert said in str(caught.value)
    with pytest.raises(ValueError, match="`sources` is empty"):
        evaluate_transfer(model, tokens(), {}, {"c": target})
    with pytest.raises(ValueError, match="'z' is unknown"):
        evaluate_transfer(model, tokens(), {"z": YES_NO}, {"c": target})


def test_english_xnli_to_all_other_languages() -> None:
    if not SHARED.exists():
        pytest.skip("the shared data is not here")
    from gradaccord import data
    from gradaccord.tasks import task_for

    others = ("ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
    sets = {}
    for language in ("en", *others):
        whole = data.load("xnli", folder=SHARED, language=language, splits=["test"])
        parts = {"test": whole.split("test")[:6]}
        sets[f"xnli.{language}"] = Dataset(whole.name, whole.kind, parts, whole.labels, language,
                                           whole.options)  # fmt: skip
    task = task_for(sets["xnli.en"], max_length=32)
    trunk = minilm()
    model = MultiTaskModel(trunk, {"xnli.en": task.new_head(trunk)})
    table = evaluate_transfer(model, tokens(), {"xnli.en": task}, sets)
    assert [row.task for row in table] == list(sets)
    assert [row.seen for row in table] == [True] + 14 * [False]
    assert table.mean(seen=False) == pytest.approx(sum(r.score for r in table.rows[1:]) / 14)


@pytest.mark.parametrize("kind", CASES)
def test_the_mean_of_a_head_with_itself_is_the_head_for_every_kind(kind: str) -> None:
    case = CASES[kind]
    trunk = minilm()
    head = case.task.new_head(trunk)
    twin = case.task.new_head(trunk)
    twin.load_state_dict(head.state_dict())
    model = MultiTaskModel(trunk, {"a": head, "b": twin})
    examples = case.made[:4]
    encoded = case.task.encode(examples, tokens())
    mean = predict(MeanOfHeads(model, ["a", "b"]), "mean", case.task, examples, encoded)[0]
    alone = predict(model, "a", case.task, examples, encoded)[0]
    assert mean == pytest.approx(alone, abs=1e-5) if kind == "regression" else mean == alone
