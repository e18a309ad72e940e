"""Every few-shot learner x the ways torch is really used: right to 1e-10 in float64, or refused."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from few_shot_toys import WAYS, NaiveSharing, Net, Weights, batch, leaves, unrolled
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradaccord.meta import FOMAML, MAML, DotProd, MAMLPlusPlus, MetaSGD, Reptile, Task
from gradaccord.meta.episodes.minibatches import pairs

K, LR, WEIGHT = 3, 0.3, 0.2
Function = Callable[[Weights, Tensor], Tensor]  # (weights, inputs) -> outputs, written by hand

INNER = {"inner_lr": LR, "inner_steps": K}
PLAIN = {**INNER, "inner_optimizer": "sgd", "inner_batch": None}
LEARNERS: dict[str, Callable[..., Any]] = {
    "MAML": partial(MAML, **INNER),
    "FOMAML": partial(FOMAML, **INNER),
    "MetaSGD": partial(MetaSGD, **INNER),
    "MAML++": partial(MAMLPlusPlus, **INNER),
    "Reptile": partial(Reptile, **PLAIN),
    "DotProd inner": partial(DotProd, weight=WEIGHT, max_ratio=0.3, **PLAIN),
    "DotProd outer": partial(DotProd, reading="outer", weight=WEIGHT, max_ratio=0.3, **PLAIN),
    "MAML shared": partial(MAML, share=True, **INNER),
    "FOMAML shared": partial(FOMAML, share=True, **INNER),
    "MetaSGD shared": partial(MetaSGD, share=True, **INNER),
    "MAML++ shared": partial(MAMLPlusPlus, share=True, **INNER),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)  # that the reference below knows
ALL = LEARNERS | {
    "Reptile kept": partial(Reptile, inner_lr=0.05, inner_steps=K, inner_batch=4),
    "DotProd kept": partial(DotProd, inner_lr=0.05, inner_steps=K, inner_batch=3),
    "MAML++ running": partial(MAMLPlusPlus, statistics="running", **INNER),
}
all_learners = pytest.mark.parametrize("name", ALL)


# The reference: each method written out with plain autograd, on a function of the weights.


def expected(name: str, learner: Any, f: Function, w: Weights, tasks: Sequence[Task]) -> Weights:
    """The mean meta-gradient by the weights `w`, all of which are adapted."""
    if name == "Reptile" or name.startswith("DotProd"):
        ways = [_way(name, learner, f, w, task, place) for place, task in enumerate(tasks)]
        return {n: torch.stack([way[n] for way in ways]).mean(0) for n in w}
    objective = unrolled(
        w,
        tasks,
        K,
        lambda n, k: LR,
        query_weights=[1 / K] * K if "++" in name else None,
        first_order="FOMAML" in name,
        share=NaiveSharing(K) if "shared" in name else None,
        loss=lambda w, inputs, labels: F.cross_entropy(f(w, inputs), labels),
    )
    found = torch.autograd.grad(objective, list(w.values()))
    return dict(zip(w, found, strict=True))


def _way(name: str, learner: Any, f: Function, w: Weights, task: Task, place: int) -> Weights:
    """Reptile's way back from one task, or DotProd's gradient at the start."""

    def gradient(theta: Weights, at: Tensor | slice) -> Weights:
        def value(theta: Weights) -> Tensor:
            return F.cross_entropy(f(theta, task.support[at]), task.support_labels[at])

        return torch.func.grad(value)(theta)

    def paired(theta: Weights, one: Tensor, two: Tensor) -> Weights:
        first = gradient(theta, one)
        second, pull = torch.func.vjp(partial(gradient, at=two), theta)
        (product,) = pull(first)  # the Hessian is symmetric
        total = {n: first[n] + second[n] for n in theta}
        sizes = [sum(float(v.square().sum()) for v in each.values()) for each in (total, product)]
        most = 0.3 * (sizes[0] / sizes[1]) ** 0.5
        return {n: total[n] - min(WEIGHT, most) * product[n] for n in theta}

    theta = start = {n: v.detach() for n, v in w.items()}
    if name == "Reptile":
        for _ in range(K):
            g = gradient(theta, slice(None))
            theta = {n: theta[n] - LR * g[n] for n in theta}
        return {n: start[n] - theta[n] for n in theta}
    (first, second) = pairs(len(task.support), None, 2, learner._generator(place))
    g = paired(theta, *first)
    if name == "DotProd outer":
        return g
    theta = {n: theta[n] - LR * g[n] for n in theta}
    g = gradient(theta, second[0])  # K = 3: a pair and a mini-batch alone
    return {n: start[n] - theta[n] + LR * g[n] for n in theta}


def assert_right(
    name: str, learner: Any, f: Function, w: Weights, tasks: Sequence[Task], prefix: str = ""
) -> None:
    """`.grad` of the weights named in `w` equals the reference; no other weight has one."""
    wanted = expected(name, learner, f, w, tasks)
    learner.backward(tasks)
    found = {n.removeprefix(prefix): p.grad for n, p in learner.model.named_parameters()}
    for n, gradient in wanted.items():
        assert (found[n] - gradient).norm() <= 1e-10 * gradient.norm(), n
        assert gradient.norm() > 0
    assert all(found[n] is None for n in found if n not in wanted)


def tasks_of(count: int = 3, seed: int = 0) -> list[Task]:
    """Two numbers an example, as images and labels of the other tests are too many."""
    return [
        Task(t.support.flatten(1)[:, :4], t.support_labels, t.query.flatten(1)[:, :4], t.query_labels)
        for t in batch(count, seed)
    ]


class Small(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one = nn.Linear(4, 5)
        self.two = nn.Linear(5, WAYS)
        self.double()

    def hidden(self, x: Tensor) -> Tensor:
        return torch.tanh(self.one(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.hidden(x))


def small(w: Weights, x: Tensor) -> Tensor:
    return torch.tanh(x @ w["one.weight"].T + w["one.bias"]) @ w["two.weight"].T + w["two.bias"]


@every_learner
@pytest.mark.parametrize("count", [1, 3, 32])
def test_one_task_and_thirty_two(name: str, count: int) -> None:
    learner = LEARNERS[name](Small())
    assert_right(name, learner, small, leaves(learner.model), tasks_of(count))


# Weights of other kinds.


class Tied(nn.Module):
    """One weight in three places, two of them modules."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.last = nn.Linear(4, WAYS)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.linear(torch.tanh(self.two(torch.tanh(self.one(x)))), self.one.weight))


