"""What all learners share: state, evaluation, memory, errors."""

from __future__ import annotations

import copy
import gc
import io
import mmap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from few_shot_toys import (
    KINDS,
    WAYS,
    Make,
    Net,
    assert_each_close,
    batch,
    held_gradients,
    made,
    same,
    train,
)
from torch import nn
from torch.nn import functional as F

from gradaccord.meta import FOMAML, MAML, DotProd, MAMLPlusPlus, Reptile, Task, TaskBatch

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_a_run_killed_at_any_iteration_resumes_bit_for_bit(kind: str) -> None:
    learner, optimizer = made(kind)
    saved = []
    for iteration in range(6):
        file = io.BytesIO()
        torch.save({"learner": learner.state_dict(), "optimizer": optimizer.state_dict()}, file)
        saved.append(file)
        train(learner, optimizer, range(iteration, iteration + 1))
    end = learner.logits_by_step(batch(seed=99)[0], steps=5)
    for start, file in enumerate(saved):
        file.seek(0)
        state = torch.load(file, weights_only=True)
        other, its_optimizer = made(kind)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.add_(1)  # a fresh instance will do, whatever it holds
        other.load_state_dict(state["learner"])
        its_optimizer.load_state_dict(state["optimizer"])
        train(other, its_optimizer, range(start, 6))
        assert same(learner.state_dict(), other.state_dict())
        assert torch.equal(end, other.logits_by_step(batch(seed=99)[0], steps=5))


@every_kind
def test_evaluation_changes_no_training_state(kind: str) -> None:
    """Pitfall: clones that share BatchNorm buffers, so that validation changes training statistics."""
    learner, optimizer = made(kind)
    train(learner, optimizer, range(2))
    learner.backward(batch(seed=5))
    learner.model.head.eval()
    before = copy.deepcopy(learner.state_dict())
    gradients = {n: None if p.grad is None else p.grad.clone() for n, p in learner.named_parameters()}
    random = torch.get_rng_state()
    modes = [(m.training, getattr(m, "track_running_stats", None)) for m in learner.modules()]
    task = batch(seed=7)[0]
    for transductive in (False, True):
        learner.logits_by_step(task, steps=5, transductive=transductive)
        learner.logits(task, transductive=transductive)
    learner.adapt(task.support, task.support_labels)
    assert same(before, learner.state_dict())
    assert torch.equal(random, torch.get_rng_state())
    assert modes == [(m.training, getattr(m, "track_running_stats", None)) for m in learner.modules()]
    for name, parameter in learner.named_parameters():
        held = gradients[name]
        assert (parameter.grad is None) if held is None else torch.equal(parameter.grad, held)


@pytest.mark.parametrize("kind", ["MAML", "MAML++ running"])
def test_running_statistics_of_the_model_are_not_touched_by_training(kind: str) -> None:
    learner, optimizer = made(kind)
    train(learner, optimizer, range(3))
    assert not learner.model.norm.running_mean.any()
    assert int(learner.model.norm.num_batches_tracked) == 0


@every_kind
def test_queries_do_not_see_each_other_unless_asked(kind: str) -> None:
    """Pitfall: transduction by accident."""
    learner, optimizer = made(kind)
    train(learner, optimizer, range(3))
    task = batch(seed=8)[0]
    together = learner.logits_by_step(task)
    order = torch.randperm(len(task.query), generator=torch.Generator().manual_seed(0))
    shuffled = Task(task.support, task.support_labels, task.query[order], task.query_labels[order])
    assert torch.allclose(learner.logits_by_step(shuffled), together[:, order], rtol=0, atol=1e-12)
    for part in (slice(0, 1), slice(1, 5), slice(5, None)):
        some = Task(task.support, task.support_labels, task.query[part], task.query_labels[part])
        assert torch.allclose(learner.logits_by_step(some), together[:, part], rtol=0, atol=1e-12)
    transductive = learner.logits_by_step(task, transductive=True)
    assert (transductive - together).abs().max() > 1e-3


