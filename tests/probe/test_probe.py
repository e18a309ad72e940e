"""Probes: right against closed forms and independent oracles, and without a trace on training."""

from __future__ import annotations

import copy
import hashlib
import math
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from toy import Vectors, batch, loss_of, losses_of, trunk

import gradaccord
from gradaccord.core.report import StepReport
from gradaccord.probe.alignment import AlignmentProbe
from gradaccord.probe.cosines import task_cosines
from gradaccord.probe.distance import Distance
from gradaccord.probe.masked_lm import MaskedLM, Tokens, with_encoder

# Alignment over training


def report(
    gram: list[list[float]], losses: tuple[float, ...] = (1.0, 1.0), finite: bool = True
) -> StepReport:
    table = torch.tensor(gram, dtype=torch.float64)
    tasks = tuple(f"t{i}" for i in range(len(table)))
    given = torch.tensor(losses[: len(table)], dtype=torch.float64)
    return StepReport(tasks, given, table, torch.ones(len(table)), ("model",), 0.0, finite)


def pair(dot: float) -> StepReport:
    return report([[1.0, dot], [dot, 4.0]])


def test_the_moving_mean_of_known_numbers() -> None:
    probe = AlignmentProbe(window=3)
    for dot in (1.0, 2.0, 6.0, 1.0):
        probe.update(pair(dot / 4))
    curve = probe.curve("dot")
    assert curve.steps == (1, 2, 3, 4)
    assert curve.values == pytest.approx([0.25, 0.375, 0.75, 0.75])
    assert probe.curve("cosine").values == pytest.approx([v / 2 for v in curve.values])
    assert probe.curve("loss").values == (1.0, 1.0, 1.0, 1.0)
    assert probe.to_floats()["alignment/dot"] == pytest.approx(0.75)


def test_mean_over_the_pairs_of_tasks() -> None:
    probe = AlignmentProbe()
    probe.update(report([[1, 0.5, -0.5], [0.5, 1, 0.3], [-0.5, 0.3, 1]], (1.0, 2.0, 6.0)))
    assert probe.curve("dot").values == pytest.approx([0.1])
    assert probe.curve("cosine").values == pytest.approx([0.1])
    assert probe.curve("loss").values == pytest.approx([3.0])


