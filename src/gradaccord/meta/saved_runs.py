"""The best checkpoints of a run, read from its folder to be evaluated, drawn or used.

trained = Trained(Path("runs/mine/seed-0"), load("glyphs"))
trained.learner.adapt(support, labels)              # the best by validation accuracy
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.data.images.class_parts import ClassSplits
from gradaccord.meta.build import TEST_SEED, build_learner, build_network, fixed_tasks
from gradaccord.meta.episodes.image_tasks import FixedTasks
from gradaccord.meta.episodes.task_batch import Task
from gradaccord.meta.results import FewShotResults
from gradaccord.meta.run import validation_curve
from gradaccord.meta.saved_states import OLD_CHECKPOINT, read_best, read_states
from gradaccord.meta.settings import FewShotSettings
from gradaccord.runs.checkpoints import CHECKPOINTS
from gradaccord.runs.files import LOG
from gradaccord.runs.log import read_log


class Trained:
    """The learner of a run with its best weights; `states` are the best checkpoints, best first.

    settings: the run's own unless given, e.g. with another number of shots to be tested on.
    """

    def __init__(
        self, folder: Path, data: ClassSplits, settings: FewShotSettings | None = None
    ) -> None:
        self.folder, self.data = folder, data
        self.settings = settings or FewShotSettings.read(folder)
        states = read_states(folder, lambda sentence: warnings.warn(sentence, stacklevel=2))
        if not states:
            raise FileNotFoundError(f"{folder} holds no run: it has no checkpoint.")
        kept = next(iter(states.values()))
        self.iterations = [int(iteration) for _, iteration in kept["best"]]
        if not self.iterations:
            raise ValueError(f"The run in {folder} was never validated: train it a little longer.")
        sums = kept.get("best_sums", {})
        self.states = [read_best(folder, i, sums.get(i)) for i in self.iterations]
        with torch.random.fork_rng(devices=[]):  # drawn and overwritten
            model = build_network(self.settings, data.train)
        self.learner = build_learner(self.settings, model, int(kept["seed"]))
        self.learner.load_state_dict(self.states[0])

    def test_tasks(self, count: int = 600) -> FixedTasks:
        """The fixed test tasks, the same for every run on these data."""
        return fixed_tasks(self.settings, self.data.test, count, TEST_SEED)


def has_checkpoint(folder: Path) -> bool:
    """Whether a seed has been trained here."""
    return (folder / CHECKPOINTS).is_dir() or (folder / OLD_CHECKPOINT).exists()


def seed_folders(folder: Path) -> list[Path]:
    """The folders of a run's seeds; given a seed's own folder, that folder."""
    if has_checkpoint(folder):
        return [folder]
    places = sorted(folder.glob("seed-*"), key=lambda path: int(path.name.removeprefix("seed-")))
    if not places:
        raise FileNotFoundError(f"{folder} holds no run: it has no folder seed-0.")
    return places


def class_names(classes: ImageClasses, rows: Task) -> list[str]:
    """The names of a task's classes, by label. rows: the task with row numbers for inputs."""
    found = dict(zip(rows.support_labels.tolist(), rows.support.tolist(), strict=True))
    return [classes.names[int(classes.labels[row])] for _, row in sorted(found.items())]


def draw_run(folder: Path, data: ClassSplits) -> list[Path]:
    """All figures of a run, over its seeds, into its folder."""
    from gradaccord.meta import figures

    places = seed_folders(folder)
    settings = FewShotSettings.read(places[0])
    title = f"{data.name}, {settings.ways}-way {settings.shots}-shot, {settings.label}"
    curves = {settings.label: [validation_curve(place) for place in places]}
    chance = 100 / settings.ways
    validation = figures.validation_figure(curves, title, chance=chance)
    written = [figures.write(validation, folder / "validation.png")]
    if settings.share:
        logs = {place.name: read_log(place / LOG) for place in places}
        written.append(figures.write(figures.sharing_figure(logs, title), folder / "sharing.png"))
    tested = {place.name.replace("-", " "): FewShotResults.read(place).curve for place in places}
    curve = figures.adaptation_figure(tested, title, trained_steps=settings.inner_steps, chance=chance)
    written.append(figures.write(curve, folder / "adaptation.png"))
    trained = Trained(places[0], data)
    tasks = trained.test_tasks(1)
    task = next(iter(tasks))[0]
    outputs = trained.learner.logits(task, settings.evaluation_steps, settings.transductive)
    names = class_names(data.test, tasks.indices[0])
    episode = figures.episode_figure(task, names, outputs.argmax(-1), f"{title}: a test task")
    return [*written, figures.write(episode, folder / "episode.png")]
