"""The test at the end of a few-shot run: the best weights, by inner step, and as an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.meta.build import TEST_SEED, fixed_tasks
from gradaccord.meta.evaluation import Evaluation, evaluate, evaluate_ensemble
from gradaccord.meta.learners.learner import MetaLearner
from gradaccord.meta.settings import FewShotSettings

CURVE = 10  # inner steps that the adaptation curve shows at least


def final_test(
    settings: FewShotSettings,
    learner: MetaLearner,
    states: Sequence[Mapping[str, Any]],
    classes: ImageClasses,
    counter: Callable[[str, int], Callable[[int], None]],
) -> tuple[Evaluation, Evaluation, Evaluation | None]:
    """Test the best state, the same by inner step on fewer tasks, and all as an ensemble if several.

    states: of the learner, best first; the learner keeps the first. counter: takes what is being done
    and the number of tasks; returns a function to call with the tasks done so far.
    """
    s = settings
    tasks = fixed_tasks(s, classes, s.test_tasks, TEST_SEED)
    few = fixed_tasks(s, classes, min(s.curve_tasks, s.test_tasks), TEST_SEED)
    options: dict[str, Any] = {"steps": s.evaluation_steps, "transductive": s.transductive}
    learner.load_state_dict(states[0])
    progress = counter("testing", s.test_tasks)
    single = evaluate(learner, tasks, by_step=False, progress=progress, **options)
    steps = learner.inner_steps if s.evaluation_steps is None else s.evaluation_steps
    progress = counter("testing by inner step", few.count)
    curve = evaluate(learner, few, **(options | {"steps": max(steps, CURVE), "progress": progress}))
    ensemble = None
    if len(states) > 1:
        progress = counter("testing the ensemble", s.test_tasks * len(states))
        ensemble = evaluate_ensemble(learner, states, tasks, progress=progress, **options)
    return single, curve, ensemble
