"""gradaccord: train neural networks with gradients that agree."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradaccord.version import __version__ as __version__

# The public names and where they live. They are imported when first used, so that the command line
# starts fast and nothing heavier than torch is ever imported by `import gradaccord`.
_HOMES = {
    "Method": "gradaccord.core.method",
    "StepReport": "gradaccord.core.report",
    "Engine": "gradaccord.core.engine",
    "Sum": "gradaccord.methods.combine.plain",
    "Mean": "gradaccord.methods.combine.plain",
    "PCGrad": "gradaccord.methods.combine.pcgrad",
    "GradVac": "gradaccord.methods.combine.gradvac",
    "GradNorm": "gradaccord.methods.combine.gradnorm",
    "TorchJD": "gradaccord.methods.combine.torchjd",
    "DotProd": "gradaccord.methods.align.dotprod",
    "PairedSum": "gradaccord.methods.align.paired_sum",
    "SAM": "gradaccord.methods.align.sam",
    "Reptile": "gradaccord.methods.trajectory.reptile",
    "SequentialReptile": "gradaccord.methods.trajectory.sequential_reptile",
    "FOMAML": "gradaccord.methods.trajectory.fomaml",
    "MultiTaskReptile": "gradaccord.methods.trajectory.reptile",
    "RecAdam": "gradaccord.methods.regularize.recadam",
    "SMART": "gradaccord.methods.regularize.smart",
    "SWEP": "gradaccord.methods.regularize.swep",
}

# Rooms with public names of their own: `gradaccord.meta.MAML`, `gradaccord.data.load`.
_ROOMS = ("compare", "data", "integrations", "meta", "models", "probe", "report", "tasks", "train")

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from gradaccord.core.engine import Engine as Engine
    from gradaccord.core.method import Method as Method
    from gradaccord.core.report import StepReport as StepReport
    from gradaccord.methods.align.dotprod import DotProd as DotProd
    from gradaccord.methods.align.paired_sum import PairedSum as PairedSum
    from gradaccord.methods.align.sam import SAM as SAM
    from gradaccord.methods.combine.gradnorm import GradNorm as GradNorm
    from gradaccord.methods.combine.gradvac import GradVac as GradVac
    from gradaccord.methods.combine.pcgrad import PCGrad as PCGrad
    from gradaccord.methods.combine.plain import Mean as Mean
    from gradaccord.methods.combine.plain import Sum as Sum
    from gradaccord.methods.combine.torchjd import TorchJD as TorchJD
    from gradaccord.methods.regularize.recadam import RecAdam as RecAdam
    from gradaccord.methods.regularize.smart import SMART as SMART
    from gradaccord.methods.regularize.swep import SWEP as SWEP
    from gradaccord.methods.trajectory.fomaml import FOMAML as FOMAML
    from gradaccord.methods.trajectory.reptile import MultiTaskReptile as MultiTaskReptile
    from gradaccord.methods.trajectory.reptile import Reptile as Reptile
    from gradaccord.methods.trajectory.sequential_reptile import SequentialReptile as SequentialReptile


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