def tied(w: Weights, x: Tensor) -> Tensor:
    x = torch.tanh(x @ w["one.weight"].T + w["one.bias"])
    x = torch.tanh(x @ w["one.weight"].T + w["two.bias"])
    return x @ w["one.weight"].T @ w["last.weight"].T + w["last.bias"]


@every_learner
def test_tied_weights_have_the_sum_of_their_gradients(name: str) -> None:
    learner = LEARNERS[name](Tied())
    assert_right(name, learner, tied, leaves(learner.model), tasks_of())


class Words(nn.Module):
    """A bag of words, looked up in a table."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(12, 4, sparse=True)
        self.head = nn.Linear(4, WAYS)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.table(x).sum(1)))


def words(w: Weights, x: Tensor) -> Tensor:
    counts = F.one_hot(x, 12).sum(1).double()
    return torch.tanh(counts @ w["table.weight"]) @ w["head.weight"].T + w["head.bias"]


@every_learner
def test_sparse_embeddings_learn_as_dense_ones(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    tasks = [
        replace(
            t,
            support=torch.randint(12, (len(t.support), 3), generator=generator),
            query=torch.randint(12, (len(t.query), 3), generator=generator),
        )
        for t in tasks_of()
    ]
    learner = LEARNERS[name](Words())
    assert_right(name, learner, words, leaves(learner.model), tasks)


def test_a_sparse_gradient_that_cannot_be_made_dense_is_refused() -> None:
    class Direct(Words):
        def forward(self, x: Tensor) -> Tensor:
            table = F.embedding(x, self.table.weight, sparse=True)
            return self.head(torch.tanh(table.sum(1)))

    inputs, labels = torch.zeros(6, 3, dtype=torch.int64), torch.arange(6) % WAYS
    for make in LEARNERS.values():
        for chosen in ("table", "head") if make.func in (MAML, FOMAML) else ("table",):
            learner = make(Direct(), adapted=lambda n, chosen=chosen: n.startswith(chosen))
            with pytest.raises(RuntimeError) as raised:
                learner.backward([Task(inputs, labels, inputs, labels)])
            assert one_sentence(raised, "sparse=False")


@every_learner
def test_lora_weights_adapt_and_the_base_stays(name: str) -> None:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["one", "two"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(Small(), config).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # B starts at 0, where A has no gradient
        for n, p in model.named_parameters():
            if "lora_" in n:
                p.copy_(0.5 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    base = dict(Small().named_parameters())

    def lora(w: Weights, x: Tensor) -> Tensor:
        for part in ("one", "two"):
            a, b = (w[f"{part}.lora_{side}.default.weight"] for side in "AB")
            x = x @ (base[f"{part}.weight"].detach() + 2 * b @ a).T + base[f"{part}.bias"].detach()
            x = torch.tanh(x) if part == "one" else x
        return x

    learner = LEARNERS[name](model, adapted=lambda n: "lora_" in n)
    prefix = "base_model.model."
    w = {n.removeprefix(prefix): v for n, v in leaves(model).items() if "lora_" in n}
    assert_right(name, learner, lora, w, tasks_of(), prefix)


def test_norms_of_mamlpp_that_are_tied_or_frozen_stay_so() -> None:
    class Normed(Small):
        def __init__(self, tie: bool) -> None:
            super().__init__()
            self.norm, self.other = (nn.BatchNorm1d(n, dtype=torch.float64) for n in (5, 5))
            if tie:
                self.other.weight, self.other.bias = self.norm.weight, self.norm.bias

        def forward(self, x: Tensor) -> Tensor:
            return self.two(self.other(torch.tanh(self.norm(self.one(x)))))

    learner = LEARNERS["MAML++"](Normed(tie=True))
    learner.backward(tasks_of())
    apart = LEARNERS["MAML++"](Normed(tie=False))
    apart.backward(tasks_of())
    together = apart.norms.affine["norm.weight"].grad + apart.norms.affine["other.weight"].grad
    found = learner.norms.affine["norm.weight"].grad
    assert (found - together).norm() <= 1e-10 * together.norm()

    model = Normed(tie=False)
    model.norm.requires_grad_(False)
    learner = LEARNERS["MAML++"](model)
    learner.backward(tasks_of())
    assert learner.norms.affine["norm.weight"].grad is None
    assert torch.equal(
        learner.norms.affine["other.weight"].grad, apart.norms.affine["other.weight"].grad
    )


@all_learners
def test_complex_weights_are_refused(name: str) -> None:
    model = Small()
    model.extra = nn.Parameter(torch.ones(2, dtype=torch.complex128))
    with pytest.raises(ValueError) as raised:
        ALL[name](model)
    assert one_sentence(raised, "extra", "complex")


@all_learners
def test_a_model_on_the_meta_device_is_refused(name: str) -> None:
    with pytest.raises(ValueError) as raised:
        ALL[name](Small().to("meta"))
    assert one_sentence(raised, "one.weight", "meta device")


@all_learners
@pytest.mark.parametrize("change", ["frozen", "thawed"])
def test_a_parameter_frozen_or_thawed_between_steps_is_refused(name: str, change: str) -> None:
    model = Small()
    model.one.bias.requires_grad_(change == "frozen")
    learner = ALL[name](model)
    learner.backward(tasks_of())
    task = tasks_of(seed=5)[0]
    answers = learner.logits(task)
    before = state(learner)
    model.one.bias.requires_grad_(change != "frozen")
    with pytest.raises(ValueError) as raised:
        learner.backward(tasks_of(seed=1))
    assert one_sentence(raised, "one.bias", "a new learner")
    assert unchanged(before, learner)
    assert torch.equal(learner.logits(task), answers)
    model.one.bias.requires_grad_(change == "frozen")
    assert learner.backward(tasks_of(seed=1)).finite


# How the forward pass is run.


class Checkpointed(Small):
    """The first layer is computed again in the backward pass."""

    reentrant, warm = False, True

    def forward(self, x: Tensor) -> Tensor:
        if self.warm:  # inputs of the checkpoint that need a gradient, as after a trained layer
            x = x + 0 * self.two.bias.sum()
        return self.two(checkpoint(self.hidden, x, use_reentrant=self.reentrant))


@all_learners
@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not"])
def test_activation_checkpointing_would_compute_with_other_weights_and_is_refused(
    name: str, reentrant: bool, warm: bool
) -> None:
    learner = ALL[name](Checkpointed())
    learner.model.reentrant, learner.model.warm = reentrant, warm
    before = state(learner)
    for call in (lambda: learner.backward(tasks_of()), lambda: learner.logits(tasks_of()[0])):
        with pytest.raises(RuntimeError) as raised:
            call()
        assert one_sentence(raised, "checkpointing", "gradient_checkpointing_disable")
    assert unchanged(before, learner)
    inputs = tasks_of()[0].support.requires_grad_()
    learner.model(inputs).sum().backward()  # outside the learner it goes on
    assert learner.model.one.weight.grad.norm() > 0


def test_saved_tensors_may_be_moved_in_the_model_and_around() -> None:
    class Offloaded(Small):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autograd.graph.save_on_cpu():
                return super().forward(x)

    for name, make in LEARNERS.items():
        learner, plain = make(Offloaded()), make(Small())
        plain.backward(tasks_of())
        with torch.autograd.graph.save_on_cpu():
            learner.backward(tasks_of())
        assert unchanged(state(plain), learner), name


def test_checkpointing_that_is_off_in_evaluation_lets_a_learner_predict() -> None:
    class InTraining(Checkpointed):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if self.training else Small.forward(self, x)

    for name, make in ALL.items():
        task = tasks_of()[0]
        assert torch.equal(make(InTraining()).logits(task), make(Small()).logits(task)), name


class Cast(Small):
    """Autocast of its own, or what is around; the loss is in float32."""

    def __init__(self, inside: bool) -> None:
        super().__init__()
        self.inside = inside
        self.float()

    def forward(self, x: Tensor) -> Tensor:
        own = torch.autocast("cpu", torch.bfloat16) if self.inside else nullcontext()
        with own:
            return super().forward(x).float()


@all_learners
def test_autocast_around_the_call_sees_that_weights_have_moved(name: str) -> None:
    """Also where a pass without gradients came before, whose casts would have none."""
    found = []
    around = partial(torch.autocast, "cpu", torch.bfloat16)
    for inside, region in (
        (False, partial(around, cache_enabled=False)),
        (False, around),
        (True, around),
        (True, partial(around, enabled=False)),
        (True, nullcontext),
    ):
        learner = ALL[name](Cast(inside), adapted=lambda n: n != "one.bias")
        tasks = [replace(t, support=t.support.float(), query=t.query.float()) for t in tasks_of()]
        with region():
            with torch.no_grad():
                learner.model(tasks[0].query)
            learner.backward(tasks)
            gradients = [p.grad.clone() for p in learner.parameters() if p.grad is not None]
            logits = learner.logits_by_step(tasks[0])
            again = learner.backward(tasks)
            adapted = learner.adapt(tasks[0].support, tasks[0].support_labels)
            learner.zero_grad()
            loss = F.cross_entropy(learner.model(tasks[0].query), tasks[0].query_labels)
        loss.backward()  # the user's own pass has its gradient, too
        own = [p.grad for p in learner.model.parameters()]
        found.append([*gradients, logits, *adapted.values(), torch.tensor(again.query_loss), *own])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    logits = found[0][-len(own) - 2 - len(adapted)]
    assert (logits[0] - logits[-1]).norm() > 0.1 * logits[0].norm()  # weights that moved are seen


@every_learner
@pytest.mark.parametrize("how", ["wrapped", "in place", "a part"])
def test_compiled_modules_give_the_same(name: str, how: str) -> None:
    torch._dynamo.reset()
    model = plain = Small()
    if how == "wrapped":
        model = torch.compile(plain, backend="aot_eager")
    elif how == "in place":
        plain.compile(backend="aot_eager")
    else:
        plain.hidden = torch.compile(plain.hidden, backend="aot_eager")
    learner = LEARNERS[name](model)
    assert_right(name, learner, small, leaves(plain), tasks_of())


@all_learners
def test_a_default_device_is_not_where_the_learner_counts(name: str) -> None:
    plain, tasks = ALL[name](Small()), tasks_of()
    model, task = Small(), tasks_of(seed=1)[0]
    with torch.device("meta"):
        learner = ALL[name](model)
        report = learner.backward(tasks)
        learner.after_step()
        logits = learner.logits_by_step(task)
    assert report.query_loss == plain.backward(tasks).query_loss
    plain.after_step()
    assert torch.equal(logits, plain.logits_by_step(task))
    assert {t.device.type for t in (*learner.parameters(), *learner.buffers())} == {"cpu"}
    for a, b in zip(learner.parameters(), plain.parameters(), strict=True):
        assert (a.grad is None and b.grad is None) or torch.equal(a.grad, b.grad)


# Copies, errors, and numbers that are not finite.


def pickled(pair: Any) -> Any:
    kept = io.BytesIO()
    torch.save(pair, kept)
    kept.seek(0)
    return torch.load(kept, weights_only=False)


@all_learners
@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_of_model_and_learner_goes_on_by_itself(name: str, copied: Callable[[Any], Any]) -> None:
    model = Small()
    learner = ALL[name](model)
    step(learner, 0)
    learner.logits(tasks_of()[0])
    twin_model, twin = copied((model, learner))
    assert twin.model is twin_model
    before = state(learner)
    step(twin, 1)
    assert unchanged(before, learner)  # the copy has its own weights, means and counters
    step(learner, 1)
    assert unchanged(state(twin), learner)
    task = tasks_of(seed=9)[0]
    assert torch.equal(twin.logits(task), learner.logits(task))
    assert not torch.equal(before["model.one.weight"], twin_model.one.weight)


class Counting(Net):
    """Counts its passes in a buffer, and fails when asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

    def forward(self, images: Tensor) -> Tensor:
        self.passes += 1
        if bool(images.isinf().any()):
            raise RuntimeError("an image is broken")
        return super().forward(images)


