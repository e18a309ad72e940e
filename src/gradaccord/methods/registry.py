"""Every method and what can be added to it, by name: class, options, feed, cost, controls.

A new method is one line in `_ENTRIES`: command line, comparison, Trainer and public names read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gradaccord.core.did_you_mean import canonical
from gradaccord.core.options import OptionError, check_options, look_up, options_of
from gradaccord.methods.regularize.term_weight import is_on

if TYPE_CHECKING:
    from gradaccord.core.method import Method

Options: TypeAlias = Mapping[str, Any]

BASELINE = "sum"  # what every method is compared with
SINGLE_TASK = "stl"  # one model per task: several runs of the baseline, and no class

# What one `backward` is given: a batch of each of the step's tasks; one batch; two batches at the
# same weights; or one batch of a task that stays the same for a whole trajectory.
Feed = Literal["all", "one", "pair", "blocks"]

# The sampler that draws a step's tasks where none is chosen; in blocks the tasks take turns.
DEFAULT_SAMPLER: dict[Feed, str] = dict.fromkeys(("one", "pair", "blocks"), "proportional")
DEFAULT_SAMPLER["all"] = "round_robin"


# Parameters of the classes that are given by whoever builds them, and not by users.
NOT_OPTIONS = ("model", "optimizer", "engine", "seed", "tasks", "gradient", "decide")


@dataclass(frozen=True)
class Control:
    """The same steps without the method's idea: another method, or the same one with other options.

    rate: the factor on the learning rate.
    carried: whether it takes over the method's options that it also has.
    """

    method: str
    options: Options = field(default_factory=dict)
    rate: float = 1.0
    carried: bool = True


PLAIN = (Control(BASELINE, carried=False),)
SEQUENTIAL = (Control("sequential"),)
PAIRED_SUM = (Control("paired_sum"),)


def plain_sum(options: Options) -> tuple[Control, ...]:
    """The plain sum, of gradients that are normalised if the method's are."""
    normalized = Control(BASELINE, {"normalize": True}, carried=False)
    return (normalized,) if options.get("normalize") else PLAIN


@dataclass(frozen=True)
class Named:
    """A class by its name; `cost` is a value, or a function of all its options.

    home: module (inside `gradaccord.methods`) and class.
    cost: batch gradients that it spends on each batch it is given.
    without: parameters of its class that are not for users to set.
    """

    name: str
    home: str
    summary: str
    cost: float | Callable[[Options], float] = 1.0
    without: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What errors call it."""
        return f"The method {self.name!r}"

    @property
    def module(self) -> str:
        """Where the class is defined."""
        return f"gradaccord.methods.{self.home.partition(':')[0]}"

    @property
    def class_name(self) -> str:
        """The public name of the class."""
        return self.home.partition(":")[2]

    def load(self) -> Any:
        """The class, imported now."""
        return getattr(import_module(self.module), self.class_name)

    def options(self, given: Options | None = None) -> dict[str, Parameter]:
        """Every option with its type and default."""
        return options_of(self.load(), (*NOT_OPTIONS, *self.without))

    def check(self, given: Options) -> dict[str, Any]:
        """The options, converted to their types; others are refused."""
        which = f" with the weighting {given['weighting']!r}" if "weighting" in given else ""
        return check_options(self.title + which, given, self.options(given))

    def cost_with(self, options: Options) -> float:
        """Batch gradients per batch, with these options."""
        return self.cost(self._all_options(options)) if callable(self.cost) else self.cost

    def _all_options(self, given: Options) -> dict[str, Any]:
        return {name: option.default for name, option in self.options().items()} | dict(given)


def _bank_copies(tasks: int, options: Options) -> float:
    """What a method keeps of its tasks' gradients beside the one that is stepped on."""
    kept = {"half": tasks / 2, "cpu": 0.0, "sketch": tasks / 16}  # "cpu": on the accelerator
    return kept.get(options.get("memory", "full"), max(tasks - 1, 0)) if tasks > 1 else 0.0


def _bank_cost(options: Options) -> float:
    """One gradient a batch; sketches take a second pass."""
    return 2.0 if options.get("memory") == "sketch" else 1.0


