"""The record of a finished few-shot run: one small JSON file that can be kept beside the source.

record = record_run(Path("runs/mine/seed-0"), load("omniglot", "data"), shots=[1, 5], modes=[False])
record.save(Path("results/fewshot"))
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from gradaccord.data.images.class_parts import ClassSplits
from gradaccord.meta.evaluation import evaluate
from gradaccord.meta.run import validation_curve
from gradaccord.meta.saved_runs import Trained
from gradaccord.meta.saved_states import read_states
from gradaccord.meta.settings import FewShotSettings
from gradaccord.runs.about import read_about
from gradaccord.runs.versioned import Versioned


class TestAccuracy(BaseModel):
    """Accuracy on fixed test tasks, in percent; interval: half of its 95 % interval over tasks."""

    __test__ = False  # not a test, whatever pytest makes of the name

    shots: int
    transductive: bool
    accuracy: float
    interval: float
    tasks: int


class FewShotRecord(Versioned):
    """A run: its settings, how long it took, its validation curve, and its best checkpoint's accuracy.

    curve: (iteration, accuracy, interval) of each validation. core_hours: processor time of training
    and validation (of training alone where only a processor clock was logged); None if the run kept
    none. training_hours: by the clock of the settings, without validation.
    """

    REMEDY: ClassVar[str] = "remove it, and record the run again"
    model_config = ConfigDict(extra="forbid")

    name: str
    settings: FewShotSettings
    seed: int
    commit: str | None
    versions: dict[str, str]
    iterations: int
    finished: bool
    best_iteration: int
    core_hours: float | None
    training_hours: float
    curve: list[tuple[int, float, float]]
    tests: list[TestAccuracy]

    def save(self, folder: Path) -> Path:
        """Write `<name>.json` into a folder; the record of another run is not overwritten."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        if path.exists() and (other := self._difference(FewShotRecord.read_file(path))):
            raise ValueError(
                f"{path} is the record of another run, {other}: move it, or give another --out."
            )
        self.write_file(path)
        return path

    def _difference(self, old: FewShotRecord) -> str:
        """What shows that a record is of another run; empty if it is of this one."""
        for name, value in self.settings:
            before = getattr(old.settings, name)
            if before != value and name != "test_tasks":
                return f"with {name}={before!r} and not {value!r}"
        if old.seed != self.seed:
            return f"with seed {old.seed} and not {self.seed}"
        if old.commit and self.commit and old.commit != self.commit:
            return f"of commit {old.commit} and not {self.commit}"
        longer, shorter = sorted([old.curve, self.curve], key=len, reverse=True)
        return "" if longer[: len(shorter)] == shorter else "with another validation curve"


def record_name(settings: FewShotSettings, seed: int) -> str:
    """The name of a record: data, task, method, task batch, length of training, inner rate, seed."""
    s = settings
    ends = [
        f"{s.iterations}iterations" if s.iterations else "",
        f"{s.minutes:g}min" if s.minutes else "",
    ]
    return "-".join(
        [s.name, f"{s.tasks}tasks", *filter(None, ends), f"rate{s.inner_lr:g}", f"seed{seed}"]
    )


def read_records(folder: Path) -> list[FewShotRecord]:
    """All records of a folder, by name."""
    return [FewShotRecord.read_file(path) for path in sorted(folder.glob("*.json"))]


def record_run(
    folder: Path,
    data: ClassSplits,
    *,
    shots: Sequence[int] = (),
    modes: Sequence[bool] = (),
    tasks: int = 600,
    commit: str | None = None,
) -> FewShotRecord:
    """Test a seed's best checkpoint and record its run.

    shots: numbers of examples to adapt to. modes: whether predictions are transductive. Both as in the
    run unless given; every pair is tested, on `tasks` tasks. commit: of the source, for a run without
    about.json.
    """
    about = read_about(folder)
    commit = _commit(about.git, commit)
    settings = FewShotSettings.read(folder)
    state: dict[str, Any] = next(iter(read_states(folder, lambda sentence: None).values()), {})
    tests = []
    for count in shots or [settings.shots]:
        trained = Trained(folder, data, settings.changed(shots=count))
        for mode in modes or [settings.transductive]:
            found = evaluate(
                trained.learner, trained.test_tasks(tasks), steps=settings.evaluation_steps,
                transductive=mode, by_step=False,
            )  # fmt: skip
            tests.append(
                TestAccuracy(
                    shots=count, transductive=mode, accuracy=round(found.value, 4),
                    interval=round(found.interval, 4), tasks=found.tasks,
                )
            )  # fmt: skip
    return FewShotRecord(
        name=record_name(settings, state["seed"]),
        settings=settings.model_copy(update={"data_dir": None}),
        seed=state["seed"],
        commit=commit,
        versions=about.versions,
        iterations=state["iteration"],
        finished=state["finished"],
        best_iteration=trained.iterations[0],
        core_hours=_core_hours(state, settings),
        training_hours=round(state["seconds"] / 3600, 4),
        curve=validation_curve(folder),
        tests=tests,
    )


def _commit(recorded: str | None, given: str | None) -> str | None:
    """The commit of a run: as the run recorded it, else as given."""
    if given is None:
        return recorded
    if not re.fullmatch("[0-9a-f]{7,40}", given):
        raise ValueError(f"`commit` is {given!r}: give 7 to 40 hexadecimal digits, as git prints them.")
    if recorded is not None and not recorded.startswith(given):
        raise ValueError(f"`commit` is {given}, but the run recorded {recorded}: leave it out.")
    return recorded or given


def _core_hours(state: Mapping[str, Any], settings: FewShotSettings) -> float | None:
    """From the run's processor time; else from its log, whose seconds may be those of the processor."""
    logged = state["seconds"] if settings.clock == "processor" else math.nan
    spent = state.get("processor_seconds", math.nan)
    seconds = logged if math.isnan(spent) else spent
    return None if math.isnan(seconds) else round(seconds / 3600, 4)
