"""One run from its configuration to its results: set up, train or continue, evaluate, write."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from gradaccord.core.watch import NOBODY
from gradaccord.methods.registry import SINGLE_TASK
from gradaccord.models.trunks.lora import merge_lora
from gradaccord.runs import ranks
from gradaccord.runs.checkpoints import Checkpoints
from gradaccord.runs.exceptions import Interrupted, what_is_saved
from gradaccord.runs.files import LOG, MODEL
from gradaccord.runs.launcher import fewer_than_asked
from gradaccord.runs.lock import locked_by_main
from gradaccord.runs.log import Log, cut_to_step
from gradaccord.runs.ranks import others_alive
from gradaccord.runs.results import Cost, Measured, MethodUsed, Results, TaskErrors
from gradaccord.runs.run_folder import results_so_far, resumed_message, write_start
from gradaccord.runs.usage import cpu_seconds, peak_memory
from gradaccord.train.config import Config
from gradaccord.train.config_file import read_own_config
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.problem import Problem, load_problem
from gradaccord.train.progress import Progress, watch_of
from gradaccord.train.single_task import train_single_tasks
from gradaccord.train.trackers import Trackers, tracking
from gradaccord.train.wrapped_model import fsdp_asked, is_sharded_by, unsharded


def train_run(config: Config, folder: Path, **options: Any) -> Results:
    """Train as `train_model` does, with the same options; for the method `stl` one model per task."""
    if config.method.name == SINGLE_TASK:
        return train_single_tasks(config, folder, train_model, make_accelerator(config), **options)
    return train_model(config, folder, **options)


def train_model(
    config: Config,
    folder: Path,
    *,
    resume: bool = False,
    deterministic: bool = False,
    data: Path | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda sentence: None,
    command: list[str] | None = None,
) -> Results:
    """Train one model, evaluate it and write everything below `folder`.

    resume: continue an unfinished run bit for bit (on a CPU; a finished one is only read).
    deterministic: use only torch's deterministic algorithms.
    data: the folder of the data sets. show: called after every step. say: called with messages.
    """
    accelerator = make_accelerator(config, deterministic, folder)
    main = accelerator.is_main_process
    check = partial(results_so_far, Results, config, folder, resume, read_own_config)
    with others_alive(accelerator), locked_by_main(folder, accelerator, check) as finished:
        if finished is not None:
            if main:
                say(f"{folder} holds a finished run: nothing to do.")
            return finished
        if main:
            write_start(config, folder, command, resume)
        accelerator.wait_for_everyone()
        seed_everything(config.train.seed)
        if main:
            say(f"Reading {', '.join(config.tasks)}; loading {config.model.name}.")
        problem = load_problem(config, data, watch_of(show, say) if main else NOBODY)
        if main:
            for sentence in start_messages(config, problem, accelerator):
                say(sentence)
        seed_everything(config.train.seed + 1000003 * accelerator.process_index)
        quiet: dict[str, Any] = {} if not main else {"show": show, "say": say}
        loop = TrainingLoop(config, problem, folder, accelerator, **quiet)
        continued = resume and loop.resume()
        if resume and main:
            say(resumed_message(continued, loop.step))
        since = loop.step if continued else None
        trackers = None
        if main and config.train.trackers:
            trackers = Trackers(accelerator, folder, config.model_dump(mode="json"), since)
        if main and since is not None:
            cut_to_step(folder / LOG, since, say)
        log = Log(folder / LOG if main else None, append=continued, copy=trackers)
        try:
            loop.run(log)
            if loop.interrupted:
                raise Interrupted(what_is_saved(loop.step, loop.between_steps, loop.checkpoints))
            results = conclude(loop, continued)
        finally:
            log.close()
        whole = unsharded(accelerator, loop.model, loop.skeleton)
        if main:
            loop.evaluator.watch.at("saving the model", 0, 0)
            _save_model(config, problem, whole, folder / MODEL)
            results.write(folder)
            Checkpoints(loop.evaluator.kept.folder, keep=1).prune()
        accelerator.wait_for_everyone()
        return results


def make_accelerator(config: Config, deterministic: bool = False, folder: Path | None = None) -> Any:
    """Accelerate, with the configured precision, number of threads and trackers.

    folder: of the run; without one nothing is tracked.
    """
    from accelerate.utils import DistributedDataParallelKwargs

    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    # Every task reaches other heads: the reduction is the methods' own, and must not wait for all.
    kwargs = DistributedDataParallelKwargs(find_unused_parameters=True)
    if fsdp_asked():  # every process reads the weights: heads and probes need them before they are cut
        os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
    tracked = tracking(config.train.trackers, folder)
    return ranks.make_accelerator(
        config.train.precision, config.train.threads, kwargs_handlers=[kwargs], **tracked
    )


def seed_everything(seed: int) -> None:
    """Seed Python's and torch's global generators; numpy's is not used."""
    random.seed(seed)
    torch.manual_seed(seed)


