"""Pretraining of the character encoder: what it reads, learns and caches."""

from __future__ import annotations

import pytest
import torch
from characters_toy import STEPS

from gradaccord.data.examples import Line
from gradaccord.data.text import cldr
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks import pretrained_characters as pretraining
from gradaccord.models.trunks.pretrained_characters import pretrained_characters, training_names
from gradaccord.tasks.evaluation import evaluate
from gradaccord.tasks.kinds.masked_lm import MaskedLM

pytest.importorskip("babel")
pytestmark = pytest.mark.usefixtures("own_cache")


class TestPretraining:
    def test_no_held_out_name_is_read(self):
        names = training_names(("de", "sw", "my", "fr"))
        held_out = {
            n.text.casefold()
            for language in ("de", "sw", "my", "fr")
            for n in cldr.names(language)
            if cldr.split_of(n.concept) != "train"
        }
        assert len(names) > 2000
        assert not held_out & {name.casefold() for name in names}

    def test_there_are_fifty_languages(self):
        assert len(set(pretraining.LANGUAGES)) == 50
        assert set(cldr.LANGUAGES) | set(cldr.UNSEEN_LANGUAGES) < set(pretraining.LANGUAGES)

    def test_loss_falls_below_that_of_frequencies(self, pretrained):
        """Already after a few seconds; `benchmarks/pretraining.py` measures the whole minute."""
        trunk, tokens, _ = pretrained
        task = MaskedLM(max_length=32)
        lines = [Line(n.text) for n in cldr.names("pl") if cldr.split_of(n.concept) == "test"]
        model = MultiTaskModel(trunk, {"lm": task.new_head(trunk)})
        result = evaluate(model, "lm", task, lines, task.encode(lines, tokens), batch_size=128)
        ids = torch.tensor([i for e in tokens.encode(training_names(), max_length=32) for i in e.ids])
        counts = torch.bincount(ids, minlength=tokens.size).double() + 1
        masked = torch.tensor([i for p in result.predictions for i in p["masked"]])
        unigram = -(counts / counts.sum()).log()[masked].mean().item()
        assert result.scores["loss"] < unigram - 0.3

    def test_progress(self, pretrained):
        _, _, seen = pretrained
        assert [p.step for p in seen] == list(range(1, STEPS + 1))
        assert seen[-1].loss < seen[0].loss - 1

    def test_second_time_from_the_cache_and_the_same_without(self, pretrained, tmp_path, monkeypatch):
        trunk, tokens, _ = pretrained
        calls = []
        again, same = pretrained_characters(steps=STEPS, progress=calls.append)
        assert not calls
        assert same.fingerprint == tokens.fingerprint
        monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path))
        torch.manual_seed(123)
        before, threads = torch.get_rng_state(), torch.get_num_threads()
        fresh, _ = pretrained_characters(steps=STEPS)
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == threads
        for one, other, third in zip(
            trunk.parameters(), again.parameters(), fresh.parameters(), strict=True
        ):
            assert torch.equal(one, other)
            assert torch.equal(one, third)

    def test_the_generators_of_accelerators_were_reseeded(self, tmp_path, monkeypatch):
        """Pretraining must leave them alone: nothing would put them back."""
        seeds = []
        monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path))
        monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
        pretrained_characters(steps=1, seed=3)
        assert not seeds
        torch.manual_seed(0)
        assert seeds  # this is the way by which torch would have done it

    def test_seed_changes_it(self, pretrained):
        other, _ = pretrained_characters(steps=1, seed=1)
        another, _ = pretrained_characters(steps=1, seed=2)
        assert not torch.equal(next(other.parameters()), next(another.parameters()))

    def test_steps(self):
        with pytest.raises(ValueError, match="`steps` is 0: it must be a whole number >= 1"):
            pretrained_characters(steps=0)
