"""gradaccord: train neural networks with gradients that agree."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# The public names and where they live. They are imported when first used, so that the command line
# starts fast and nothing heavier than torch is ever imported by `import gradaccord`.
_HOMES = {
    "Method": "gradaccord.core.method",
    "StepReport": "gradaccord.core.report",
    "Engine": "gradaccord.core.engine",
    "Sum": "gradaccord.combine.plain",
    "Mean": "gradaccord.combine.plain",
    "PCGrad": "gradaccord.combine.pcgrad",
    "GradVac": "gradaccord.combine.gradvac",
    "GradNorm": "gradaccord.combine.gradnorm",
    "TorchJD": "gradaccord.combine.torchjd",
    "DotProd": "gradaccord.align.dotprod",
    "PairedSum": "gradaccord.align.paired",
    "SAM": "gradaccord.align.sam",
    "Reptile": "gradaccord.trajectory.reptile",
    "SequentialReptile": "gradaccord.trajectory.sequential_reptile",
    "FOMAML": "gradaccord.trajectory.fomaml",
    "MultiTaskReptile": "gradaccord.trajectory.reptile",
    "RecAdam": "gradaccord.regularize.recadam",
    "SMART": "gradaccord.regularize.smart",
    "SWEP": "gradaccord.regularize.swep",
}

# Rooms with public names of their own: `gradaccord.meta.MAML`, `gradaccord.data.load`.
_ROOMS = ("compare", "data", "integrations", "meta", "models", "probe", "report", "tasks", "train")

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from gradaccord.align.dotprod import DotProd as DotProd
    from gradaccord.align.paired import PairedSum as PairedSum
    from gradaccord.align.sam import SAM as SAM
    from gradaccord.combine.gradnorm import GradNorm as GradNorm
    from gradaccord.combine.gradvac import GradVac as GradVac
    from gradaccord.combine.pcgrad import PCGrad as PCGrad
    from gradaccord.combine.plain import Mean as Mean
    from gradaccord.combine.plain import Sum as Sum
    from gradaccord.combine.torchjd import TorchJD as TorchJD
    from gradaccord.core.engine import Engine as Engine
    from gradaccord.core.method import Method as Method
    from gradaccord.core.report import StepReport as StepReport
    from gradaccord.regularize.recadam import RecAdam as RecAdam
    from gradaccord.regularize.smart import SMART as SMART
    from gradaccord.regularize.swep import SWEP as SWEP
    from gradaccord.trajectory.fomaml import FOMAML as FOMAML
    from gradaccord.trajectory.reptile import MultiTaskReptile as MultiTaskReptile
    from gradaccord.trajectory.reptile import Reptile as Reptile
    from gradaccord.trajectory.sequential_reptile import SequentialReptile as SequentialReptile


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"gradaccord.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'gradaccord' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
