"""Few-shot learning: episodes, inner loops, and the MAML family with gradient sharing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The public names and where they live, imported when first used.
_HOMES = {
    "Task": "gradaccord.meta.task_batch",
    "TaskBatch": "gradaccord.meta.task_batch",
    "MetaLearner": "gradaccord.meta.learner",
    "MetaReport": "gradaccord.meta.report",
    "MAML": "gradaccord.meta.maml",
    "FOMAML": "gradaccord.meta.maml",
    "MetaSGD": "gradaccord.meta.meta_sgd",
    "MAMLPlusPlus": "gradaccord.meta.mamlpp",
    "Reptile": "gradaccord.meta.reptile",
    "DotProd": "gradaccord.meta.dotprod",
    "GradientSharing": "gradaccord.meta.sharing",
    "Episodes": "gradaccord.meta.episodes",
    "FixedTasks": "gradaccord.meta.episodes",
    "Sinusoids": "gradaccord.meta.sinusoid",
    "evaluate": "gradaccord.meta.evaluation",
    "evaluate_ensemble": "gradaccord.meta.evaluation",
}

__all__ = [*_HOMES]  # noqa: PLE0604

if TYPE_CHECKING:
    from gradaccord.meta.dotprod import DotProd as DotProd
    from gradaccord.meta.episodes import Episodes as Episodes
    from gradaccord.meta.episodes import FixedTasks as FixedTasks
    from gradaccord.meta.evaluation import evaluate as evaluate
    from gradaccord.meta.evaluation import evaluate_ensemble as evaluate_ensemble
    from gradaccord.meta.learner import MetaLearner as MetaLearner
    from gradaccord.meta.maml import FOMAML as FOMAML
    from gradaccord.meta.maml import MAML as MAML
    from gradaccord.meta.mamlpp import MAMLPlusPlus as MAMLPlusPlus
    from gradaccord.meta.meta_sgd import MetaSGD as MetaSGD
    from gradaccord.meta.report import MetaReport as MetaReport
    from gradaccord.meta.reptile import Reptile as Reptile
    from gradaccord.meta.sharing import GradientSharing as GradientSharing
    from gradaccord.meta.sinusoid import Sinusoids as Sinusoids
    from gradaccord.meta.task_batch import Task as Task
    from gradaccord.meta.task_batch import TaskBatch as TaskBatch


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gradaccord.meta' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
