"""An entry: one table or figure of a paper, described by a YAML file in `entries/`.

It has the published numbers, the published setting in full, and a small setting for a few cores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gradaccord.compare.budget import BudgetKind
from gradaccord.core.did_you_mean import nearest
from gradaccord.reproduce.merge import merged
from gradaccord.runs.config_files import parse_yaml
from gradaccord.runs.config_sections import Count, Positive

PAPERS = {
    "controls": "Positive controls: differences that must be found",
    "minbert": "Kehoe & Ravella: minBERT, multi-task fine-tuning (report)",
    "dotprod": "Kedia, Chinthakindi & Ryu 2021: Beyond Reptile (Findings of EMNLP)",
    "sequential-reptile": "Lee et al. 2022: Sequential Reptile (ICLR)",
    "gradient-sharing": "Chang & Lipson 2020: Gradient sharing in meta-learning",
    "explore": "Exploratory: questions of our own",
}
FOLDER = Path(__file__).parent / "entries"
MAIN = "main"  # the variant of a setting that names none
DATA, COMPARE, FEWSHOT = "data", "compare", "fewshot"
COSINES = "cosines"
Size = Literal["small", "full"]
Plain = dict[str, Any]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Published(_Section):
    """Numbers of the paper. A row has a number, or null, for each column."""

    source: str
    complete: bool = True
    columns: tuple[str, ...] = ()
    rows: dict[str, tuple[float | None, ...]] = {}
    note: str | None = None

    @model_validator(mode="after")
    def _rows_fit(self) -> Published:
        for name, row in self.rows.items():
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {name!r} has {len(row)} numbers for {len(self.columns)} columns: "
                    "give null where there is none"
                )
        return self


class Primary(_Section):
    """The one test that decides: an arm against another on a metric of a task, or their average."""

    metric: str = "average"  # or a task, a probe, `steps to 40`...: see RunRecord.value
    arm: str
    against: str
    smallest_effect: Positive
    variant: str | None = None  # default: the mean over all
    budget: BudgetKind | None = None  # default: the first
    better: Literal["higher", "lower"] = "higher"
    asks: str = ""  # what is tested, where that is narrower than the entry's claim


class Design(_Section):
    """What is run: arms on variants of a configuration, over seeds, at each budget."""

    config: Plain = {}
    arms: Annotated[dict[str, Plain], Field(min_length=1)]
    variants: Annotated[dict[str, Plain], Field(min_length=1)] = {MAIN: {}}
    seeds: Count = 5
    # A list, or a mapping to the arms that are run at a budget (null: all).
    budgets: Annotated[dict[BudgetKind, tuple[str, ...] | None], Field(min_length=1)] = {"epochs": None}
    unstated: tuple[str, ...] = ()
    substitutions: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # data files, from the folder of --data
    publisher: dict[str, str] = {}  # a needed file, or a folder of them -> who publishes it
    baseline: str | None = None
    controls: dict[str, str] = {}
    levels: tuple[float, ...] = ()  # averages on validation: the steps to reach each are compared
    primary: Primary | None = None
    core_hours: Annotated[float, Field(ge=0)] | None = None

    @field_validator("arms", "variants", mode="before")
    @classmethod
    def _empty_overrides(cls, value: Any) -> Any:
        """An arm or variant without a value, such as `plain:`, changes nothing."""
        if not isinstance(value, Mapping):
            return value
        return {name: {} if own is None else own for name, own in value.items()}

    @field_validator("budgets", mode="before")
    @classmethod
    def _all_arms(cls, value: Any) -> Any:
        return dict.fromkeys(value) if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _names_exist(self) -> Design:
        named = {"baseline": self.baseline, **{f"controls.{arm}": arm for arm in self.controls}}
        named |= {f"controls.{arm} ": other for arm, other in self.controls.items()}
        for budget, arms in self.budgets.items():
            named |= {f"budgets.{budget}[{i}]": arm for i, arm in enumerate(arms or ())}
        if self.primary is not None:
            named |= {"primary.arm": self.primary.arm, "primary.against": self.primary.against}
            if self.primary.variant not in (None, *self.variants):
                raise ValueError(
                    f"`primary.variant` is {self.primary.variant!r}: not one of `variants`"
                )
            if self.primary.budget not in (None, *self.budgets):
                raise ValueError(f"`primary.budget` is {self.primary.budget!r}: not one of `budgets`")
        for field, arm in named.items():
            if arm is not None and arm not in self.arms:
                raise ValueError(
                    f"`{field}` is {arm!r}: {nearest(arm, list(self.arms), 'the arms are')}"
                )
        for name in (*self.arms, *self.variants):
            if not re.fullmatch(r"[\w.=+@-]+", name):
                raise ValueError(f"{name!r} names an arm or a variant: use letters, digits and -_.=+@")
        return self

    def content(self, variant: str, arm: str) -> Plain:
        """The configuration of one arm on one variant, as plain values."""
        return merged(self.base(variant), self.arms[arm])

    def arms_at(self, budget: BudgetKind) -> tuple[str, ...]:
        """The arms that are run at a budget."""
        return self.budgets[budget] or tuple(self.arms)

    def base(self, variant: str) -> Plain:
        """The configuration of a variant without any arm."""
        return merged(self.config, self.variants[variant])


class Reused(_Section):
    """Runs of another entry: some of its arms on some of its variants (none given: all of them)."""

    entry: str
    arms: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()  # of the small setting
    baseline: str | None = None  # default: that of the other entry
    primary: Primary | None = None  # on these runs

    def check(self, whole: Design) -> None:
        """Refuse names that the other entry's small setting does not have."""
        for what, names, known in (
            ("arm", self.arms, whole.arms),
            ("variant", self.variants, whole.variants),
        ):
            for name in names:
                if name not in known:
                    raise ValueError(f"there is no {what} {name!r}: {nearest(name, list(known))}")

    def part_of(self, whole: Design) -> Design:
        """The part of the other design with these arms and variants; it needs no runs of its own."""
        arms = _part(whole.arms, self.arms)
        at = {
            budget: tuple(arm for arm in whole.arms_at(budget) if arm in arms)
            for budget in whole.budgets
        }
        baseline = self.baseline or whole.baseline
        return Design(
            **whole.model_dump(
                include={
                    "config",
                    "seeds",
                    "unstated",
                    "substitutions",
                    "needs",
                    "publisher",
                    "levels",
                }
            ),
            arms=arms,
            variants=_part(whole.variants, self.variants),
            budgets={budget: own for budget, own in at.items() if own},
            baseline=baseline if baseline in arms else None,
            controls={a: b for a, b in whole.controls.items() if a in arms and b in arms},
            primary=self.primary,
            core_hours=0,
        )


