"""The masked-LM loss equals its definition, under masks that never change."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gradaccord.probe.masked_lm import MaskedLM, Tokens, with_encoder

IDS = Tokens(mask=4, size=60, special=(0, 1, 2, 3))


def sentences(number: int = 40, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(5, 30, (number,), generator=generator).tolist()
    return [[2, *torch.randint(5, 60, (n,), generator=generator).tolist(), 3] for n in lengths]


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(60, 8)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(8, 60)

    def forward(self, ids: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        context = (self.words(ids) * attention[..., None]).sum(1, keepdim=True)
        return self.out(self.dropout(self.words(ids) + context))


def test_the_shares_of_masks() -> None:
    probe = MaskedLM(sentences(3000), IDS)
    rows = sentences(3000)
    chosen = masked = kept = other = total = 0
    start = 0
    for part in probe.batches:
        for ids, chose in zip(part.ids, part.chosen, strict=True):
            true = torch.tensor(rows[start])
            start += 1
            seen, chose = ids[: len(true)], chose[: len(true)]
            assert not chose[[0, -1]].any()  # special tokens
            assert torch.equal(seen[~chose], true[~chose])
            assert not torch.isin(seen[chose], torch.tensor(IDS.special)).any()
            total += len(true) - 2
            chosen += int(chose.sum())
            masked += int((seen[chose] == IDS.mask).sum())
            kept += int((seen[chose] == true[chose]).sum())
            other += int(((seen[chose] != true[chose]) & (seen[chose] != IDS.mask)).sum())
    assert start == 3000
    assert probe.count == chosen
    assert chosen / total == pytest.approx(0.15, abs=0.01)
    assert masked / chosen == pytest.approx(0.8, abs=0.02)
    assert other / chosen == pytest.approx(0.1, abs=0.015)
    assert kept / chosen == pytest.approx(0.1, abs=0.015)


def fingerprint(probe: MaskedLM) -> str:
    parts = [t for b in probe.batches for t in (b.ids, b.attention, b.chosen, b.labels)]
    return hashlib.sha256(b"".join(t.numpy().tobytes() for t in parts)).hexdigest()


def test_masks_are_the_same_in_every_process() -> None:
    code = (
        "import torch; torch.manual_seed(7); torch.rand(5)\n"
        "from test_masked_lm import MaskedLM, IDS, sentences, fingerprint\n"
        "print(fingerprint(MaskedLM(sentences(), IDS)))"
    )
    folder = Path(__file__).parent
    other = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    torch.manual_seed(0)
    assert other.stdout.strip() == fingerprint(MaskedLM(sentences(), IDS))
    assert fingerprint(MaskedLM(sentences(), IDS, seed=1)) != fingerprint(MaskedLM(sentences(), IDS))


def test_masked_lm_loss_equals_the_definition_and_leaves_no_trace() -> None:
    torch.manual_seed(0)
    model = Words()
    probe = MaskedLM(sentences(), IDS)
    random = torch.get_rng_state()
    first = probe.measure(model, model)
    assert torch.equal(torch.get_rng_state(), random)
    assert model.training
    assert probe.measure(model, model) == first  # no dropout
    model.eval()
    terms = []
    for part in probe.batches:
        log = model(part.ids, part.attention).log_softmax(-1)
        terms.append(-log[part.chosen].gather(1, part.labels[:, None]).flatten())
    assert first == pytest.approx(float(torch.cat(terms).mean().detach()), rel=1e-5)
    with torch.no_grad():
        model.out.weight.zero_()
        model.out.bias.zero_()
    assert probe.measure(model, model) == pytest.approx(math.log(60), rel=1e-6)


def test_the_batch_size_does_not_matter() -> None:
    torch.manual_seed(0)
    model = Words()
    one, many = (MaskedLM(sentences(), IDS, batch_size=n) for n in (1, 64))
    assert one.measure(model, model) == pytest.approx(many.measure(model, model), rel=1e-5)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A small random BERT with its tokenizer, saved and loaded."""
    import transformers

    transformers.logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(55))]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, initializer_range=0.5,
    )  # fmt: skip
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def lines(number: int = 60) -> list[str]:
    return [" ".join(f"w{i - 5}" for i in ids[1:-1]) for ids in sentences(number)]


def test_a_hugging_face_model_gives_its_own_loss(bert: tuple[Any, Any]) -> None:
    model, tokenizer = bert
    probe = MaskedLM(lines(), tokenizer, batch_size=16)
    model.train()
    found = probe.measure(model)
    assert model.training
    model.eval()
    sums = 0.0
    for part in probe.batches:
        labels = torch.full_like(part.ids, -100)
        labels[part.chosen] = part.labels
        output = model(input_ids=part.ids, attention_mask=part.attention, labels=labels)
        sums += float(output.loss.detach()) * len(part.labels)
    assert found == pytest.approx(sums / probe.count, rel=1e-5)
    by_ids = MaskedLM(tokenizer(lines())["input_ids"], tokenizer, batch_size=16)
    assert fingerprint(by_ids) == fingerprint(probe)


def test_the_pretrained_decoder_stays_when_the_encoder_moves(bert: tuple[Any, Any]) -> None:
    pretrained, tokenizer = bert
    import transformers

    probe = MaskedLM(lines(), tokenizer)
    before = probe.measure(pretrained)
    tuned = transformers.BertForSequenceClassification(pretrained.config)  # has a pooler of its own
    tuned.bert.load_state_dict(pretrained.bert.state_dict(), strict=False)
    assert probe.measure(with_encoder(pretrained, tuned.bert)) == pytest.approx(before, rel=1e-6)
    with torch.no_grad():
        tuned.bert.embeddings.word_embeddings.weight.mul_(-1.0)
    decoder = pretrained.get_output_embeddings().weight
    assert decoder is pretrained.bert.embeddings.word_embeddings.weight  # tied in the pretrained model
    kept = decoder.detach().clone()
    grafted = with_encoder(pretrained, tuned.bert)
    assert torch.equal(grafted.get_output_embeddings().weight, kept)
    assert torch.equal(
        grafted.bert.embeddings.word_embeddings.weight, tuned.bert.embeddings.word_embeddings.weight
    )
    assert torch.equal(decoder, kept)
    assert probe.measure(grafted) != pytest.approx(before, rel=1e-3)
    with pytest.raises(ValueError, match="`encoder` lacks"):
        with_encoder(pretrained, tuned)


@pytest.mark.parametrize(
    ("texts", "options", "sentence"),
    [
        ([], {}, "`texts` is empty"),
        ([[2, 3]], {}, "None of the 2 tokens was chosen"),
        ([[5, 6]], {"share": 0.0}, "`share` is 0.0"),
        ([[5, 6]], {"batch_size": 0}, "`batch_size` is 0"),
    ],
)
def test_bad_texts_are_refused(texts: list[Any], options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        MaskedLM(texts, IDS, **options)


def test_tokenizers_that_do_not_fit_are_named() -> None:
    with pytest.raises(TypeError, match="`texts` are strings"):
        MaskedLM(["a b"], IDS)
    with pytest.raises(ValueError, match="has no mask token"):
        MaskedLM(["a b"], object())
