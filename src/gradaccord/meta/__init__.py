"""Few-shot learning: episodes, inner loops, and the MAML family with gradient sharing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The public names and where they live, imported when first used.
_HOMES = {
    "Task": "gradaccord.meta.episodes.task_batch",
    "TaskBatch": "gradaccord.meta.episodes.task_batch",
    "MetaLearner": "gradaccord.meta.learners.learner",
    "MetaReport": "gradaccord.meta.report",
    "MAML": "gradaccord.meta.learners.maml",
    "FOMAML": "gradaccord.meta.learners.fomaml",
    "MetaSGD": "gradaccord.meta.learners.meta_sgd",
    "MAMLPlusPlus": "gradaccord.meta.learners.mamlpp",
    "Reptile": "gradaccord.meta.learners.reptile",
    "DotProd": "gradaccord.meta.learners.dotprod",
    "GradientSharing": "gradaccord.meta.learners.sharing",
    "Episodes": "gradaccord.meta.episodes.image_tasks",
    "FixedTasks": "gradaccord.meta.episodes.image_tasks",
    "Sinusoids": "gradaccord.meta.episodes.sinusoid",
    "evaluate": "gradaccord.meta.evaluation",
    "evaluate_ensemble": "gradaccord.meta.evaluation",
}

__all__ = [*_HOMES]  # noqa: PLE0604

if TYPE_CHECKING:
    from gradaccord.meta.episodes.image_tasks import Episodes as Episodes
    from gradaccord.meta.episodes.image_tasks import FixedTasks as FixedTasks
    from gradaccord.meta.episodes.sinusoid import Sinusoids as Sinusoids
    from gradaccord.meta.episodes.task_batch import Task as Task
    from gradaccord.meta.episodes.task_batch import TaskBatch as TaskBatch
    from gradaccord.meta.evaluation import evaluate as evaluate
    from gradaccord.meta.evaluation import evaluate_ensemble as evaluate_ensemble
    from gradaccord.meta.learners.dotprod import DotProd as DotProd
    from gradaccord.meta.learners.fomaml import FOMAML as FOMAML
    from gradaccord.meta.learners.learner import MetaLearner as MetaLearner
    from gradaccord.meta.learners.maml import MAML as MAML
    from gradaccord.meta.learners.mamlpp import MAMLPlusPlus as MAMLPlusPlus
    from gradaccord.meta.learners.meta_sgd import MetaSGD as MetaSGD
    from gradaccord.meta.learners.reptile import Reptile as Reptile
    from gradaccord.meta.learners.sharing import GradientSharing as GradientSharing
    from gradaccord.meta.report import MetaReport as MetaReport


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gradaccord.meta' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