@dataclass(frozen=True)
class Entry(Named):
    """One method. `feed` and `controls`, too, are values or functions of all its options.

    controls: what it must beat to be called better.
    copies: of gradients or weights, kept beside the gradient that is stepped on, as a value or a
        function of the number of tasks and all options; by default what the bank keeps.
    tasks: makes the class's argument `tasks` from the names of the tasks.
    more_options: options that depend on those given.
    one_task: whether it is worth trying on one task alone.
    """

    cost: float | Callable[[Options], float] = _bank_cost
    feed: Feed | Callable[[Options], Feed] = "all"
    controls: tuple[Control, ...] | Callable[[Options], tuple[Control, ...]] = plain_sum
    copies: float | Callable[[int, Options], float] = _bank_copies
    tasks: Callable[[Sequence[str]], Any] | None = None
    more_options: Callable[[Options], Mapping[str, Parameter]] | None = None
    one_task: bool = False

    @property
    def takes_optimizer(self) -> bool:
        """Whether it is built with the optimiser whose steps it counts."""
        return takes_optimizer(self.load())

    @property
    def loss_only(self) -> bool:
        """Whether it decides by the losses alone, and reads no gradient."""
        return bool(self.load().loss_only)

    def feed_with(self, options: Options) -> Feed:
        """What one `backward` is given, with these options."""
        return self.feed(self._all_options(options)) if callable(self.feed) else self.feed

    def controls_with(self, options: Options) -> Iterator[Control]:
        """The controls of the method with these options, each with all options that it is given."""
        controls = self.controls
        for control in controls(self._all_options(options)) if callable(controls) else controls:
            known = METHODS[control.method].options() if control.carried else ()
            given = {k: v for k, v in options.items() if k in known} | dict(control.options)
            if (control.method, given) != (self.name, dict(options)):  # nothing is its own control
                yield Control(control.method, given, control.rate)

    def copies_with(self, tasks: int, options: Options) -> float:
        """Copies of gradients or weights, with so many tasks and these options."""
        copies = self.copies
        return copies(tasks, self._all_options(options)) if callable(copies) else copies

    def block_with(self, options: Options) -> int:
        """For how many steps a task keeps its turn."""
        in_blocks = self.feed_with(options) == "blocks"
        return int(self._all_options(options)["inner_steps"]) if in_blocks else 1

    def options(self, given: Options | None = None) -> dict[str, Parameter]:
        """Every option with its type and default. given: those in use, on which others may depend."""
        more = self.more_options
        return super().options() | dict({} if more is None or given is None else more(given))

    def check(self, given: Options) -> dict[str, Any]:
        """The options, converted to their types; others are refused."""
        if given.get("decide") == "features":
            raise OptionError(
                "decide",
                f"{self.title}: `decide` is 'features', which needs one batch under several heads, and "
                "here every task has batches of its own: use it from Python, with one callable for "
                "all losses.",
            )
        return super().check(given)

    def build(self, model: Any, optimizer: Any, *, tasks: Sequence[str], **options: Any) -> Method:
        """The method itself, for a model as it is called in the losses."""
        own = self.check({k: v for k, v in options.items() if k not in NOT_OPTIONS})
        given = options | own
        if self.tasks is not None:
            given["tasks"] = self.tasks(tasks)
        if self.takes_optimizer:
            given["optimizer"] = optimizer
        method: Method = self.load()(model, **given)
        return method


@dataclass(frozen=True)
class Addition(Named):
    """What any method is run with: a term of its losses, or another optimiser.

    Its control is the same method without it.
    """

    is_optimizer: bool = False

    @property
    def title(self) -> str:
        """What errors call it."""
        return f"The {'optimiser' if self.is_optimizer else 'regulariser'} {self.name!r}"


def _weighting_options(given: Options) -> dict[str, Parameter]:
    """What TorchJD's weighting of a name takes."""
    from gradaccord.methods.combine.torchjd_weightings import weighting_options

    name = given.get("weighting")
    if name is None:
        raise OptionError(
            "name", "The method 'torchjd' needs a `weighting`: e.g. UPGrad, CAGrad or MGDA."
        )
    try:
        return weighting_options(str(name), given)
    except (TypeError, ValueError) as error:  # it is unknown, or cannot be used
        raise OptionError("weighting", str(error)) from error


