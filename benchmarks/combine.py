"""Combining task gradients: ours beside TorchJD and LibMTL, as ratios to bare backward passes.

    python benchmarks/combine.py [--tasks 3 8] [--rounds 9] [--libmtl FOLDER] [--write]

LibMTL asks for torchvision, so it is installed apart: pip install --no-deps --target FOLDER LibMTL
"""

from __future__ import annotations

import argparse
import importlib
import sys
import types
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from encoder import problem
from measure import Arm, cpu_times, markdown, peak_memory, publish, ratios, setting
from rich.console import Console
from rich.progress import Progress

import gradaccord

FLOOR = "bare backward passes (floor)"


def arm(name: str, n_tasks: int, shared: bool, libmtl: str | None, threads: int) -> Arm:
    """One way to do a step, on a model of its own."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    model, own, together = problem(n_tasks)
    losses = together if shared else own

    def fresh_losses() -> list[torch.Tensor]:
        return list(together().values()) if shared else [loss() for loss in own.values()]

    def floor() -> None:
        if shared:
            kept = list(together().values())
            for loss in kept:
                loss.backward(retain_graph=loss is not kept[-1])
                model.zero_grad()
        else:
            for loss in own.values():
                loss().backward()
                model.zero_grad()

    def plain_sum() -> None:
        if shared:
            sum(together().values()).backward()
        else:
            for loss in own.values():
                loss().backward()
        model.zero_grad()

    def ours(method: gradaccord.Method) -> Arm:
        def step() -> None:
            method.backward(losses)
            model.zero_grad()

        return step

    def torchjd(chunk: int | None) -> Arm:
        from torchjd.aggregation import PCGrad
        from torchjd.autojac import backward, jac_to_grad

        aggregator, parameters = PCGrad(), model.shared()

        def step() -> None:
            backward(fresh_losses(), inputs=parameters, parallel_chunk_size=chunk)
            jac_to_grad(parameters, aggregator)
            model.zero_grad()

        return step

    def libmtl_pcgrad() -> Arm:
        package = types.ModuleType("LibMTL")  # its own __init__ imports torchvision
        package.__path__ = [str(Path(str(libmtl)) / "LibMTL")]
        sys.modules.setdefault("LibMTL", package)
        weighting = importlib.import_module("LibMTL.weighting.PCGrad").PCGrad()
        weighting.rep_grad, weighting.task_num, weighting.device = False, n_tasks, "cpu"
        weighting.get_share_params = model.shared
        weighting.zero_grad_share_params = partial(model.zero_grad, set_to_none=False)

        def step() -> None:
            weighting.backward(fresh_losses())
            model.zero_grad()

        return step

    makers: dict[str, Callable[[], Arm]] = {
        FLOOR: lambda: floor,
        "plain sum": lambda: plain_sum,
        "gradaccord Sum": lambda: ours(gradaccord.Sum(model)),
        "gradaccord PCGrad": lambda: ours(gradaccord.PCGrad(model)),
        "gradaccord GradVac": lambda: ours(gradaccord.GradVac(model)),
        "gradaccord GradVac, per layer": lambda: ours(gradaccord.GradVac(model, granularity="layer")),
        "gradaccord FAMO": lambda: ours(gradaccord.FAMO(model)),
        "TorchJD PCGrad": lambda: torchjd(None),
        "TorchJD PCGrad, one loss at a time": lambda: torchjd(1),
        "LibMTL PCGrad": libmtl_pcgrad,
    }
    return makers[name]()


def names(libmtl: str | None, peers: bool) -> list[str]:
    listed = [
        FLOOR,
        "plain sum",
        "gradaccord Sum",
        "gradaccord PCGrad",
        "gradaccord GradVac",
        "gradaccord GradVac, per layer",
        "gradaccord FAMO",
    ]
    if peers:
        listed += ["TorchJD PCGrad", "TorchJD PCGrad, one loss at a time"]
        listed += ["LibMTL PCGrad"] if libmtl else []
    return listed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, nargs="+", default=[3, 8])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--libmtl", help="folder into which LibMTL was installed")
    parser.add_argument("--threads", type=int, default=1, help="more spin, which CPU time counts")
    parser.add_argument("--no-peers", action="store_true", help="only the floor and ours")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/README.md")
    arguments = parser.parse_args()
    rows = []
    settings = [(tasks, shared) for tasks in arguments.tasks for shared in (False, True)]
    listed = names(arguments.libmtl, not arguments.no_peers)
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("benchmark", total=len(settings) * (len(listed) + 1))
        for tasks, shared in settings:
            arms = {
                name: arm(name, tasks, shared, arguments.libmtl, arguments.threads) for name in listed
            }
            measured = ratios(cpu_times(arms, arguments.rounds), FLOOR)
            del arms
            progress.advance(bar)
            for name in listed:
                memory = peak_memory(arm, name, tasks, shared, arguments.libmtl, arguments.threads)
                batch = "one shared" if shared else "own"
                rows.append([str(tasks), batch, name, f"{measured[name]:.2f}", f"{memory:.0f}"])
                progress.advance(bar)
    table = markdown(["tasks", "batches", "way", "CPU time / floor", "peak memory over base, MB"], rows)
    options = f"--rounds {arguments.rounds}" + (" --libmtl FOLDER" if arguments.libmtl else "")
    command = f"benchmarks/combine.py {options}"
    publish("combine", f"{setting(command, arguments.threads)}\n\n{table}", arguments.write)


if __name__ == "__main__":
    main()
