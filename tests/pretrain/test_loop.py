"""Steps of pretraining: interrupted ones continue bit for bit, parts of a batch are the batch."""

import pytest
import torch
from pretrain_toy import MODEL, configured, logged, same, weights

from gradaccord.pretrain.loop import Loop
from gradaccord.pretrain.run import pretrain
from gradaccord.runs.exceptions import Interrupted, TrainingError

STILL = {**MODEL, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.mark.parametrize("whole_words", [False, True])
def test_an_interrupted_run_continues_bit_for_bit(texts, tmp_path, monkeypatch, whole_words):
    """With dropout, at a step at which nothing is saved by itself."""
    config = configured(texts, whole_words=whole_words)
    whole = pretrain(config, tmp_path / "whole")
    taken = Loop.take_step

    def step(loop, log):
        if loop.step == 5:
            raise KeyboardInterrupt
        taken(loop, log)

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "take_step", step)
        patched.setattr(Loop, "between_steps", True, raising=False)
        with pytest.raises(Interrupted):
            pretrain(config, tmp_path / "parts")
    saved = sorted(path.name for path in (tmp_path / "parts" / "checkpoints").iterdir())
    assert saved[-1] in ("step-00000003", "step-00000005")
    said = []
    parts = pretrain(config, tmp_path / "parts", resume=True, say=said.append)
    assert any("Continued at step" in sentence for sentence in said)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert logged(tmp_path / "whole") == logged(tmp_path / "parts")
    assert parts.evaluations == whole.evaluations
    assert (parts.tokens, parts.steps) == (whole.tokens, whole.steps)


def test_micro_batches_are_the_batch(texts, tmp_path):
    once = pretrain(configured(texts, model=STILL), tmp_path / "once")
    parts = pretrain(configured(texts, model=STILL, train={"micro_batches": 3}), tmp_path / "parts")
    one, other = weights(tmp_path / "once"), weights(tmp_path / "parts")
    for name in one:
        torch.testing.assert_close(one[name], other[name], atol=2e-5, rtol=1e-4)
    assert parts.last.mean == pytest.approx(once.last.mean, abs=1e-4)
    assert not same(one, other)  # it is computed otherwise


def test_a_loss_that_is_not_finite_ends_the_run_with_a_sentence(texts, tmp_path):
    config = configured(texts, train={"lr": 1e30, "clip": None, "warmup": 0.0})
    with pytest.raises(TrainingError, match=r"The loss is (nan|inf) at step \d+: lower train.lr"):
        pretrain(config, tmp_path / "run")


def test_options_of_training_have_their_effect(texts, tmp_path):
    """Each changes the weights of a run that is otherwise the same."""
    changed = [
        {},
        {"schedule": "constant"},
        {"schedule": "cosine"},
        {"warmup": 0.5},
        {"weight_decay": 0.5},
        {"clip": 0.01},
        {"seed": 1},
    ]
    found = []
    for i, train in enumerate(changed):
        given = {"steps": 3, "evaluate_every": 0, "save_every": 0, **train}
        results = pretrain(configured(texts, train=given), tmp_path / str(i))
        assert len(results.evaluations) == 1
        found.append(weights(tmp_path / str(i)))
    for i, one in enumerate(found):
        assert not any(same(one, other) for other in found[i + 1 :]), changed[i]
    shares = configured(texts, share=0.5, train={"steps": 3})
    pretrain(shares, tmp_path / "share")
    assert not same(weights(tmp_path / "share"), found[0])


def test_bf16(texts, tmp_path):
    from accelerate.state import AcceleratorState

    found = {}
    for precision in ("fp32", "bf16"):
        AcceleratorState._reset_state(True)  # which keeps the precision of the first run of a process
        results = pretrain(configured(texts, train={"precision": precision}), tmp_path / precision)
        found[precision] = results.last.mean, weights(tmp_path / precision)
    AcceleratorState._reset_state(True)
    assert found["bf16"][0] == pytest.approx(found["fp32"][0], abs=0.05)
    assert not same(found["bf16"][1], found["fp32"][1])
    assert all(value.dtype == torch.float32 for value in found["bf16"][1].values())


def test_epochs_are_passes_over_all_tokens(texts, tmp_path):
    given = {"steps": None, "epochs": 0.5, "evaluate_every": 0, "save_every": 0}
    results = pretrain(configured(texts, train=given), tmp_path / "run")
    rows = 239
    assert results.steps == pytest.approx(0.5 * rows / 8, abs=1.5)