def _scalarizer_options(given: Options) -> Mapping[str, Parameter]:
    """What TorchJD's scalarizer of a name takes."""
    from gradaccord.methods.weigh.torchjd_loss import TorchJDLoss, scalarizer_options

    usual = signature(TorchJDLoss).parameters["scalarizer"].default
    try:
        return scalarizer_options(str(given.get("scalarizer", usual)))
    except ValueError as error:  # it is unknown, or cannot be used
        raise OptionError("scalarizer", str(error)) from error


def _dotprod_cost(options: Options) -> float:
    """One gradient a batch, and what the term of one pair in `every` batches takes."""
    per_pair = {"one-sided": 3.0, "centred": 4.0, "symmetric": 5.0}
    if options["mode"] == "exact":  # the class refuses exact products that are centred
        per_pair |= {"one-sided": 4.2, "symmetric": 8.0}
    return 1 + (per_pair[options["scheme"]] - 2) / int(options["every"])


def _smart_cost(options: Options) -> float:
    """A plain step; a noisy one and the ascent to its noise; the teacher's forward pass."""
    noisy = 1 + 0.7 * int(options["ascent_steps"]) if is_on(options["weight"]) else 0.0
    return 1 + noisy + (0.3 if is_on(options["bregman"]) else 0.0)


def _window_feed(options: Options) -> Feed:
    """Pairs; in windows of more than two batches one at a time, as all but the last two are steps."""
    return "pair" if int(options["every"]) == 2 else "one"


def _on_pairs(options: Options) -> bool:
    return bool(options["batches"] == 2)  # SAM's second form


