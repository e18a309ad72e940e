"""What the model forgets is followed."""

import pytest
from small_models import TEXTS, save_checkpoint


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
