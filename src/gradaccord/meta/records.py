"""The record of a finished few-shot run: one small JSON file that can be kept beside the source.

record = record_run(Path("runs/mine/seed-0"), load("omniglot", "data"), shots=[1, 5], modes=[False])
record.write(Path("results/fewshot"))               # omniglot-5way-1shot-reptile-seed-0.json
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from gradaccord.data.images.class_splits import ClassSplits
from gradaccord.meta.evaluation import evaluate
from gradaccord.meta.run import SETTINGS, read_states, validation_curve
from gradaccord.meta.saved_runs import Trained
from gradaccord.meta.settings import FewShotSettings
from gradaccord.runs.files import ABOUT, read_json, write_json


class TestAccuracy(BaseModel):
    """Accuracy on fixed test tasks, in percent; interval: half of its 95 % interval over tasks."""

    __test__ = False  # not a test, whatever pytest makes of the name

    shots: int
    transductive: bool
    accuracy: float
    interval: float
    tasks: int


class RunRecord(BaseModel):
    """What a run was, how long it took, its validation curve, and how good its best checkpoint is.

    curve: (iteration, accuracy, interval) of each validation. core_hours: processor time of training
    and validation; None, as `commit`, for a run of a release that did not write it down.
    """

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
    curve: list[tuple[int, float, float]]
    tests: list[TestAccuracy]

    def write(self, folder: Path) -> Path:
        """Write `<name>.json` into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        write_json(path, self.model_dump(mode="json"))
        return path


def read_records(folder: Path) -> list[RunRecord]:
    """All records of a folder, by name."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(RunRecord.model_validate(read_json(path)))
        except (json.JSONDecodeError, UnicodeDecodeError, ValidationError) as error:
            raise ValueError(f"{path} is no record of a few-shot run: record it again.") from error
    return found


def record_run(
    folder: Path,
    data: ClassSplits,
    *,
    shots: Sequence[int] = (),
    modes: Sequence[bool] = (),
    tasks: int = 600,
) -> RunRecord:
    """Test a seed's best checkpoint and record its run.

    shots: numbers of examples to adapt to. modes: whether predictions are transductive. Both as in the
    run unless given; every pair is tested, on `tasks` tasks.
    """
    settings = FewShotSettings.read(folder / SETTINGS)
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
    about = read_json(folder / ABOUT) if (folder / ABOUT).exists() else {}
    spent = state.get("processor_seconds")
    return RunRecord(
        name=f"{settings.name}-seed-{state['seed']}",
        settings=settings.model_copy(update={"data_dir": None}),
        seed=state["seed"],
        commit=about.get("git"),
        versions=about.get("versions", {}),
        iterations=state["iteration"],
        finished=state["finished"],
        best_iteration=trained.iterations[0],
        core_hours=None if spent is None else round(spent / 3600, 4),
        curve=validation_curve(folder),
        tests=tests,
    )
