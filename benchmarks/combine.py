"""Combining task gradients: ours, TorchJD and LibMTL, as ratios to bare backward passes.

    python benchmarks/combine.py [--model plain] [--tasks 3 8] [--rounds 15] [--libmtl FOLDER] [--write]

LibMTL asks for torchvision, so install it separately: pip install --no-deps --target FOLDER LibMTL
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
from encoder import SHAPES, problem
from measure import Arm, cpu_times, markdown, peak_memory, publish, ratios, setting
from rich.console import Console
from rich.progress import Progress

import gradaccord

FLOOR = "bare backward passes (floor)"
TASKS = {"BERT-like": [3, 8], "plain": [3, 8, 32], "small": [3, 12]}
OURS = ["gradaccord Sum", "gradaccord PCGrad"]
MORE_OF_OURS = ["gradaccord GradVac", "gradaccord GradVac, per layer", "gradaccord FAMO"]
TORCHJD = ["TorchJD PCGrad", "TorchJD PCGrad, one loss at a time"]
AUTOGRAM = "TorchJD PCGrad, autogram"  # takes no dropout inside of attention


def arm(
    name: str, model_name: str, n_tasks: int, shared: bool, libmtl: str | None, threads: int
) -> Arm:
    """One way to do a step, on a model of its own."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    model, own, together = problem(n_tasks, model_name)
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
                model.zero_grad()  # to None
                loss().backward()

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

    def autogram() -> Arm:
        from torchjd.aggregation import PCGradWeighting
        from torchjd.autogram import Engine

        trunk = [module for module in (model.words, model.positions, model.encoder) if module]
        engine, weighting = Engine(*trunk, batch_dim=None), PCGradWeighting()

        def step() -> None:
            stacked = torch.stack(fresh_losses())
            stacked.backward(weighting(engine.compute_gramian(stacked)))
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
        AUTOGRAM: autogram,
        "LibMTL PCGrad": libmtl_pcgrad,
    }
    return makers[name]()


def names(model_name: str, libmtl: str | None, peers: bool) -> list[str]:
    listed = [FLOOR, "plain sum", *OURS]
    if model_name == "BERT-like":
        listed += MORE_OF_OURS
    if peers:
        listed += [*TORCHJD, AUTOGRAM] if SHAPES[model_name].dropout == 0 else TORCHJD
        listed += ["LibMTL PCGrad"] if libmtl else []
    return listed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=list(SHAPES), default="BERT-like")
    parser.add_argument("--tasks", type=int, nargs="+", help="by default as in the README")
    parser.add_argument("--batches", choices=["own", "one shared"], nargs="+")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--libmtl", help="folder into which LibMTL was installed")
    parser.add_argument("--threads", type=int, default=1, help="waiting threads spin: CPU time grows")
    parser.add_argument("--no-peers", action="store_true", help="only the floor and ours")
    parser.add_argument("--no-memory", action="store_true", help="time alone")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/README.md")
    arguments = parser.parse_args()
    batches = arguments.batches or (
        ["own", "one shared"] if arguments.model == "BERT-like" else ["own"]
    )
    settings = [(n, batch) for n in arguments.tasks or TASKS[arguments.model] for batch in batches]
    listed = names(arguments.model, arguments.libmtl, not arguments.no_peers)
    rows = []
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("benchmark", total=len(settings) * (len(listed) + 1))
        for tasks, batch in settings:
            given = (arguments.model, tasks, batch != "own", arguments.libmtl, arguments.threads)
            arms = {name: arm(name, *given) for name in listed}
            measured = ratios(cpu_times(arms, arguments.rounds), FLOOR)
            del arms
            progress.advance(bar)
            for name in listed:
                row = [str(tasks), batch, name, f"{measured[name]:.2f}"]
                if not arguments.no_memory:
                    row.append(f"{peak_memory(arm, name, *given):.0f}")
                rows.append(row)
                progress.advance(bar)
    header = ["tasks", "batches", "way", "CPU time / floor", "peak memory over base, MB"]
    table = markdown(header[: len(rows[0])], rows)
    command = " ".join(["benchmarks/combine.py", *_shown(arguments)])
    section = "combine" if arguments.model == "BERT-like" else f"combine {arguments.model}"
    publish(section, f"{setting(command, arguments.threads)}\n\n{table}", arguments.write)


def _shown(arguments: argparse.Namespace) -> list[str]:
    """The options, as they are written beside the table."""
    shown = [] if arguments.model == "BERT-like" else ["--model", arguments.model]
    shown += ["--tasks", *map(str, arguments.tasks)] if arguments.tasks else []
    shown += ["--rounds", str(arguments.rounds)]
    shown += ["--libmtl", "FOLDER"] if arguments.libmtl else []
    shown += ["--no-peers"] if arguments.no_peers else []
    return shown


if __name__ == "__main__":
    main()