@every_kind
def test_another_number_of_steps_at_test_than_in_training(kind: str) -> None:
    """Pitfall: it broke per-step BatchNorm and learned rates."""
    learner, optimizer = made(kind)
    train(learner, optimizer, range(3))
    task = batch(seed=8)[0]
    many = learner.logits_by_step(task, steps=9)
    assert many.shape == (10, len(task.query), WAYS)
    assert many.isfinite().all()
    assert torch.equal(many[:4], learner.logits_by_step(task))
    assert torch.equal(many[9], learner.logits(task, steps=9))
    assert torch.equal(many[:1], learner.logits_by_step(task, steps=0))
    assert not torch.equal(many[9], many[3])


def test_steps_beyond_training_use_the_last_rates_norms_and_means() -> None:
    learner, optimizer = made("MAML++ shared")
    train(learner, optimizer, range(3))
    longer = MAMLPlusPlus(Net(), inner_steps=5, share=True, epoch_length=2)
    state = {
        name: torch.cat([value, value[-1:], value[-1:]])
        if name.startswith(("rates", "norms", "sharing")) and value.ndim
        else value
        for name, value in learner.state_dict().items()
    }
    longer.load_state_dict(state)
    task = batch(seed=8)[0]
    assert torch.equal(learner.logits_by_step(task, steps=5), longer.logits_by_step(task))


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("kind", ["MAML", "FOMAML", "MetaSGD", "MAML++", "Reptile", "DotProd inner"])
def test_memory_is_flat(kind: str, share: bool) -> None:
    """Pitfall: memory that grows with every iteration (undetached running means, leaked clones)."""
    if share and kind in ("Reptile", "DotProd inner"):
        pytest.skip("gradients are shared in the MAML family")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(25, 200), nn.BatchNorm1d(200), nn.Linear(200, WAYS))
    options = {"share": True} if share else {}
    iterations = 500 if kind == "MAML++" and share else 80
    learner = KINDS[kind](model.double(), inner_steps=2, **options)
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.001)
    tasks = batch(tasks=1 if iterations == 500 else 2)
    statm = Path("/proc/self/statm")  # of Linux; elsewhere tensors are counted only

    def step() -> None:
        learner.backward(tasks)
        optimizer.step()
        learner.after_step()

    def held() -> tuple[int, int]:
        tensors = sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())
        pages = int(statm.read_text().split()[1]) if statm.exists() else 0
        return tensors, pages * mmap.PAGESIZE // 1024

    for _ in range(30):
        step()
    gc.collect()
    gc.disable()  # what only the collector can free is a leak too
    try:
        tensors, kilobytes = held()
        for _ in range(iterations - 30):
            step()
        after, at_last = held()
    finally:
        gc.enable()
    assert after <= tensors
    # One leaked copy of the weights an iteration would be 46 kB.
    assert at_last - kilobytes < 20 * (iterations - 30)


def test_the_graphs_of_tasks_are_held_one_at_a_time() -> None:
    def most_saved(tasks: int) -> int:
        learner = MAML(Net())
        alive, most = 0, 0

        class Held:
            def __init__(self, tensor: torch.Tensor) -> None:
                nonlocal alive, most
                self.tensor = tensor
                alive += 1
                most = max(most, alive)

            def __del__(self) -> None:
                nonlocal alive
                alive -= 1

        with torch.autograd.graph.saved_tensors_hooks(Held, lambda held: held.tensor):
            learner.backward(batch(tasks=tasks))
        return most

    assert most_saved(4) < 1.1 * most_saved(1)


