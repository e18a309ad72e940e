"""Whole runs of pretraining: something is learned, others can read it, and kills lose nothing."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from launches import TORCHRUN, launched
from pretrain_toy import MODEL, configured, content, logged, same, started, weights

from gradaccord.data.text.masking import Mask, Tokens
from gradaccord.models.trunks.huggingface import quiet
from gradaccord.pretrain.results import PretrainResults
from gradaccord.pretrain.run import pretrain
from gradaccord.pretrain.texts import load_texts
from gradaccord.runs.exceptions import Interrupted


def test_held_out_losses_fall_below_those_of_token_frequencies(learned):
    folder, results = learned
    for language, loss in results.last.held_out.items():
        assert loss < results.unigrams[language], language
    gains = [results.unigrams[language] - loss for language, loss in results.last.held_out.items()]
    assert sum(gains) / len(gains) > 0.1  # about 0.3; the tokenizer's threads make it vary
    means = [found.mean for found in results.evaluations]
    assert means == sorted(means, reverse=True)
    assert [found.step for found in results.evaluations] == [100, 200, 300]
    assert PretrainResults.read(folder) == results
    assert results.tokens_per_second > 0
    assert results.texts == {"de": 270, "hi": 54, "ru": 108}
    assert not (folder / "tokenizer").exists()


def test_transformers_reads_the_model_and_finds_the_held_out_loss(learned, texts):
    """By its own classes and its own loss; German comes first, and fits in one batch."""
    from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

    folder, results = learned
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    model = AutoModelForMaskedLM.from_pretrained(folder / "model").eval()
    (german, *_) = load_texts(configured(texts), None)
    stream = []
    for text in german.of_role(1):
        stream += tokenizer(text)["input_ids"][1:]  # without [CLS], with [SEP]
    rows = [stream[start : start + 31] for start in range(0, len(stream), 31)]
    ids = torch.tensor([[tokenizer.cls_token_id, *row, *[0] * (31 - len(row))] for row in rows])
    mask = Mask(Tokens.of(tokenizer), 0.15, torch.Generator().manual_seed(0))
    seen, chosen = mask(ids)
    inputs = {"input_ids": seen, "attention_mask": (ids != 0).long()}
    loss = model(**inputs, labels=torch.where(chosen, ids, -100)).loss
    assert float(loss.detach()) == pytest.approx(results.last.held_out["de"], abs=1e-5)
    with quiet():  # a pooling layer is new
        plain = AutoModel.from_pretrained(folder / "model").eval()
    states = plain(**inputs).last_hidden_state
    assert torch.equal(states, model.base_model(**inputs).last_hidden_state)
    assert tokenizer.model_max_length == 64


def test_trained_further_it_starts_where_it_was(learned, texts, tmp_path):
    folder, results = learned
    train = {"steps": 2, "lr": 1e-6, "evaluate_every": 1}
    said = []
    config = configured(texts, model=str(folder / "model"), tokenizer=None, train=train)
    again = pretrain(config, tmp_path / "further", say=said.append)
    assert "trained further: 0.1 M weights, 260 pieces" in said[0]
    assert again.last.mean == pytest.approx(results.last.mean, abs=0.02)
    assert not same(weights(tmp_path / "further"), weights(folder))


def test_a_checkpoint_without_a_masked_lm_head_gets_a_new_one(texts, tmp_path):
    from small_models import save_checkpoint

    said = []
    model = str(save_checkpoint(tmp_path / "bert", "bert"))
    config = configured(texts, model=model, tokenizer=None, train={"steps": 2})
    pretrain(config, tmp_path / "run", say=said.append)
    assert "trained further, with a new masked-LM head" in said[0]
    assert any("of its tokens are unknown to the tokenizer" in sentence for sentence in said)


def test_one_language_works_and_is_said(texts, tmp_path):
    said = []
    config = configured([str(texts / "ru.txt")], tokenizer={"size": 60}, train={"steps": 2})
    results = pretrain(config, tmp_path / "run", say=said.append)
    assert [*results.last.held_out] == ["ru"]
    assert "There is one language, ru: `balance` changes nothing." in said


def test_texts_left_out_are_counted(texts, tmp_path):
    said = []
    (tmp_path / "test.txt").write_text((texts / "de.txt").read_text().splitlines()[0])
    config = configured(texts, leave_out=str(tmp_path / "test.txt"), train={"steps": 1})
    results = pretrain(config, tmp_path / "run", say=said.append)
    assert results.left_out == {"de": 1}
    assert any("Left out because evaluation sets contain them: 1 texts" in one for one in said)


@pytest.fixture
def heard():
    """SIGHUP is not ignored, as it is under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_save_and_the_run_goes_on_bit_for_bit(kind, texts, tmp_path):
    config = configured(texts)
    pretrain(config, tmp_path / "whole")

    def stop(progress):
        if progress.step == 4 and not progress.doing:
            os.kill(os.getpid(), kind)

    with pytest.raises(Interrupted, match=r"Saved at step 4\."):
        pretrain(config, tmp_path / "parts", show=stop)
    pretrain(config, tmp_path / "parts", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert logged(tmp_path / "whole") == logged(tmp_path / "parts")


def test_finished_and_other_runs_in_the_folder_are_not_overwritten(texts, tmp_path):
    config = configured(texts, train={"steps": 2})
    first = pretrain(config, tmp_path / "run")
    with pytest.raises(OSError, match="holds a finished run: continue it with --resume"):
        pretrain(config, tmp_path / "run")
    said = []
    assert pretrain(config, tmp_path / "run", resume=True, say=said.append) == first
    assert said == [f"{tmp_path / 'run'} holds a finished run: nothing to do."]
    with pytest.raises(OSError, match="was started with another `share`"):
        pretrain(configured(texts, share=0.2, train={"steps": 2}), tmp_path / "run", resume=True)


def written(config, path):
    path.write_text(yaml.safe_dump(config))
    return path


def until(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.01)


def test_kill_9_then_resume_ends_bit_equal(texts, tmp_path):
    plain = content([str(texts)], train={"steps": 60, "save_every": 7, "evaluate_every": 20})
    file = written(plain, tmp_path / "run.yaml")
    config = configured(texts, train={"steps": 60, "save_every": 7, "evaluate_every": 20})
    pretrain(config, tmp_path / "whole")
    process = started(file, "--out", tmp_path / "parts")
    until(lambda: (tmp_path / "parts" / "checkpoints" / "step-00000014").exists(), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (tmp_path / "parts" / "results.json").exists()
    said = []
    pretrain(config, tmp_path / "parts", resume=True, say=said.append)
    assert any(sentence.startswith("Continued at step") for sentence in said)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert logged(tmp_path / "whole") == logged(tmp_path / "parts")


def test_two_processes_equal_one_on_the_joined_batch(texts, tmp_path):
    still = {**MODEL, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    changes = {"model": still, "train": {"steps": 6, "lr": 1e-3}}
    file = written(content([str(texts)], **changes), tmp_path / "run.yaml")
    pretraining = [sys.executable, "-m", *TORCHRUN, "-m", "gradaccord", "pretrain", str(file), "--out"]
    folders = [tmp_path / "two", tmp_path / "two again"]
    ended = launched(lambda attempt: [*pretraining, str(folders[attempt])], seconds=240)
    assert ended.returncode == 0, ended.stdout
    assert "processes: 2" in ended.stdout
    folder = Path(ended.args[-1])
    one = pretrain(configured(texts, **changes), tmp_path / "one")
    begin = configured(texts, **{**changes, "train": {"steps": 1, "lr": 1e-12}})
    pretrain(begin, tmp_path / "begin")
    start, expected, found = (weights(run) for run in (tmp_path / "begin", tmp_path / "one", folder))
    moved = torch.cat([(expected[n] - start[n]).flatten() for n in start]).norm()
    apart = torch.cat([(expected[n] - found[n]).flatten() for n in start]).norm()
    assert float(moved) > 0.05
    assert float(apart / moved) < 1e-3
    two = PretrainResults.read(folder)
    assert two.tokens == one.tokens
    for language, loss in one.last.held_out.items():
        assert two.last.held_out[language] == pytest.approx(loss, abs=1e-4)