def conclude(loop: TrainingLoop, continued: bool) -> Results:
    """Load the best weights, evaluate them on every labelled split, and sum the run up."""
    evaluator = loop.evaluator
    last = Measured()
    if evaluator.evaluations:
        shown = {"train_loss", "task_cosine", "distance"}
        last = Measured(**evaluator.evaluations[-1].model_dump(include=shown, exclude_unset=True))
        evaluator.load_best()
    dev = evaluator.evaluated("dev")
    test = evaluator.evaluated("test")
    config, prepared = loop.config, loop.problem.prepared
    on_dev, on_test = _references(loop, "dev", dev), _references(loop, "test", test)
    return Results(
        finished=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        method=MethodUsed(name=config.method.name, **config.method.options),
        regularize=[term.name for term in config.regularize],
        seed=config.train.seed,
        metrics={name: own.task.main_metric for name, own in prepared.items()},
        kinds={name: own.task.kind for name, own in prepared.items()},
        trained=list(loop.problem.scored),
        stopped=evaluator.patience.stopped,
        weights={name: own.weight for name, own in config.tasks.items() if own.weight != 1},
        dev={task: evaluated.scores for task, evaluated in dev.items()},
        test={task: evaluated.scores for task, evaluated in test.items()},
        best_step=evaluator.best_step,
        last=last,
        evaluations=evaluator.evaluations,
        errors=_errors(loop, {"dev": dev, "test": test}),
        notes={name: own.notes for name, own in prepared.items() if own.notes},
        overlaps=[str(overlap) for overlap in loop.problem.overlaps],
        references={**on_dev, **on_test},
        cards=loop.problem.cards,
        dev_references={task: own for task, own in on_dev.items() if task in on_test},
        cost=Cost(
            seconds=loop.seconds,
            cpu_seconds=None if continued else cpu_seconds(),
            steps=loop.step,
            gradients=loop.phase.gradients,
            memory_mb=peak_memory(),
            batches=loop.phase.seen,
            training_seconds=loop.training_seconds,
            evaluation_seconds=evaluator.evaluation_seconds,
            probe_seconds=evaluator.probe_seconds,
        ),
    )


def _references(loop: TrainingLoop, split: str, evaluated: Mapping[str, Any]) -> dict[str, Any]:
    """What the scores of each task on a split are to be seen beside."""
    from gradaccord.tasks.references import reference

    found = {}
    for name, own in evaluated.items():
        prepared = loop.problem.prepared[name]
        examples = prepared.splits[split]
        found[name] = reference(prepared.task, split, examples, own.predictions, own.scores)
    return found


def _errors(loop: TrainingLoop, evaluated: Mapping[str, Mapping[str, Any]]) -> dict[str, TaskErrors]:
    """The error analysis of each task on the last split it was evaluated on."""
    from gradaccord.tasks.error_analysis import analyse

    found = {}
    for split, tasks in evaluated.items():
        for name, own in tasks.items():
            prepared = loop.problem.prepared[name]
            analysis = analyse(
                prepared.task,
                prepared.splits[split],
                own.predictions,
                rows=own.rows,
                worst=loop.config.probe.errors,
            )
            found[name] = TaskErrors(split=split, **vars(analysis))
    return found


def _save_model(config: Config, problem: Problem, model: Any, folder: Path) -> None:
    from gradaccord.tasks.saved_models import save

    merge_lora(model)
    tasks = {name: prepared.task for name, prepared in problem.prepared.items()}
    own_files = {}
    for name, task in config.tasks.items():
        if task.files is not None or task.columns:
            labels = dict(problem.datasets[name].written) or None
            own_files[name] = {**task.reading, "labels": labels}
    save(folder, model, problem.tokens, tasks, own_files)


def same_tasks(config: Config) -> Iterator[str]:
    """A warning for each pair of tasks that differ only in name."""
    for one, other in combinations(config.tasks, 2):
        if config.tasks[one] == config.tasks[other]:
            yield f"Warning: {one} and {other} are the same task: the same data with the same options."


def start_messages(config: Config, problem: Problem, accelerator: Any) -> Iterator[str]:
    """The messages at the start of a run: model, device, data of each task, and warnings about them."""
    weights = sum(p.numel() for p in problem.model.parameters())
    where = ranks.where(accelerator)
    if accelerator.num_processes > 1 and is_sharded_by(accelerator):
        where += ", weights sharded over them (FSDP2)"
    trained = sum(p.numel() for p in problem.model.parameters() if p.requires_grad)
    some = (
        f", {trained / 1e6:.2f} M of them trained" if config.model.freeze or config.model.lora else ""
    )
    yield f"{config.model.name}: {weights / 1e6:.1f} M weights{some}; {where}."
    missing = fewer_than_asked(accelerator.num_processes)
    if missing is not None:
        yield missing
    for name, prepared in problem.prepared.items():
        counts = ", ".join(f"{len(own):,} {split}" for split, own in prepared.splits.items())
        seen = name in problem.trained or name in problem.scored
        extra = "" if seen else " (never trained on)"
        if problem.weights.get(name, 1.0) != 1:
            extra = f", weight {problem.weights[name]:g}"
        yield f"{name}: {prepared.task.kind}, {counts}{extra}."
        if name in problem.datasets:
            yield from (f"{name}, {sentence}" for sentence in problem.datasets[name].read_as)
        for split, notes in prepared.notes.items():
            yield f"{name} {split}: " + ", ".join(f"{n:,} {what}" for what, n in notes.items()) + "."
    bare = [name for name in problem.scored if not problem.prepared[name].labelled("dev")]
    if len(bare) == len(problem.scored):
        yield "No trained task has a labelled dev split: the last weights are kept, not the best."
    elif bare:
        yield (
            f"Warning: {', '.join(bare)}: no labelled dev examples, so no score on dev and no say in "
            "which weights are best; name `dev` files, or cut them out of train, such as `cut: 0.1`."
        )
    yield from map(str, problem.clustered)
    yield from map(str, problem.overlaps)
    yield from same_tasks(config)
    for card in problem.cards.values():
        yield from (f"Warning: {sentence}" for sentence in card.warnings)
