"""gradaccord: train neural networks with gradients that agree."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradaccord.methods.registry import ADDITIONS, METHODS
from gradaccord.version import __version__ as __version__

# The public names and where they live: the methods' are in their registry. They are imported when first
# used, so that the command line starts fast and `import gradaccord` imports nothing heavier than torch.
_HOMES = {
    "Method": "gradaccord.core.method",
    "StepReport": "gradaccord.core.report",
    "Engine": "gradaccord.core.engine",
    **{named.class_name: named.module for named in (*METHODS.values(), *ADDITIONS.values())},
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
    from gradaccord.methods.combine.conflict_free import ConFIG as ConFIG
    from gradaccord.methods.combine.gradnorm import GradNorm as GradNorm
    from gradaccord.methods.combine.gradvac import GradVac as GradVac
    from gradaccord.methods.combine.pcgrad import PCGrad as PCGrad
    from gradaccord.methods.combine.plain import Mean as Mean
    from gradaccord.methods.combine.plain import Sum as Sum
    from gradaccord.methods.combine.torchjd import TorchJD as TorchJD
    from gradaccord.methods.regularize.recadam import RecAdam as RecAdam
    from gradaccord.methods.regularize.smart import SMART as SMART
    from gradaccord.methods.regularize.swep import SWEP as SWEP
    from gradaccord.methods.trajectory.averaged import Averaged as Averaged
    from gradaccord.methods.trajectory.fomaml import FOMAML as FOMAML
    from gradaccord.methods.trajectory.reptile import MultiTaskReptile as MultiTaskReptile
    from gradaccord.methods.trajectory.reptile import Reptile as Reptile
    from gradaccord.methods.trajectory.sequential_reptile import SequentialReptile as SequentialReptile
    from gradaccord.methods.weigh.dwa import DWA as DWA
    from gradaccord.methods.weigh.famo import FAMO as FAMO
    from gradaccord.methods.weigh.loss_scale import LossScale as LossScale
    from gradaccord.methods.weigh.rlw import RLW as RLW
    from gradaccord.methods.weigh.smooth_tchebycheff import SmoothTchebycheff as SmoothTchebycheff
    from gradaccord.methods.weigh.torchjd_loss import TorchJDLoss as TorchJDLoss
    from gradaccord.methods.weigh.uncertainty import UncertaintyWeighting as UncertaintyWeighting


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
