"""The character encoder as a trunk: its tokens, its pretraining, and what no test may have seen."""

from __future__ import annotations

import json

import pytest
import torch

from gradaccord.data.examples import Text
from gradaccord.data.text import cldr
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.characters import UNKNOWN, CharacterTokens, CharacterTrunk
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks import saved_models as saved
from gradaccord.tasks.evaluation import evaluate, predict
from gradaccord.tasks.kinds.classification import Classification

pytest.importorskip("babel")
pytestmark = pytest.mark.usefixtures("own_cache")

TOKENS = CharacterTokens("abcdefghij ")


class TestTokens:
    def text(self, encoding, of: int, text: str) -> str:
        places = [o for o, s in zip(encoding.offsets, encoding.sequence_ids, strict=True) if s == of]
        return "".join(text[start:end] for start, end in places)

    def test_there_and_back(self):
        [encoding] = TOKENS.encode(["bad cab"], max_length=32)
        assert TOKENS.decode(encoding.ids) == "bad cab"
        assert self.text(encoding, 0, "bad cab") == "bad cab"
        assert not encoding.overflowing

    def test_unknown_and_empty(self):
        unknown, empty = TOKENS.encode(["xyz", ""], max_length=32)
        assert unknown.ids == [UNKNOWN] * 3
        assert len(empty.ids) == 1

    def test_pairs(self):
        [encoding] = TOKENS.encode(["abc"], ["def"], max_length=32)
        assert encoding.sequence_ids == [0, 0, 0, None, 1, 1, 1]
        assert self.text(encoding, 1, "def") == "def"

    @pytest.mark.parametrize(("first", "second"), [(10, 2), (2, 10), (10, 10), (4, 3), (1, 1)])
    def test_longest_first(self, first, second):
        a, b = "abcdefghij"[:first], "jihgfedcba"[:second]
        [encoding] = TOKENS.encode([a], [b], max_length=8)
        kept = self.text(encoding, 0, a), self.text(encoding, 1, b)
        assert a.startswith(kept[0])
        assert b.startswith(kept[1])
        assert len(encoding.ids) == min(first + second + 1, 8)
        assert bool(encoding.overflowing) == (first + second + 1 > 8)
        if encoding.overflowing:  # nothing is cut from a text while the other one is longer
            assert abs(len(kept[0]) - len(kept[1])) <= 1 or min(len(a), len(b)) in map(len, kept)

    @pytest.mark.parametrize("stride", [0, 1, 2])
    def test_windows_cover_the_text(self, stride):
        text = "abcdefghij"
        [encoding] = TOKENS.encode(
            ["ab"], [text], max_length=7, truncation="only_second", stride=stride
        )
        windows = [encoding, *encoding.overflowing]
        pieces = [self.text(w, 1, text) for w in windows]
        assert all(self.text(w, 0, "ab") == "ab" for w in windows)
        joined = pieces[0] + "".join(piece[stride:] for piece in pieces[1:])
        assert joined == text
        assert max(len(w.ids) for w in windows) == 7

    def test_a_window_without_room(self):
        with pytest.raises(ValueError, match="`max_length` is 4: too short"):
            TOKENS.encode(["abcd"], ["abc"], max_length=4, truncation="only_second")

    def test_words(self):
        [encoding] = TOKENS.encode_words([["ab", "c", "ja"]], max_length=32)
        assert encoding.word_ids == [0, 0, None, 1, None, 2, 2]
        [cut] = TOKENS.encode_words([["ab", "c", "ja"]], max_length=4)
        assert cut.word_ids == [0, 0, None, 1]
        assert cut.overflowing


def test_padded_rows_are_cut_and_mark_the_unknown():
    tokens = CharacterTokens.from_texts(["ab", "ba"])
    assert tokens.size == 5
    expected = torch.tensor([[3, 4, 0], [4, UNKNOWN, 3]])
    assert torch.equal(tokens.padded(["ab", "bxab"], max_length=3), expected)


def test_states_do_not_change_with_padding():
    torch.manual_seed(0)
    trunk = CharacterTrunk(TOKENS.size).eval()
    task = Classification(("a", "b"))
    examples = [Text("abc"), Text("abc ab ja fa de ci"), Text("j")]
    model = MultiTaskModel(trunk, {"x": task.new_head(trunk)})
    encoded = task.encode(examples, TOKENS)
    _, together = predict(model, "x", task, examples, encoded, batch_size=3)
    _, alone = predict(model, "x", task, examples, encoded, batch_size=1)
    assert torch.allclose(torch.stack(together), torch.stack(alone), atol=1e-5)


def test_learns_32_names_and_reads_an_unseen_language(pretrained):
    trunk, tokens, _ = pretrained
    task = Classification(cldr.KINDS, max_length=32)
    examples = cldr.dataset("de").split("train")[:32]
    model = MultiTaskModel(trunk, {"kind": task.new_head(trunk)}, {"de": "kind", "nl": "kind"})
    encoded = task.encode(examples, tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model.eval()
    for _ in range(40):
        batch = encoded.batch(range(32))
        loss, _ = task.loss(model("de", batch), batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert evaluate(model, "de", task, examples, encoded).scores["accuracy"] == 100
    dutch = cldr.dataset("nl").split("test")[:200]
    scores = evaluate(model, "nl", task, dutch, task.encode(dutch, tokens)).scores
    assert scores["accuracy"] > 30  # of five kinds, in a language and of concepts never trained on


def test_saved_and_loaded(tmp_path):
    trunk = CharacterTrunk(TOKENS.size, width=16, pooling="cls")
    task = Classification(("a", "b"))
    model = MultiTaskModel(trunk, {"x": task.new_head(trunk)}).eval()
    saved.save(tmp_path / "saved", model, TOKENS, {"x": task})
    again, tokens, _ = saved.load(tmp_path / "saved")
    batch = task.encode([Text("abc"), Text("fade")], TOKENS).batch([0, 1])
    with torch.no_grad():
        assert torch.equal(model("x", batch), again("x", batch))
    assert tokens.fingerprint == TOKENS.fingerprint
    assert again.trunk.pooling == "cls"


def test_broken_folders(tmp_path):
    CharacterTrunk(TOKENS.size, width=16).save(tmp_path)
    with pytest.raises(ValueError, match="characters.json cannot be read"):
        load_trunk(tmp_path)
    TOKENS.save(tmp_path)
    load_trunk(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "width": 8}))
    with pytest.raises(ValueError, match="do not belong together"):
        load_trunk(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "heads": 8}))
    with pytest.raises(ValueError, match="config.json cannot be read .*heads"):
        load_trunk(tmp_path)
