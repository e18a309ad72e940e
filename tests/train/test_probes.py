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
