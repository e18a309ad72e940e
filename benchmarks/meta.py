"""Few-shot methods compared with higher and TorchOpt: CPU time, wall time on two threads, exactness.

python benchmarks/meta.py [--rounds 9] [--published]

--published: only the published settings for Omniglot, compared with plain passes of the same network.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import higher
import torch
from measure import Arm, cpu_times, markdown, publish, ratios, setting
from torch import nn
from torch.nn.functional import cross_entropy

from gradaccord.meta import FOMAML, MAML, Reptile
from gradaccord.meta.episodes.task_batch import TaskBatch
from gradaccord.models.trunks.conv4 import Conv4

WAYS, SHOTS, QUERIES, STEPS, RATE = 5, 5, 15, 5, 0.1
FLOOR = "higher"
QUIET = 0.1  # cores that other processes may use while the wall clock is read
PATIENCE = 90  # seconds to wait for such rounds
SETTINGS: dict[str, tuple[Callable[[], Conv4], int, int]] = {  # model, tasks, share of the rounds
    "Omniglot, 28x28, 64 filters, stride 2": (partial(Conv4, WAYS, 1, 28, 64), 4, 1),
    "84x84, 48 filters, max-pool": (partial(Conv4.gradient_sharing, WAYS), 2, 3),
}


def tasks_for(model: Conv4, count: int, shots: int = SHOTS, queries: int = QUERIES) -> TaskBatch:
    """Noise in the shape of images: the work does not depend on the content."""
    generator = torch.Generator().manual_seed(1)

    def draw(each: int) -> tuple[torch.Tensor, torch.Tensor]:
        shape = (count, each * WAYS, model.channels, model.size, model.size)
        images = torch.rand(shape, generator=generator)
        return images, torch.arange(WAYS).repeat(each).expand(count, -1)

    return TaskBatch(*draw(shots), *draw(queries))


def with_higher(model: nn.Module, tasks: TaskBatch, second_order: bool = True) -> None:
    """MAML as in higher's own example."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    model.zero_grad()
    for task in tasks:
        with higher.innerloop_ctx(
            model, optimizer, copy_initial_weights=False, track_higher_grads=second_order
        ) as (inner, step):
            for _ in range(STEPS):
                step.step(cross_entropy(inner(task.support), task.support_labels))
            loss = cross_entropy(inner(task.query), task.query_labels) / len(tasks)
            if second_order:
                loss.backward()
            else:
                torch.autograd.grad(loss, list(inner.parameters()))


def with_torchopt(model: nn.Module, tasks: TaskBatch) -> None:
    """MAML as in TorchOpt's own example."""
    import torchopt

    optimizer = torchopt.MetaSGD(model, lr=RATE)
    model.zero_grad()
    start = torchopt.extract_state_dict(model, by="reference")
    slots = torchopt.extract_state_dict(optimizer, by="reference")
    for task in tasks:
        for _ in range(STEPS):
            optimizer.step(cross_entropy(model(task.support), task.support_labels))
        (cross_entropy(model(task.query), task.query_labels) / len(tasks)).backward()
        torchopt.recover_state_dict(model, start)
        torchopt.recover_state_dict(optimizer, slots)


def arms_for(make: Callable[[], Conv4], tasks: TaskBatch) -> dict[str, Arm]:
    """A meta-iteration in every way, each on a model of its own."""

    def learner(method: Callable[..., Any], **options: Any) -> Arm:
        return partial(method(make(), inner_steps=STEPS, **options).backward, tasks)

    return {
        FLOOR: partial(with_higher, make(), tasks),
        "TorchOpt": partial(with_torchopt, make(), tasks),
        "gradaccord MAML": learner(MAML, inner_lr=RATE),
        "gradaccord MAML, general network": learner(MAML, inner_lr=RATE, fast=False),
        "gradaccord MAML, gradient sharing": learner(MAML, inner_lr=RATE, share=True),
        "higher, first order": partial(with_higher, make(), tasks, False),
        "gradaccord FOMAML": learner(FOMAML, inner_lr=RATE),
        "gradaccord Reptile": learner(Reptile, inner_batch=None),
    }


