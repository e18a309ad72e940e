"""One run of masked-LM pretraining: set up, train or resume, save the model; or a dry run.

It shares `runs/` with `train` but has its own loop (`pretrain/loop.py`): there is one loss and no
method to choose, so that a step is forward, backward and AdamW, and no task's gradient is kept.

In the run's folder: `config.yaml`, `about.json`, `log.jsonl`, `tokenizer/` until the end,
`checkpoints/`, `model/` (for `AutoModel`, `AutoModelForMaskedLM`, `AutoTokenizer`, and `model:` of
every command) and `results.json`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from gradaccord.core.replay import seeded
from gradaccord.core.watch import NOBODY, Watch
from gradaccord.models.trunks.huggingface import quiet
from gradaccord.pretrain.config import PretrainConfig, read_own_config
from gradaccord.pretrain.loop import Loop, Say, Show
from gradaccord.pretrain.problem import PretrainProblem, load_problem, start_messages
from gradaccord.pretrain.results import PretrainProgress, PretrainResults
from gradaccord.runs.duration import duration
from gradaccord.runs.exceptions import Interrupted, what_is_saved
from gradaccord.runs.files import CONFIG, LOG, MODEL
from gradaccord.runs.lock import locked_by_main
from gradaccord.runs.log import Log, cut_to_step
from gradaccord.runs.ranks import make_accelerator, others_alive
from gradaccord.runs.run_folder import results_so_far, resumed_message, write_start
from gradaccord.runs.usage import peak_memory

TOKENIZER = "tokenizer"  # the folder of the run's tokenizer, until the model is saved with it
WARM, TIMED = 2, 4  # steps of a dry run


def pretrain(
    config: PretrainConfig,
    folder: Path,
    *,
    resume: bool = False,
    data: Path | None = None,
    show: Show = lambda progress: None,
    say: Say = lambda sentence: None,
    command: list[str] | None = None,
) -> PretrainResults:
    """Pretrain one model and write everything below `folder`.

    resume: continue an unfinished run bit for bit (on a CPU; a finished one is only read).
    data: the folder of the data sets. show: called after every step. say: called with messages.
    """
    accelerator = make_accelerator(config.train.precision, config.train.threads)
    main = accelerator.is_main_process
    if not main:
        show, say = (lambda progress: None), (lambda sentence: None)
    # A tokenizer may be saved before the first checkpoint; another configuration is then refused.
    begun = resume and (folder / CONFIG).exists()
    check = partial(
        results_so_far, PretrainResults, config, folder, resume, read_own_config, begun=begun
    )
    with others_alive(accelerator), locked_by_main(folder, accelerator, check) as finished:
        if finished is not None:
            say(f"{folder} holds a finished run: nothing to do.")
            return finished
        if main:
            write_start(config, folder, command, resume)
        watch = Watch(
            lambda *now: show(PretrainProgress(0, 0, doing=now[0], done=now[1], total=now[2])), say
        )
        own = folder / TOKENIZER
        if main and not resume:
            shutil.rmtree(own, ignore_errors=True)
        with accelerator.main_process_first():  # the others read its tokenizer
            problem = load_problem(config, data, watch if main else NOBODY, own)
            if main and not own.exists():
                _save_whole(problem.tokens.save, own)
        for sentence in start_messages(config, problem, accelerator):
            say(sentence)
        with seeded(config.train.seed + 1000003 * accelerator.process_index):
            loop = Loop(config, problem, folder, accelerator, show, say)
            continued = resume and loop.resume()
            if resume:
                say(resumed_message(continued, loop.step))
            if continued and main:
                cut_to_step(folder / LOG, loop.step, say)
            log = Log(folder / LOG if main else None, append=continued)
            try:
                if not loop.run(log):
                    raise Interrupted(what_is_saved(loop.step, loop.between_steps, loop.checkpoints))
            finally:
                log.close()
        results = _results(config, loop)
        if main:
            loop.doing("saving the model")
            _save_whole(partial(_save_model, problem), folder / MODEL)
            results.write(folder)
            shutil.rmtree(folder / TOKENIZER, ignore_errors=True)
        accelerator.wait_for_everyone()
        return results


def _save_model(problem: PretrainProblem, folder: Path) -> None:
    with quiet():
        problem.model.save_pretrained(folder)
    problem.tokens.save(folder)


def _save_whole(save: Callable[[Path], None], folder: Path) -> None:
    """Save a folder, whole or not at all."""
    new = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(new, ignore_errors=True)
    save(new)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(new, folder)


def dry_run(config: PretrainConfig, data: Path | None, watch: Watch = NOBODY) -> Iterator[str]:
    """What a run would do, and its time, estimated from a few steps; only caches are written."""
    accelerator = make_accelerator(config.train.precision, config.train.threads)
    problem = load_problem(config, data, watch)
    yield from start_messages(config, problem, accelerator)
    with seeded(config.train.seed):
        loop = Loop(config, problem, Path(), accelerator)
        log = Log(None)
        for step in range(WARM + TIMED):
            watch.at("taking a few steps", step, WARM + TIMED)
            if step == WARM:
                loop.tokens, loop.seconds = 0, 0.0
            loop.take_step(log)
    loop.step = TIMED
    loop.estimate()
    yield (
        f"{loop.tokens / loop.seconds:,.0f} tokens a second on this machine as it is now: about "
        f"{duration(loop.progress.seconds_left)}, held-out losses included; {peak_memory():,.0f} MB."
    )


def _results(config: PretrainConfig, loop: Loop) -> PretrainResults:
    problem = loop.problem
    return PretrainResults(
        finished=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        model=config.model.name,
        weights=sum(p.numel() for p in problem.model.parameters()),
        pieces=problem.tokens.size,
        seed=config.train.seed,
        steps=loop.step,
        tokens=loop.tokens,
        seconds=loop.seconds,
        texts={own.language: own.texts for own in problem.train},
        left_out=problem.left_out,
        unigrams=problem.unigrams,
        evaluations=loop.evaluations,
        memory_mb=peak_memory(),
    )