# fmt: off
_ENTRIES = (
    Entry("sum", "combine.plain:Sum", "plain multi-task training on the summed loss",
          controls=lambda options: PLAIN if options["normalize"] else ()),
    Entry("mean", "combine.plain:Mean", "plain multi-task training on the mean loss",
          controls=lambda options: (Control("mean", carried=False),) if options["normalize"] else (),
          without=("reduction",)),
    Entry("pcgrad", "combine.pcgrad:PCGrad", "projects conflicting task gradients off one another"),
    Entry("gradvac", "combine.gradvac:GradVac", "raises each pair's cosine to its running target"),
    Entry("config", "combine.conflict_free:ConFIG",
          "a step with the same cosine to every task gradient"),
    Entry("gradnorm", "combine.gradnorm:GradNorm",
          "learns task weights that train all tasks at the same rate",
          without=("granularity", "normalize")),
    Entry("torchjd", "combine.torchjd:TorchJD",
          "any TorchJD weighting, e.g. torchjd:weighting=CAGrad,c=0.5",
          tasks=tuple, more_options=_weighting_options),
    Entry("uncertainty", "weigh.uncertainty:UncertaintyWeighting",
          "divides each loss by its learned variance"),
    Entry("dwa", "weigh.dwa:DWA", "more weight to tasks whose loss falls slowly"),
    Entry("rlw", "weigh.rlw:RLW", "random weights, redrawn in every step"),
    Entry("famo", "weigh.famo:FAMO", "learns weights that let all losses fall at the same rate"),
    Entry("loss_scale", "weigh.loss_scale:LossScale", "divides each loss by its running mean"),
    Entry("smooth_tchebycheff", "weigh.smooth_tchebycheff:SmoothTchebycheff",
          "most weight to the task that is worst off"),
    Entry("torchjd_loss", "weigh.torchjd_loss:TorchJDLoss",
          "any TorchJD scalarizer, e.g. torchjd_loss:scalarizer=IMTLL",
          tasks=tuple, more_options=_scalarizer_options),
    Entry("paired_sum", "align.paired_sum:PairedSum", "two batches at the same weights, summed",
          feed=_window_feed, controls=(), copies=1),
    # The term also lengthens the step, and a longer step alone may be what helps: hence two controls.
    Entry("dotprod", "align.dotprod:DotProd", "adds the gradient of two batches' dot product",
          feed=_window_feed, cost=_dotprod_cost, copies=2, one_task=True,
          controls=(*PAIRED_SUM, Control("paired_sum", rate=1.1))),
    Entry("sam", "align.sam:SAM", "the gradient at the worst point nearby", copies=1, one_task=True,
          feed=lambda options: "pair" if _on_pairs(options) else "one",
          cost=lambda options: 1.0 if _on_pairs(options) else 2.0,
          controls=lambda options: PAIRED_SUM if _on_pairs(options) else SEQUENTIAL),
    Entry("sequential", "combine.plain:Sum",
          "one task a step, by the sampler: Sequential Reptile with outer_lr 1",
          feed="one", controls=(), copies=0, without=("normalize", "memory")),
    Entry("sequential_reptile", "trajectory.sequential_reptile:SequentialReptile",
          "a trajectory over batches of all tasks, then a Reptile step",
          feed="one", controls=(Control("sequential_reptile", {"outer_lr": 1}),), copies=1),
    Entry("reptile", "trajectory.reptile:Reptile", "k steps, then a step towards their end",
          feed="one", controls=(Control("reptile", {"outer_lr": 1}),), copies=1),
    Entry("averaged", "trajectory.averaged:Averaged",
          "plain training, evaluated and saved at a running mean of the weights (EMA or SWA)",
          copies=lambda tasks, options: tasks, one_task=True),
    Entry("sequential_averaged", "trajectory.averaged:Averaged",
          "averaged, with one task a step: averaging alone, to compare Sequential Reptile with",
          feed="one", controls=SEQUENTIAL, copies=1),
    Entry("fomaml", "trajectory.fomaml:FOMAML", "k steps, then the last step applied from the start",
          feed="one", controls=SEQUENTIAL, copies=2),
    Entry("multitask_reptile", "trajectory.reptile:MultiTaskReptile",
          "a trajectory per task from the same start, then their mean",
          feed="blocks", controls=SEQUENTIAL, copies=2, tasks=len),
)
_ADDITIONS = (
    Addition("smart", "regularize.smart:SMART", "smooth against adversarial noise", _smart_cost),
    Addition("swep", "regularize.swep:SWEP", "learned noise on word embeddings",
             lambda options: 2.1 if is_on(options["weight"]) else 1.0),
    Addition("recadam", "regularize.recadam:RecAdam", "Adam that recalls the pretrained weights",
             without=("params", "lr", "new", "pretrained"), is_optimizer=True),
)
# fmt: on

METHODS = {entry.name: entry for entry in _ENTRIES}
ADDITIONS = {added.name: added for added in _ADDITIONS}
REGULARIZERS = {name: added for name, added in ADDITIONS.items() if not added.is_optimizer}
NAMES = (*METHODS, SINGLE_TASK)


def canonical_method(name: str) -> str:
    """The name as it is known here, however it was spelled; one that is unknown stays as it is."""
    return canonical(name, NAMES)


def find_method(name: str) -> Entry:
    """The entry of a name; for an unknown name the error suggests the nearest."""
    return look_up("The method", name, METHODS)


def entry_of_class(cls: type) -> Entry | None:
    """The entry of a class or of the nearest of its bases that has one."""
    homes = {(entry.module, entry.class_name): entry for entry in reversed(_ENTRIES)}
    bases = ((base.__module__, base.__qualname__) for base in cls.__mro__)
    return next((homes[base] for base in bases if base in homes), None)


def takes_optimizer(factory: Callable[..., Any]) -> bool:
    """Whether a method is built with the optimiser: those that count its steps are."""
    return "optimizer" in signature(factory).parameters


def check_method(name: str, options: Options) -> None:
    """Refuse an unknown method or option."""
    if name == SINGLE_TASK:
        check_options(f"The method {name!r}", options, {})
    else:
        find_method(name).check(options)


def controls_of(name: str, options: Options) -> tuple[Control, ...]:
    """What a method with these options must be compared with."""
    return () if name == SINGLE_TASK else tuple(find_method(name).controls_with(options))