@all_learners
@pytest.mark.parametrize("at", [0, 2, 4])
@pytest.mark.parametrize("part", ["support", "query"])
def test_an_error_in_any_task_changes_nothing(name: str, at: int, part: str) -> None:
    learner = ALL[name](Counting())
    step(learner, 0, batch)
    learner.backward(batch(5))
    before = state(learner)
    tasks = list(batch(5, seed=1))
    inputs = getattr(tasks[at], part).clone()
    inputs[0, 0] = torch.inf
    tasks[at] = replace(tasks[at], **{part: inputs})
    with pytest.raises(RuntimeError, match="an image is broken"):
        learner.backward(tasks)
    assert unchanged(before, learner)
    twin = ALL[name](Counting())
    step(twin, 0, batch)
    twin.backward(batch(5))
    for each in (learner, twin):  # and what comes after is as if nothing had happened
        each.backward(batch(5, seed=1))
    assert unchanged(state(twin), learner)


@all_learners
@pytest.mark.parametrize("part", ["support", "query"])
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_finite_is_true_of_what_stands_in_grad(name: str, part: str, broken: float) -> None:
    learner = ALL[name](Small())
    step(learner, 0)
    kept = {n: b.clone() for n, b in learner.named_buffers()}
    tasks = tasks_of(seed=1)
    inputs = getattr(tasks[1], part).clone()
    inputs[0, 0] = broken * (1 if broken != broken else learner.model.one.weight[0, 0].item())
    tasks[1] = replace(tasks[1], **{part: inputs * 1e308 if broken == torch.inf else inputs})
    report = learner.backward(tasks)
    true = all(bool(p.grad.isfinite().all()) for p in learner.parameters() if p.grad is not None)
    assert report.finite is true
    reaches = part == "support" or not name.startswith(("Reptile", "DotProd"))
    if broken != broken:
        assert report.finite is not reaches
    if not report.finite:
        assert all(torch.equal(b, kept[n]) for n, b in learner.named_buffers())


def step(learner: Any, seed: int, draw: Callable[..., Any] = tasks_of) -> None:
    learner.backward(draw(3, seed))
    torch.optim.SGD(learner.parameters(), lr=0.1).step()
    learner.after_step()


def state(learner: Any) -> dict[str, Tensor | None]:
    """Copies of weights, buffers and gradients."""
    found: dict[str, Tensor | None] = {n: t.clone() for n, t in learner.state_dict().items()}
    for n, p in learner.named_parameters():
        found[f"gradient of {n}"] = None if p.grad is None else p.grad.clone()
    return found


def unchanged(before: dict[str, Tensor | None], learner: Any) -> bool:
    now = state(learner)
    return now.keys() == before.keys() and all(
        new is None if old is None else new is not None and torch.equal(old, new)
        for old, new in ((before[n], now[n]) for n in now)
    )


def one_sentence(raised: pytest.ExceptionInfo[Exception], *words: str) -> bool:
    text = str(raised.value)
    assert all(word in text for word in words), text
    return text.endswith(".") and ". " not in text and "\n" not in text