def test_only_points_beyond_ten_deviations_are_dropped() -> None:
    """Of n points one alone can lie sqrt(n - 1) deviations from the mean: 10.05 in 102, 9.95 in 100."""
    for n, dropped in ((100, 0), (101, 0), (102, 1), (400, 1)):
        probe = AlignmentProbe()
        for step in range(n):
            probe.update(pair(0.9 if step == n // 2 else 0.1))
        curve = probe.curve("dot")
        assert curve.dropped == dropped, n
        assert len(curve.values) == n - dropped
        if dropped:
            assert n // 2 + 1 not in curve.steps
            assert curve.values == pytest.approx([0.1] * (n - 1))
            assert probe.to_floats()["alignment/dot"] == pytest.approx(0.1)
    assert AlignmentProbe(sigmas=math.inf).curve("dot").dropped == 0


def test_reports_without_a_measured_pair_do_not_count() -> None:
    probe = AlignmentProbe()
    model = trunk()
    probe.update(gradaccord.Sum(model, measure=False).backward(losses_of(model)))
    probe.update(gradaccord.Sum(model).backward(losses_of(model, ["a"])))
    probe.update(report([[1.0, math.inf], [math.inf, 1.0]], finite=False))
    assert (probe.step, probe.steps) == (3, [])
    assert probe.curve().values == ()
    assert math.isnan(probe.to_floats()["alignment/cosine"])
    probe.update(report([[1.0, 0.0], [0.0, 0.0]]))  # a dot product, but no cosine
    assert probe.curve("dot").steps == (4,)
    assert probe.curve("cosine").steps == ()
    assert probe.curve("cosine").dropped == 0


@pytest.mark.parametrize("method", [gradaccord.Sum, gradaccord.GradVac])
def test_it_reads_what_any_method_reports(method: Any) -> None:
    model = Vectors(torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    probe = AlignmentProbe()
    probe.update(method(model).backward(model.losses()))
    assert probe.curve("dot").values == pytest.approx([1.0])
    assert probe.curve("cosine").values == pytest.approx([math.sqrt(0.5)])


def test_pairs_of_dotprod_are_read_and_waiting_batches_are_not() -> None:
    model = trunk()
    method = gradaccord.DotProd(model)
    probe = AlignmentProbe()
    for i in range(4):
        given = method.backward({"a": partial(loss_of, model, "a", *batch(i))})
        probe.update(given)
    assert probe.curve("dot").steps == (2, 4)


def test_a_resumed_alignment_probe_goes_on() -> None:
    whole, first, second = AlignmentProbe(window=5), AlignmentProbe(window=5), AlignmentProbe(window=5)
    dots = torch.rand(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()
    for i, dot in enumerate(dots):
        whole.update(pair(dot))
        (first if i < 9 else second).update(pair(dot))
        if i == 8:
            second.load_state_dict(first.state_dict())
    assert second.curve("dot") == whole.curve("dot")
    assert second.to_floats() == whole.to_floats()


# Cosines between tasks


class Normed(nn.Module):
    """Dropout, running statistics, a frozen normalisation, and a head for each task."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Tanh())
        self.frozen = nn.BatchNorm1d(6)
        self.heads = nn.ModuleDict({task: nn.Linear(6, 3) for task in "abc"})

    def forward(self, x: torch.Tensor, task: str) -> torch.Tensor:
        return self.heads[task](self.frozen(self.body(x)))


def normed() -> tuple[Normed, dict[str, list[tuple[torch.Tensor, torch.Tensor]]]]:
    torch.manual_seed(0)
    model = Normed().double()
    model.frozen.eval()
    data = {
        task: [(torch.randn(4, 5).double(), torch.randint(3, (4,))) for _ in range(6)] for task in "abc"
    }
    return model, data


def steps(model: nn.Module, data: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    def loss(task: str, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(model(x, task), labels)

    return ({task: partial(loss, task, *data[task][i]) for task in data} for i in range(6))


def test_task_cosines_equal_those_of_autograd() -> None:
    model, data = normed()
    found = task_cosines(model, steps(model, data), batches=4)
    oracle = copy.deepcopy(model).eval()
    shared = [p for name, p in oracle.named_parameters() if not name.startswith("heads")]
    vectors = []
    for task in "abc":
        loss = torch.stack([cross_entropy(oracle(x, task), y) for x, y in data[task][:4]]).mean()
        assert found.losses[task] == pytest.approx(float(loss.detach()), rel=1e-12)
        vectors.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, shared)]))
    unit = torch.stack([v / v.norm() for v in vectors])
    torch.testing.assert_close(found.matrix, unit @ unit.T, rtol=1e-12, atol=1e-12)
    pairs = [float(found.matrix[i, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert found.mean == pytest.approx(sum(pairs) / 3)
    assert found.batches == {"a": 4, "b": 4, "c": 4}
    assert found.to_floats()["task_cosine/a~c"] == pytest.approx(pairs[1])


def test_tasks_may_come_in_some_steps_alone() -> None:
    model, data = normed()
    present = ("ab", "bc", "ac", "ab", "bc", "ac")
    given = [{t: s[t] for t in tasks} for s, tasks in zip(steps(model, data), present, strict=True)]
    found = task_cosines(model, given)
    assert found.batches == {"a": 4, "b": 4, "c": 4}
    whole = {t: [step[t] for step in given if t in step] for t in "abc"}  # as micro-batches
    torch.testing.assert_close(found.matrix, task_cosines(model, [whole]).matrix)


def test_task_cosines_leave_no_trace() -> None:
    model, data = normed()
    marks = [torch.full_like(p, i) for i, p in enumerate(model.parameters())]
    for parameter, mark in zip(model.parameters(), marks, strict=True):
        parameter.grad = mark
    state = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    assert not all(modes)
    random = torch.get_rng_state()
    task_cosines(model, steps(model, data))
    assert torch.equal(torch.get_rng_state(), random)
    assert [module.training for module in model.modules()] == modes
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name
    for parameter, mark in zip(model.parameters(), marks, strict=True):
        assert parameter.grad is mark


def test_a_failing_loss_leaves_no_trace_either() -> None:
    model, data = normed()
    mark = torch.ones_like(model.body[0].weight)
    model.body[0].weight.grad = mark

    def broken() -> torch.Tensor:
        raise RuntimeError("no data")

    with pytest.raises(RuntimeError, match="no data"):
        task_cosines(model, [*steps(model, data), {"c": broken}])
    assert model.training
    assert not model.frozen.training
    assert model.body[0].weight.grad is mark


def test_batches_are_averaged_before_they_are_compared() -> None:
    """Opposite noise in each batch hides that the tasks agree; over all batches it is gone."""
    weight = nn.Linear(2, 1, bias=False).double()
    noise = [torch.tensor([0.0, 10.0 * sign], dtype=torch.float64) for sign in (1, -1)]
    signal = torch.tensor([1.0, 0.0], dtype=torch.float64)

    def loss(sign: int, i: int) -> torch.Tensor:
        return (weight.weight[0] * (signal + sign * noise[i])).sum()

    def given() -> list[dict[str, Any]]:
        return [{"a": partial(loss, 1, i), "b": partial(loss, -1, i)} for i in (0, 1)]

    assert task_cosines(weight, given(), batches=None).mean == pytest.approx(1)
    assert task_cosines(weight, given(), batches=1).mean == pytest.approx(-99 / 101)


def test_a_heat_map_is_written(tmp_path: Path) -> None:
    model, data = normed()
    found = task_cosines(model, steps(model, data))
    assert found.draw(tmp_path / "new" / "cosines.png").read_bytes()[1:4] == b"PNG"
    assert "</svg>" in found.draw(tmp_path / "cosines.svg").read_text(encoding="utf-8")


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = normed()
    found = task_cosines(model, steps(model, data), batches=1)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match='pip install "gradaccord\\[report\\]"'):
        found.figure()


# Distance


def test_distance_in_closed_form() -> None:
    model = trunk()
    distance = Distance(model)
    assert distance.measure().total == 0
    with torch.no_grad():
        model.layers[0].weight += 0.5
        model.layers[1].bias[0] += 3
        model.heads["a"].bias -= 2
    moved = distance.measure()
    first = 0.5 * math.sqrt(model.layers[0].weight.numel())
    head = 2 * math.sqrt(3)
    assert moved.layers["layers.0"] == pytest.approx(first, rel=1e-12)
    assert moved.layers["layers.1"] == pytest.approx(3, rel=1e-12)
    assert moved.layers["heads.a"] == pytest.approx(head, rel=1e-12)
    assert moved.layers["heads.b"] == 0
    assert moved.total == pytest.approx(math.sqrt(first**2 + 9 + head**2), rel=1e-12)
    assert moved.to_floats()["distance/layers.1"] == moved.layers["layers.1"]
    shared = Distance(model, within=["words", "layers"], reference=trunk())
    assert shared.measure().total == pytest.approx(math.sqrt(first**2 + 9), rel=1e-12)
    assert all(not name.startswith("heads") for name in shared.measure().layers)


def test_distance_from_a_saved_reference(tmp_path: Path) -> None:
    model = trunk(1).requires_grad_(False)
    torch.save(trunk(2).state_dict(), tmp_path / "pretrained.pt")
    found = Distance(model, reference=torch.load(tmp_path / "pretrained.pt")).measure()
    one, two = (torch.cat([p.detach().flatten() for p in trunk(i).parameters()]) for i in (1, 2))
    assert found.total == pytest.approx(float((one - two).norm()), rel=1e-12)


def test_distance_of_many_small_moves_is_exact_in_float32() -> None:
    model = nn.Linear(3000, 1000, bias=False)
    distance = Distance(model)
    with torch.no_grad():
        model.weight.zero_()
    exact = float(distance.reference["weight"].double().norm())
    assert distance.measure().total == pytest.approx(exact, rel=1e-12)


def test_tied_weights_count_once() -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    distance = Distance(model)
    with torch.no_grad():
        model[0].weight += 1
    assert distance.measure().total == pytest.approx(3)


def test_a_reference_that_does_not_fit_is_refused() -> None:
    state = trunk().state_dict()
    with pytest.raises(ValueError, match="`reference` has no 'words.weight'"):
        Distance(trunk(), reference={k: v for k, v in state.items() if k != "words.weight"})
    state["words.weight"] = torch.zeros(1, 6)
    with pytest.raises(ValueError, match=r"'words.weight' in shape \(1, 6\)"):
        Distance(trunk(), reference=state)
    with pytest.raises(ValueError, match="`within` lists 'encoder'"):
        Distance(trunk(), within=["encoder"])


def test_distance_of_a_sharded_model() -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = trunk(1)
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        expected = Distance(trunk(1), reference=trunk(2)).measure()
        found = Distance(model, reference=trunk(2)).measure()
        own = Distance(model).measure()
    finally:
        dist.destroy_process_group()
    assert found == expected
    assert own.total == 0


# Masked language modelling

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
        "from test_probe import MaskedLM, IDS, sentences, fingerprint\n"
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


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(TypeError, match="`texts` are strings"):
        MaskedLM(["a b"], IDS)
    with pytest.raises(ValueError, match="has no mask token"):
        MaskedLM(["a b"], object())
    model, data = normed()
    with pytest.raises(ValueError, match="a cosine takes two"):
        task_cosines(model, steps(model, {"a": data["a"]}))
    with pytest.raises(TypeError, match="`losses` is one mapping"):
        task_cosines(model, next(steps(model, data)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`batches` is 0"):
        task_cosines(model, steps(model, data), batches=0)
    with pytest.raises(ValueError, match="`quantity` is 'norm'"):
        AlignmentProbe().curve("norm")
    with pytest.raises(ValueError, match="`window` is 0"):
        AlignmentProbe(window=0)