@pytest.mark.parametrize("inner", [MAML, FOMAML])
def test_a_loss_that_is_a_sum_needs_a_smaller_rate(inner: Make) -> None:
    """Pitfall: Finn's 0.4 is on a sum over the five ways; on a mean over five examples it is 2.0."""
    tasks = batch(shots=1)
    summed = partial(F.cross_entropy, reduction="sum")
    one = inner(Net(), inner_lr=0.4)
    other = inner(Net(), inner_lr=0.4 / WAYS, loss=summed)
    found = one.adapt(tasks[0].support, tasks[0].support_labels)
    expected = other.adapt(tasks[0].support, tasks[0].support_labels)
    for name, tensor in found.items():
        assert torch.allclose(tensor, expected[name], rtol=1e-10, atol=1e-12)


def test_accuracy_before_adaptation_is_chance_after_training() -> None:
    """Pitfall: labels in class order leak; before adaptation accuracy was 30 % where chance is 20."""
    from gradaccord.meta.episodes.image_tasks import Episodes

    generator = torch.Generator().manual_seed(0)
    classes = torch.randn(40, 8, generator=generator)
    inputs = classes.repeat_interleave(20, 0) + 0.3 * torch.randn(800, 8, generator=generator)
    episodes = Episodes(
        (inputs, torch.arange(40).repeat_interleave(20)), ways=5, shots=2, queries=5, tasks=4
    )
    torch.manual_seed(0)
    learner = MAML(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5)), inner_lr=0.3)
    optimizer = torch.optim.Adam(learner.parameters(), lr=3e-3)
    for _ in range(150):
        report = learner.backward(next(episodes))
        optimizer.step()
        learner.after_step()
    assert report.query_accuracy > 0.8
    right = [
        (learner.logits_by_step(task, steps=5).argmax(-1) == task.query_labels).double().mean(1)
        for _ in range(40)
        for task in next(episodes)
    ]
    accuracy = torch.stack(right).mean(0)
    assert 0.16 < float(accuracy[0]) < 0.24  # 160 tasks, standard error about 0.015
    assert float(accuracy[-1]) > 0.8


def test_no_gradient_is_another_ones_memory() -> None:
    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Parameter(torch.ones(25, WAYS, dtype=torch.float64))
            self.two = nn.Parameter(torch.ones(25, WAYS, dtype=torch.float64))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.flatten(1) @ (self.one + self.two)

    for kind in (MAML, FOMAML):
        learner = kind(Twins())
        learner.backward(batch())
        one, two = learner.model.one.grad, learner.model.two.grad
        assert one.data_ptr() != two.data_ptr()
        assert torch.allclose(one, two, rtol=1e-12)


def test_what_was_in_grad_is_replaced_and_survives_an_error() -> None:
    learner, _ = made("MAML shared")
    learner.backward(batch())
    first = learner.model.conv.weight.grad.clone()
    state = copy.deepcopy(learner.state_dict())
    bad = batch()
    bad.query_labels[0, 0] = WAYS
    with pytest.raises(ValueError, match="Labels run to 3 and the model has 3 outputs"):
        learner.backward(bad)
    assert torch.equal(learner.model.conv.weight.grad, first)
    assert same(state, learner.state_dict())


@every_kind
def test_copies_and_dropout_and_no_grad(kind: str) -> None:
    learner, optimizer = made(kind)
    train(learner, optimizer, range(1))
    twin = copy.deepcopy(learner)
    task = batch(seed=8)[0]
    with torch.no_grad():
        assert torch.equal(twin.logits_by_step(task), learner.logits_by_step(task))
    learner.backward(batch(seed=3))
    twin.backward(batch(seed=3))
    for one, two in zip(learner.parameters(), twin.parameters(), strict=True):
        assert (one.grad is None and two.grad is None) or torch.equal(one.grad, two.grad)


def test_dropout_is_on_in_training_and_off_in_evaluation() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(25, 16), nn.Dropout(0.5), nn.Linear(16, WAYS)
    ).double()
    learner = FOMAML(model)
    losses = {learner.backward(batch()).query_loss for _ in range(3)}
    assert len(losses) == 3
    task = batch()[0]
    assert torch.equal(learner.logits_by_step(task), learner.logits_by_step(task))
    assert model[2].training


