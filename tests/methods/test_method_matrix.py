"""Every method under every way in which torch is really used: right to 1e-10, or refused in a sentence.

Each way is compared with the same training without it, in float64: a checkpointed model with one that
is not, a sparse embedding with a dense one, a copied pair of model and method with the original.
"""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from every_method import unlisted
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import gradaccord
from gradaccord.methods import registry

TASKS = ("b", "a", "c")
SAME = 1e-10


class Net(nn.Module):
    """An embedding, two layers, heads; smooth, so that second derivatives exist everywhere."""

    def __init__(self, tasks=TASKS, sparse: bool = False, reentrant: bool | None = None) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 6, sparse=sparse)
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 6))
        self.heads = nn.ModuleDict({task: nn.Linear(6, 3) for task in tasks})
        self.reentrant = reentrant

    def features(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.words(tokens).mean(1)
        if self.reentrant is None:
            return torch.tanh(self.layers(hidden))
        return torch.tanh(checkpoint(self.layers, hidden, use_reentrant=self.reentrant))

    def forward(self, tokens: torch.Tensor, task: str) -> torch.Tensor:
        return self.heads[task](self.features(tokens))


class Tied(nn.Module):
    """The word table is also the output layer: as one tensor under two names, or used twice."""

    def __init__(self, twice: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 6)
        self.layer = nn.Linear(6, 6)
        if not twice:
            self.out = nn.Linear(6, 40, bias=False)
            self.out.weight = self.words.weight

    def forward(self, tokens: torch.Tensor, task: str) -> torch.Tensor:
        hidden = torch.tanh(self.layer(self.words(tokens).mean(1)))
        out = F.linear(hidden, self.words.weight) if not hasattr(self, "out") else self.out(hidden)
        return out[:, ord(task[0]) % 7 :][:, :3]


class Complex(nn.Module):
    """A complex layer, with its weights as complex numbers or as pairs of real ones."""

    def __init__(self, real: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 6)
        weights = torch.randn(6, 6, 2, dtype=torch.float64)
        self.weight = nn.Parameter(weights if real else torch.view_as_complex(weights))
        self.heads = nn.ModuleDict({task: nn.Linear(6, 3) for task in TASKS})

    def forward(self, tokens: torch.Tensor, task: str) -> torch.Tensor:
        weight = self.weight if self.weight.is_complex() else torch.view_as_complex(self.weight)
        hidden = self.words(tokens).mean(1).to(torch.complex128) @ weight
        return self.heads[task](torch.tanh(hidden.abs()))


class LowRank(nn.Module):
    """A frozen layer with a trained low-rank part, written out or by PEFT."""

    def __init__(self, adapted: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 6).requires_grad_(False)
        self.layer: nn.Module = nn.Linear(6, 6)
        down, up = torch.randn(2, 6), torch.randn(6, 2)
        heads = nn.ModuleDict({task: nn.Linear(6, 3) for task in TASKS})
        if adapted:
            peft = pytest.importorskip("peft", reason="PEFT is not installed")
            config = peft.LoraConfig(r=2, lora_alpha=2, target_modules=["0"], init_lora_weights=False)
            self.layer = peft.get_peft_model(nn.Sequential(self.layer), config)
            lora = self.layer.base_model.model[0]
            with torch.no_grad():
                lora.lora_A["default"].weight.copy_(down)
                lora.lora_B["default"].weight.copy_(up)
        else:
            self.layer.requires_grad_(False)
            parts = {"down": nn.Linear(6, 2, bias=False), "up": nn.Linear(2, 6, bias=False)}
            parts["down"].weight, parts["up"].weight = nn.Parameter(down), nn.Parameter(up)
            self.low_rank = nn.ModuleList([nn.ModuleDict(parts)])  # one layer, as PEFT's is
        self.heads = heads

    def forward(self, tokens: torch.Tensor, task: str) -> torch.Tensor:
        hidden = self.words(tokens).mean(1)
        out = self.layer(hidden)
        if hasattr(self, "low_rank"):
            out = out + self.low_rank[0]["up"](self.low_rank[0]["down"](hidden))
        return self.heads[task](torch.tanh(out))


def net(build: Callable[..., nn.Module] = Net, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return build(**options).double()


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator("cpu").manual_seed(seed)
    options: dict[str, Any] = {"generator": generator, "device": "cpu"}
    return torch.randint(0, 40, (5, 4), **options), torch.randint(0, 3, (5,), **options)


def loss_of(model: nn.Module, task: str, seed: int) -> torch.Tensor:
    tokens, labels = batch(seed)
    return F.cross_entropy(model(tokens, task), labels)


class Training:
    """A model, its method and optimiser, that can be copied between two steps as people do."""

    def __init__(self, name: str, model: nn.Module, tasks: tuple[str, ...] = TASKS) -> None:
        self.name, self.model, self.tasks = name, model, tasks
        make, self.feed = METHODS[name]
        self.wrap: Any = None
        rate = 0.05
        trained = [p for p in model.parameters() if p.requires_grad]
        if name == "SWEP":
            self.wrap = gradaccord.SWEP(model, encoder="words", hidden_size=6)
        elif name == "SMART":
            self.wrap = gradaccord.SMART(model, bregman=1.0, probe_every=0)
        if name == "RecAdam":
            self.optimizer: Any = gradaccord.RecAdam(trained, lr=1e-3, gamma=10.0, t0=2.0)
        else:
            self.optimizer = torch.optim.SGD(trained, lr=rate)
        self.method = make(model, self.optimizer)

    def losses(self, step: int) -> dict[str, Callable[[], Any]]:
        if self.feed == "all":
            seeds = {task: 10 * step + i for i, task in enumerate(sorted(self.tasks))}
        elif self.feed == "pair":
            first, second = self.tasks[step % len(self.tasks)], self.tasks[(step + 1) % len(self.tasks)]
            names = (first, second) if first != second else (first, f"{first}+")
            seeds = {names[0]: 10 * step, names[1]: 10 * step + 1}
        else:
            span = 2 if self.feed == "blocks" else 1
            seeds = {self.tasks[step // span % len(self.tasks)]: 10 * step}
        found: dict[str, Callable[[], Any]] = {}
        for name, seed in seeds.items():
            task = name.rstrip("+")
            if self.wrap is None:
                found[name] = partial(loss_of, self.model, task, seed)
            else:
                tokens, labels = batch(seed)
                found[name] = self.wrap.loss(
                    partial(self.model, tokens, task), partial(cross_entropy, labels), task=task
                )
        return found

    def step(self, number: int, losses: Any = None) -> None:
        torch.manual_seed(number)  # dropout
        self.method.backward(losses or self.losses(number))
        self.optimizer.step()
        self.method.after_step()
        if self.wrap is not None:
            self.wrap.after_step()
        self.optimizer.zero_grad()

    def run(self, start: int = 0, stop: int = 5) -> Training:
        for number in range(start, stop):
            self.step(number)
        return self

    def weights(self) -> list[torch.Tensor]:
        values = [p.detach() for p in self.model.parameters() if p.requires_grad]
        real = [torch.view_as_real(v) if v.is_complex() else v for v in values]
        return sorted((v.clone() for v in real), key=lambda v: (v.shape, float(v.sum())))

    def snapshot(self) -> dict[str, Any]:
        """All that an exception must leave alone."""
        return {
            "weights": [p.detach().clone() for p in self.model.parameters()],
            "buffers": [b.clone() for b in self.model.buffers()],
            "grad": [None if p.grad is None else p.grad.clone() for p in self.model.parameters()],
            "method": self.method.state_dict(),
        }


def cross_entropy(labels: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, labels)


def _torchjd(model: nn.Module, optimizer: Any) -> Any:
    aggregation = pytest.importorskip("torchjd.aggregation", reason="TorchJD is not installed")
    return gradaccord.TorchJD(model, aggregation.UPGradWeighting())


# How each is built, and what one `backward` is given.
METHODS: dict[str, tuple[Callable[[nn.Module, Any], Any], str]] = {
    "Sum": (lambda m, o: gradaccord.Sum(m), "all"),
    "Mean": (lambda m, o: gradaccord.Mean(m), "all"),
    "PCGrad": (lambda m, o: gradaccord.PCGrad(m), "all"),
    "GradVac": (lambda m, o: gradaccord.GradVac(m, granularity="layer", beta=0.3), "all"),
    "GradNorm": (lambda m, o: gradaccord.GradNorm(m), "all"),
    "TorchJD": (_torchjd, "all"),
    "ConFIG": (lambda m, o: gradaccord.ConFIG(m), "all"),
    "GradVac, normalised": (lambda m, o: gradaccord.GradVac(m, beta=0.3, normalize=True), "all"),
    "UncertaintyWeighting": (lambda m, o: gradaccord.UncertaintyWeighting(m, lr=0.3), "all"),
    "DWA": (lambda m, o: gradaccord.DWA(m, window=2), "all"),
    "RLW": (lambda m, o: gradaccord.RLW(m), "all"),
    "FAMO": (lambda m, o: gradaccord.FAMO(m, lr=0.3), "all"),
    "LossScale": (lambda m, o: gradaccord.LossScale(m), "all"),
    "SmoothTchebycheff": (lambda m, o: gradaccord.SmoothTchebycheff(m), "all"),
    "PairedSum": (lambda m, o: gradaccord.PairedSum(m), "pair"),
    "DotProd": (lambda m, o: gradaccord.DotProd(m), "pair"),
    "DotProd by differences": (lambda m, o: gradaccord.DotProd(m, mode="difference"), "pair"),
    "SAM": (lambda m, o: gradaccord.SAM(m), "one"),
    "SAM on pairs": (lambda m, o: gradaccord.SAM(m, batches=2), "pair"),
    "Reptile": (lambda m, o: gradaccord.Reptile(m, o, inner_steps=2), "one"),
    "SequentialReptile": (
        lambda m, o: gradaccord.SequentialReptile(m, o, inner_steps=4, outer_lr=0.3),
        "one",
    ),
    "Averaged": (lambda m, o: gradaccord.Averaged(m, decay=0.5, start=1), "all"),
    "FOMAML": (lambda m, o: gradaccord.FOMAML(m, o, inner_steps=2), "one"),
    "MultiTaskReptile": (
        lambda m, o: gradaccord.MultiTaskReptile(m, o, tasks=2, inner_steps=2),
        "blocks",
    ),
    "RecAdam": (lambda m, o: gradaccord.Sum(m), "all"),
    "SMART": (lambda m, o: gradaccord.Sum(m), "all"),
    "SWEP": (lambda m, o: gradaccord.PCGrad(m), "all"),
}
for new, entry in unlisted(METHODS).items():  # a new method, at its defaults
    METHODS[new] = partial(entry.build, tasks=TASKS), entry.feed_with({})


def same(found: Training, expected: Training) -> None:
    pairs = list(zip(found.weights(), expected.weights(), strict=True))
    for one, other in pairs:
        torch.testing.assert_close(one.reshape(other.shape), other, rtol=SAME, atol=SAME)


def one_sentence(error: BaseException) -> None:
    assert isinstance(error, ValueError | TypeError | RuntimeError), error
    text = str(error)
    assert re.fullmatch(r"[^\n]*\.", text), text
    assert len(re.findall(r"[.!?](?:\s|$)", text)) == 1, text


@contextmanager
def refusal_allowed(training: Training) -> Iterator[list[str]]:
    """A way may be refused by one sentence, after which all is as before."""
    before, refused = training.snapshot(), []
    try:
        yield refused
    except (ValueError, TypeError, RuntimeError) as error:
        one_sentence(error)
        unchanged(training.snapshot(), before)
        refused.append(str(error))


def unchanged(found: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        dense = [t.to_dense() if t.is_sparse else t for t in (found, expected)]
        assert torch.equal(*dense)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            unchanged(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            unchanged(one, other)
    else:
        assert found == expected or (found != found and expected != expected)


CHANGED: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module]]] = {
    "checkpointing": (lambda: net(reentrant=False), net),
    "reentrant checkpointing": (lambda: net(reentrant=True), net),
    "sparse embedding": (lambda: net(sparse=True), net),
    "tied weights": (lambda: net(Tied, twice=False), lambda: net(Tied, twice=True)),
    "complex weights": (lambda: net(Complex, real=False), lambda: net(Complex, real=True)),
    "LoRA": (lambda: net(LowRank, adapted=True), lambda: net(LowRank, adapted=False)),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("way", CHANGED)
@pytest.mark.parametrize("name", METHODS)
def test_a_changed_model_trains_as_the_plain_one(name, way):
    changed, plain = CHANGED[way]
    if name == "RecAdam" and way in ("sparse embedding", "complex weights"):  # an optimiser's refusal
        with pytest.raises((TypeError, RuntimeError)) as refusal:
            Training(name, changed()).run()
        return one_sentence(refusal.value)
    training = Training(name, changed())
    with refusal_allowed(training) as refused:
        training.run()
    if refused:
        return
    expected = name
    if name == "DotProd" and training.method.mode == "difference":  # fell back, with a warning
        expected = "DotProd by differences"
    same(training, Training(expected, plain()).run())


@contextmanager
def compiled(model: nn.Module) -> Iterator[nn.Module]:
    """The compiler's whole front end and its backward graph; code generation is tested elsewhere."""
    torch._dynamo.reset()
    model.compile(backend="aot_eager")
    yield model
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", METHODS)
def test_a_compiled_model_trains_as_the_plain_one(name):
    plain = Training(name, without_dropout(net(tasks=("a",))), tasks=("a",))
    with compiled(without_dropout(net(tasks=("a",)))) as model:
        training = Training(name, model, tasks=("a",))
        with refusal_allowed(training) as refused:
            training.run(stop=3)
        if refused:
            return
    if name == "DotProd":  # compiled code cannot be differentiated twice, which it says
        assert training.method.mode == "difference"
        plain = Training("DotProd by differences", plain.model, tasks=("a",))
    same(training, plain.run(stop=3))


def without_dropout(model: nn.Module) -> nn.Module:
    """Compiled code draws its masks from a stream of its own."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


class Detachable(Net):
    """Freezes a layer by cutting it off the graph: what `requires_grad = False` must amount to."""

    cut = False

    def features(self, tokens: torch.Tensor) -> torch.Tensor:
        first = self.layers[0]
        weight, bias = (p.detach() if self.cut else p for p in (first.weight, first.bias))
        hidden = F.linear(self.words(tokens).mean(1), weight, bias)
        return torch.tanh(self.layers[3](self.layers[2](torch.tanh(hidden))))


@pytest.mark.parametrize("name", [n for n in METHODS if n not in ("RecAdam", "SMART")])
def test_a_layer_frozen_between_steps_and_unfrozen_again(name):
    frozen, cut = Training(name, net(Detachable)), Training(name, net(Detachable))
    with refusal_allowed(frozen) as refused:
        for number in range(12):
            off = 4 <= number < 8  # between trajectories: inside one, a frozen weight stays where it is
            frozen.model.layers[0].requires_grad_(not off)
            cut.model.cut = off
            cut.step(number)
            if number in (4, 8):
                refused_from = frozen.snapshot()
            frozen.step(number)
    if refused:
        unchanged(frozen.snapshot(), refused_from)
        return
    same(frozen, cut)


@pytest.mark.parametrize("name", METHODS)
def test_a_default_device_that_is_not_the_cpu(name):
    """Tensors that a method makes for itself are where it means them to be."""
    expected = Training(name, net()).run(stop=3)
    model = net()
    with torch.device("meta"):
        training = Training(name, model).run(stop=3)
    same(training, expected)


def copied(training: Training) -> Training:
    return copy.deepcopy(training)


def pickled(training: Training) -> Training:
    return pickle.loads(pickle.dumps(training))


@pytest.mark.parametrize("how", [copied, pickled])
@pytest.mark.parametrize("name", METHODS)
def test_a_copy_of_model_and_method_goes_on_as_the_original(name, how):
    training = Training(name, net()).run(stop=3)
    other = how(training)
    before = training.snapshot()
    other.run(3, 6)
    unchanged(training.snapshot(), before)  # the copy has nothing in common with it
    same(other, training.run(3, 6))


NO_NOISE = [n for n, (_, feed) in METHODS.items() if feed == "all" and n not in ("SMART", "SWEP")]


@pytest.mark.parametrize("name", NO_NOISE)
def test_tasks_that_come_and_go_in_any_order(name):
    steps = [("b", "a", "c"), ("c", "a"), ("b",), ("a", "b", "c"), ("c",), ("b", "c")]
    one, other = Training(name, without_dropout(net())), Training(name, without_dropout(net()))
    for number, present in enumerate(steps):
        losses = one.losses(number)
        one.step(number, {task: losses[task] for task in present})
        losses = other.losses(number)
        other.step(number, {task: losses[task] for task in reversed(present)})
    same(one, other)


@pytest.mark.parametrize(
    "name", ["Sum", "Mean", "PCGrad", "GradVac", "GradNorm", "TorchJD", "ConFIG", "Averaged"]
)
def test_one_task_alone_is_plain_training(name):
    training = Training(name, net(tasks=("a",)), tasks=("a",)).run()
    plain = net(tasks=("a",))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05)
    for number in range(5):
        torch.manual_seed(number)
        optimizer.zero_grad()
        loss_of(plain, "a", 10 * number).backward()
        optimizer.step()
    for found, expected in zip(training.model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=SAME, atol=SAME)


# These weigh whole losses, and read no gradient.
BY_LOSSES = [entry.class_name for entry in registry.METHODS.values() if entry.loss_only]
MANY = tuple(f"task {i:02}" for i in range(32))


@pytest.mark.parametrize("name", [name for name in NO_NOISE if name not in BY_LOSSES])
def test_thirty_two_tasks_with_heads_of_their_own(name):
    """Head gradients are plain; the trunk's is the reported weights times the tasks' gradients."""
    training = Training(name, without_dropout(net(tasks=MANY)), tasks=MANY)
    model, losses = training.model, training.losses(0)
    shared = [*model.words.parameters(), *model.layers.parameters()]
    report = training.method.backward(losses)
    assert set(report.tasks) == set(MANY)
    rows = []
    for task in report.tasks:
        head = list(model.heads[task].parameters())
        gradients = torch.autograd.grad(losses[task](), [*shared, *head])
        rows.append(torch.cat([g.flatten() for g in gradients[: len(shared)]]))
        share = 1 / 32 if name == "Mean" else 1.0
        for parameter, gradient in zip(head, gradients[len(shared) :], strict=True):
            torch.testing.assert_close(parameter.grad, share * gradient, rtol=SAME, atol=SAME)
    stacked = torch.stack(rows)
    torch.testing.assert_close(report.gram, stacked @ stacked.T, rtol=SAME, atol=SAME)
    if report.weights.ndim == 1:
        found = torch.cat([p.grad.flatten() for p in shared])
        torch.testing.assert_close(found, report.weights @ stacked, rtol=SAME, atol=SAME)


class PlannedError(RuntimeError):
    """What a user's loss may raise."""


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_an_exception_in_the_kth_task_leaves_everything_as_before(name, at):
    training, undisturbed = Training(name, net()).run(stop=3), Training(name, net()).run(stop=3)
    losses = training.losses(3)
    if at >= len(losses):
        pytest.skip("the method is given fewer tasks in a step")
    task = list(losses)[at]

    def broken(first: Callable[[], Any] = losses[task]) -> Any:
        first()
        raise PlannedError("the disk is gone")

    before = training.snapshot()
    with pytest.raises(PlannedError, match="the disk is gone"):
        training.method.backward(losses | {task: broken})
    unchanged(training.snapshot(), before)
    same(training.run(3, 6), undisturbed.run(3, 6))
