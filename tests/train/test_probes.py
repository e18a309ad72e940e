"""What the model forgets is followed, and cosines are measured on a few batches."""

import pytest
from small_models import TEXTS, save_checkpoint

from gradaccord.train.probes import Probes
from gradaccord.train.problem import load_problem


def test_what_is_forgotten_is_followed(tmp_path, configured, run, files):
    checkpoint = save_checkpoint(tmp_path / "mlm", "bert", head=True)
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(TEXTS * 4))
    probe = {"masked_lm": {"seen": str(lines)}, "cosine": False}
    results = run(configured(model=str(checkpoint), probe=probe, train={"lr": 5e-3}))
    losses = [record.masked_lm["seen"] for record in results.evaluations]
    assert len(losses) == 2
    assert losses[0] != losses[1]


def test_a_model_without_a_masked_lm_head_is_told(configured, run, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("a line of text")
    with pytest.raises(ValueError, match="no trained masked-LM head"):
        run(configured(probe={"masked_lm": {"seen": str(lines)}}))


def test_the_texts_of_the_probe_were_not_looked_for_in_the_given_data_folder(
    tmp_path, configured, run, files
):
    checkpoint = save_checkpoint(tmp_path / "mlm", "bert", head=True)
    folder = tmp_path / "sets" / "ntrex"
    folder.mkdir(parents=True)
    (folder / "newstest2019-ref.eng.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    probe = {"masked_lm": {"news": "ntrex/eng"}, "cosine": False}
    config = configured(model=str(checkpoint), probe=probe, train={"steps": 1})
    results = run(config, data=tmp_path / "sets")
    assert results.evaluations[-1].masked_lm["news"] > 0


@pytest.mark.parametrize(("rows", "batch_size", "batches"), [(200, 16, 2), (800, 16, 3), (9000, 16, 8)])
def test_a_short_run_measured_cosines_on_almost_as_many_batches_as_it_trained_on(
    rows, batch_size, batches, configured, monkeypatch
):
    config = configured(train={"batch_size": batch_size}, probe={"cosine_batches": None})
    problem = load_problem(config)
    for name in problem.trained:
        monkeypatch.setattr(type(problem.prepared[name].encoded["train"]), "__len__", lambda _: rows)
    assert Probes(config, problem).cosine_batches == batches


def test_batches_of_a_cosine_can_be_given(configured):
    config = configured(probe={"cosine_batches": 40})
    assert Probes(config, load_problem(config)).cosine_batches == 40