@pytest.mark.parametrize("kind", ["MAML", "FOMAML", "MetaSGD", "MAML++", "Reptile", "DotProd inner"])
def test_a_batch_given_in_parts_has_the_gradient_of_the_whole(kind: str) -> None:
    (whole, _), (parts, _) = made(kind), made(kind)
    tasks = batch(tasks=5)
    for _ in range(2):  # what stood in .grad before the first part is replaced
        whole.backward(tasks)
        for part in (slice(0, 2), slice(2, 3), slice(3, 5)):
            report = parts.backward(tasks.part(part), of=5)
        assert report.finite
        assert_each_close(held_gradients(parts), held_gradients(whole))
        whole.after_step()
        parts.after_step()
    assert_each_close(list(parts.state_dict().values()), list(whole.state_dict().values()))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "steps": (
        lambda: MAML(Net(), inner_steps=0),
        "`inner_steps` is 0: it must be a whole number >= 1.",
    ),
    "nothing adapted": (
        lambda: MAML(Net(), adapted=lambda name: False),
        "None of the model's 6 trainable parameters moves in the inner loop",
    ),
    "no queries": (
        lambda: MAML(Net()).backward(batch(queries=0)),
        "A task has no queries, and MAML needs some: give them.",
    ),
    "vector loss": (
        lambda: MAML(Net(), loss=partial(F.cross_entropy, reduction="none")).backward(batch()),
        "`loss` returned a tensor of shape [6]: it must return a scalar.",
    ),
    "steps at test": (lambda: MAML(Net()).logits(batch()[0], steps=-1), "`steps` is -1"),
    "inner optimiser": (
        lambda: Reptile(Net(), inner_optimizer="rmsprop"),
        "`inner_optimizer` is 'rmsprop': use 'adam' or 'sgd'.",
    ),
    "reading": (lambda: DotProd(Net(), reading="x"), "`reading` is 'x': use 'inner' or 'outer'."),
    "pairs": (
        lambda: DotProd(Net(), inner_batch=4).backward(batch()),
        "`inner_batch` is 4 and the support set has 6 examples, too few for two disjoint mini-batches",
    ),
    "first order recomputed": (
        lambda: FOMAML(Net(), recompute=True),
        "`recompute` is True, and first order keeps no graph: leave it out.",
    ),
    "too many parts": (
        lambda: MAML(Net()).backward(batch(tasks=3), of=2),
        "`of` is 2, and the parts given since the last step hold 3 tasks: raise it, or call",
    ),
    "parts of what is shared": (
        lambda: MAML(Net(), share=True).backward(batch(), of=8),
        "`of` is 8, and gradient sharing, running statistics or averaged moments join all tasks of a",
    ),
    "no statistics": (
        lambda: MAMLPlusPlus(Net(tracks=False), statistics="running"),
        "`statistics` is 'running' and the batch norm 'norm' has no moving averages",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_are_one_sentence(case: str) -> None:
    call, sentence = BAD[case]
    with pytest.raises((ValueError, TypeError)) as raised:
        call()
    assert str(raised.value).startswith(sentence)
    assert str(raised.value).count(". ") == 0


def test_training_lowers_the_query_loss_of_new_tasks() -> None:
    for kind in ("MAML", "FOMAML", "MetaSGD", "MAML++", "MAML shared"):
        learner, optimizer = made(kind, inner_lr=0.1)
        fresh = batch(tasks=10, seed=1000)

        def query_loss(of: Any = learner, tasks: TaskBatch = fresh) -> float:
            values = []
            for task in tasks:
                outputs = of.logits(task, transductive=True)
                values.append(F.cross_entropy(outputs, task.query_labels))
            return float(torch.stack(values).mean())

        train(learner, optimizer, range(1))  # before it, there is nothing to share
        before = query_loss()
        train(learner, optimizer, range(1, 20))
        assert query_loss() < 0.8 * before, kind