def plain_passes(model: Conv4, passes: int, pictures: int) -> None:
    """Forward and backward passes of the module on as many pictures each."""
    images = torch.rand(pictures, model.channels, model.size, model.size)
    labels = torch.arange(WAYS).repeat(pictures // WAYS)
    for _ in range(passes):
        model.zero_grad()
        cross_entropy(model(images), labels).backward()


def published() -> dict[str, dict[str, Arm]]:
    """Meta-iterations of the presets `reptile-omniglot-5way` and `maml-omniglot-5way` with one shot.

    The floor is as many passes of the network as the inner steps and queries have.
    """
    tasks = tasks_for(Conv4.reptile_omniglot(WAYS), 5, shots=10, queries=1)
    small = tasks_for(Conv4.maml_omniglot(WAYS), 32, shots=1, queries=1)

    def reptile(**options: str) -> Arm:
        return partial(Reptile(Conv4.reptile_omniglot(WAYS), **options).backward, tasks)

    def maml(first_order: bool) -> Arm:
        learner = MAML(Conv4.maml_omniglot(WAYS), inner_lr=2.0, inner_steps=1, first_order=first_order)
        return partial(learner.backward, small)

    return {
        "Reptile, 5 tasks, 5 steps of 10 pictures": {
            "25 plain passes": partial(plain_passes, Conv4.reptile_omniglot(WAYS), 25, 10),
            "gradaccord Reptile": reptile(),
            "gradaccord Reptile, bf16": reptile(precision="bf16"),
            "gradaccord Reptile, averaged moments": reptile(optimizer_state="average"),
        },
        "MAML, 32 tasks, 1 step of 5 pictures": {
            "64 plain passes": partial(plain_passes, Conv4.maml_omniglot(WAYS), 64, 5),
            "gradaccord MAML": maml(first_order=False),
            "gradaccord MAML, first order": maml(first_order=True),
        },
    }


def published_table(rounds: int) -> str:
    """The published settings, each against its plain passes."""
    rows = []
    for title, arms in published().items():
        times = cpu_times(arms, rounds)
        for name, ratio in ratios(times, next(iter(arms))).items():
            rows.append([title, name, f"{ratio:.2f}", f"{1000 * statistics.median(times[name]):.0f}"])
    command = f"benchmarks/meta.py --published --rounds {rounds}"
    table = markdown(["setting", "way", "CPU time / plain passes", "ms"], rows)
    return f"{setting(command, 1)}\n\n{table}\n\n{on_two_threads(rounds)}"


def on_two_threads(rounds: int) -> str:
    """Wall time of Reptile with averaged moments on two threads, over that on one."""
    tasks = tasks_for(Conv4.reptile_omniglot(WAYS), 5, shots=10, queries=1)
    notes = []
    for precision in ("fp32", "bf16"):
        options: dict[str, Any] = {"optimizer_state": "average", "precision": precision}
        arms: dict[str, Arm] = {
            str(threads): partial(
                Reptile(Conv4.reptile_omniglot(WAYS), threads=threads, **options).backward, tasks
            )
            for threads in (1, 2)
        }
        wall, others = wall_times(arms, rounds)
        notes.append(
            f"{precision} {wall['2']:.2f} (while other processes used up to {others:.1f} cores)"
        )
    return (
        "Reptile with averaged moments, wall time on two threads / on one (0.60 at best, as of 5 tasks "
        f"one thread has 3): {'; '.join(notes)}."
    )


def wall_times(arms: dict[str, Arm], rounds: int) -> tuple[dict[str, float], float]:
    """Median ratio of wall time to the first arm's in the quietest rounds; and the load by others then.

    Two threads need two free cores: rounds go on, up to a time limit, until enough of them were quiet.
    Those count in which other processes used the least CPU time. The second result is the most that
    others used in any of these, in cores.
    """
    seen: list[tuple[float, dict[str, float]]] = []
    begun = time.perf_counter()
    for round_ in itertools.count(-1):
        times = {}
        started, others = time.perf_counter(), -others_seconds()
        for name, arm in arms.items():
            start = time.perf_counter()
            arm()
            times[name] = time.perf_counter() - start
        others += others_seconds()
        if round_ >= 0:
            seen.append((others / (time.perf_counter() - started), times))
        late = time.perf_counter() - begun > PATIENCE and len(seen) >= rounds
        if late or sum(share < QUIET for share, _ in seen) == rounds:
            break
    quietest = sorted(seen, key=lambda each: each[0])[:rounds]
    columns = {name: [times[name] for _, times in quietest] for name in arms}
    return ratios(columns, next(iter(arms))), quietest[-1][0]


def others_seconds() -> float:
    """CPU seconds of all processes but this one since the machine was started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _wait, *interrupts = map(int, fields)
    ticks = user + nice + system + sum(interrupts)
    return ticks / os.sysconf("SC_CLK_TCK") - time.process_time()


def largest_error(found: Iterable[torch.Tensor], true: Iterable[torch.Tensor]) -> float:
    """Relative to the largest entry of each tensor; where all are zero, absolute."""
    return max(
        float((a - b).abs().max()) / (float(b.abs().max()) or 1.0)
        for a, b in zip(found, true, strict=True)
    )


def exactness(make: Callable[[], Conv4], tasks: TaskBatch) -> float:
    """The largest difference to higher's meta-gradient, in float64 (of one task: it is slow)."""
    torch.manual_seed(0)
    model = make().double()
    wide = tasks.to(torch.float64)
    with_higher(model, wide)
    true = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    learner = MAML(model, inner_lr=RATE, inner_steps=STEPS)
    learner.backward(wide)
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return largest_error(found, true)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", action="store_true", help="write the tables to benchmarks/README.md")
    parser.add_argument("--published", action="store_true", help="the published settings alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    publish("meta-published", published_table(arguments.rounds), arguments.write)
    if arguments.published:
        return
    rows, notes = [], []
    for title, (make, count, share) in SETTINGS.items():
        rounds = max(3, arguments.rounds // share)
        tasks = tasks_for(make(), count)
        times = cpu_times(arms_for(make, tasks), rounds)
        sharing = statistics.median(
            shared / plain
            for shared, plain in zip(
                times["gradaccord MAML, gradient sharing"], times["gradaccord MAML"], strict=True
            )
        )
        quartiles = {
            name: statistics.quantiles([t / f for t, f in zip(values, times[FLOOR], strict=True)], n=4)
            for name, values in times.items()
        }
        for name, ratio in ratios(times, FLOOR).items():
            low, _, high = quartiles[name]
            milliseconds = 1000 * statistics.median(times[name])
            rows.append([title, name, f"{ratio:.2f}", f"{low:.2f} - {high:.2f}", f"{milliseconds:.0f}"])
        wall, others = wall_times(
            {
                FLOOR: partial(with_higher, make(), tasks),
                "threads": partial(MAML(make(), inner_lr=RATE, threads=2).backward, tasks),
            },
            rounds,
        )
        notes.append(
            f"{title}, {rounds} rounds: gradient sharing / MAML {sharing:.2f}; wall time on two "
            f"threads / higher on one {wall['threads']:.2f} (while other processes used up to "
            f"{others:.1f} cores); largest difference to higher's meta-gradient in float64 "
            f"{exactness(make, tasks.part(slice(1))):.0e}."
        )
    header = ["setting", "way", "CPU time / higher", "middle half of rounds", "ms"]
    command = f"benchmarks/meta.py --rounds {arguments.rounds}"
    text = "\n\n".join([setting(command, 1), markdown(header, rows), *notes])
    publish("meta", text, arguments.write)


if __name__ == "__main__":
    main()
