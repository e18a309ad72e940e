"""One settings model: what fills it, and what a mistake says."""

from __future__ import annotations

import pytest

from gradaccord.meta.settings import FewShotSettings, parse_overrides, settings_for


def test_a_choice_goes_over_the_preset_over_the_algorithm() -> None:
    assert settings_for("reptile").inner_steps == 5
    assert settings_for(preset="reptile-miniimagenet-1shot").inner_steps == 8
    chosen = settings_for(preset="reptile-miniimagenet-1shot", inner_steps=2, shots=None)
    assert (chosen.algorithm, chosen.inner_steps, chosen.shots) == ("reptile", 2, 1)
    assert settings_for("maml", minutes=1.0).iterations is None
    assert settings_for("maml", minutes=1.0, iterations=5).iterations == 5


def test_fomaml_takes_the_presets_of_maml_and_no_others() -> None:
    found = settings_for("fomaml", preset="maml-omniglot-5way", iterations="10000")
    assert (found.algorithm, found.inner_lr, found.tasks) == ("fomaml", 2.0, 32)
    assert found.iterations == 10000
    assert found.network == settings_for(preset="maml-omniglot-5way").network == "maml"
    with pytest.raises(ValueError, match="is for reptile, not for fomaml"):
        settings_for("fomaml", preset="reptile-omniglot-5way")


def test_overrides_are_text_that_the_model_reads() -> None:
    texts = ["inner-lr=2e-2", "share=true", "tasks=7", "iterations=none", "minutes=3", "clip=10"]
    settings = settings_for(**parse_overrides(texts))
    assert settings == settings_for("maml", inner_lr=0.02, share=True, tasks=7, minutes=3.0, clip=10.0)


def test_what_is_saved_is_read(tmp_path) -> None:
    settings = settings_for("dotprod-inner", align_cap=float("inf"))
    settings.save(tmp_path)
    assert FewShotSettings.read(tmp_path) == settings


def test_emptied_settings_are_damaged_and_not_the_defaults(tmp_path) -> None:
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(ValueError, match=r"is damaged \(it does not name algorithm and data\): put"):
        FewShotSettings.read(tmp_path)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"shot": 1}, "the top level has no key 'shot': did you mean 'shots'?"),
        ({"ways": 1}, "`ways` is 1: input should be greater than or equal to 2."),
        ({"outer_lr": 0.0}, "`outer_lr` is 0.0: input should be greater than 0."),
        ({"clock": "sun"}, "`clock` is 'sun': input should be 'wall' or 'processor'."),
        (
            {"precision": "bf16"},
            "`precision` is bf16, and maml needs second derivatives, which would be mostly rounding: "
            "leave it out, or take reptile or fomaml.",
        ),
        ({"iterations": None}, "`iterations` and `minutes` are both left out: give the run an end."),
    ],
)
def test_a_mistake_is_one_sentence(values, sentence) -> None:
    with pytest.raises(ValueError) as caught:
        FewShotSettings.of(values)
    assert str(caught.value) == f"The few-shot settings: {sentence}"


def test_every_setting_is_described() -> None:
    assert all(field.description for field in FewShotSettings.model_fields.values())