def _part(known: Mapping[str, Plain], names: tuple[str, ...]) -> dict[str, Plain]:
    return {name: known[name] for name in names if name in known} or dict(known)


class Panel(_Section):
    """A picture of an entry's runs: one quantity over another, or a map of the tasks' cosines.

    x: step, gradients, seconds, or a quantity of y. y: what records have at every evaluation, such as
    average, train_loss, cosine, distance, a pattern such as `masked_lm.*` (the mean), or
    `alignment.dot` of every step.
    """

    x: str = "gradients"
    y: str = ""
    label: str | None = None  # of the y axis
    matrix: Literal["cosines"] | None = None

    @model_validator(mode="after")
    def _one_picture(self) -> Panel:
        if bool(self.y) == bool(self.matrix):
            raise ValueError("give `y` for curves, or `matrix` for a map")
        return self


class Entry(_Section):
    """One table or figure."""

    name: str
    title: str
    claim: str
    kind: str = COMPARE
    published: Published
    ours: Published | None = None  # of the kind `data`: from elsewhere, under the same names
    full: Design | None = None
    small: Design | None = None
    records_of: Reused | None = None  # both settings are those of another entry, and so are the runs
    recipe_only: str | None = None  # the data file that is missing
    figure: tuple[Panel, ...] = ()  # drawn from the records
    errors: bool = False  # whether its tables show the errors of every arm

    @model_validator(mode="after")
    def _can_be_run(self) -> Entry:
        if self.paper not in PAPERS:
            raise ValueError(f"the name {self.name!r} must begin with a paper: {', '.join(PAPERS)}")
        if self.records_of is not None and (self.small or self.full):
            raise ValueError("`records_of` brings the settings: leave out `small` and `full`")
        if self.kind != DATA and not (self.small or self.records_of or self.recipe_only):
            raise ValueError("`small` is missing: give it, or `records_of`, or `recipe_only`")
        return self

    @property
    def paper(self) -> str:
        """The key of its paper."""
        fitting = [key for key in PAPERS if self.name.startswith(f"{key}-")]
        return max(fitting, key=len, default=self.name)

    @property
    def runs(self) -> str:
        """The entry under whose name its runs are recorded."""
        return self.name if self.records_of is None else self.records_of.entry

    def design(self, size: Size) -> Design:
        """The design of a size; an error if the entry has none."""
        found = self.small if size == "small" else self.full
        if found is None:
            reason = f"{self.recipe_only} is missing" if self.recipe_only else "nothing is run for it"
            raise ValueError(f"{self.name} has no {size} setting: {reason}.")
        return found


def read_entry(name: str, text: str) -> Entry:
    """An entry from its YAML text; the first mistake becomes one sentence."""
    content, _ = parse_yaml(text, Path(f"{name}.yaml"))
    if not isinstance(content, dict):
        raise ValueError(f"{name}.yaml holds no mapping: start with `title:`.")
    try:
        return Entry(name=name, **content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the entry"
        message = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise ValueError(f"{name}.yaml: `{place}`: {message}.") from error


def all_entries(folder: Path = FOLDER) -> dict[str, Entry]:
    """Every entry by name, papers in the order of `PAPERS`. folder: of their files."""
    found = [read_entry(file.stem, file.read_text(encoding="utf-8")) for file in folder.glob("*.yaml")]
    order = list(PAPERS)
    found.sort(key=lambda entry: (order.index(entry.paper), _natural_order(entry.name)))
    entries = {entry.name: entry for entry in found}
    return {name: _with_settings(entry, entries) for name, entry in entries.items()}


def _with_settings(entry: Entry, entries: Mapping[str, Entry]) -> Entry:
    """An entry that uses another's runs, with the settings of those."""
    if entry.records_of is None:
        return entry
    try:
        other = find_entry(entry.records_of.entry, entries)
        if other.records_of is not None:
            raise ValueError(f"{other.name} has no runs of its own: name {other.runs}.")
        if other.small is not None:
            entry.records_of.check(other.small)
        sizes = {"small": other.small, "full": other.full}
        parts = {size: entry.records_of.part_of(own) for size, own in sizes.items() if own is not None}
    except ValueError as error:
        raise ValueError(f"{entry.name}.yaml: `records_of`: {error}") from error
    return entry.model_copy(update={"kind": other.kind, **parts})


def find_entry(name: str, entries: Mapping[str, Entry]) -> Entry:
    """The entry of that name; an unknown name is refused, with the nearest known one."""
    if name not in entries:
        raise ValueError(f"There is no entry {name!r}: {nearest(name, list(entries))}")
    return entries[name]


def _natural_order(name: str) -> list[tuple[int, str]]:
    """A sort key that puts table-4 before table-10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in name.split("-")]
