"""The configuration of a run: what a YAML file may say, with its defaults.

model: minilm
tasks:
  sst: {data: sst}
  sts: {data: sts, pair: cross}
method: pcgrad
train: {epochs: 3, lr: 2e-5}
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from gradaccord.data.dataset import ORDER
from gradaccord.data.files.layouts import Iob
from gradaccord.methods.registry import BASELINE, SINGLE_TASK, canonical_method
from gradaccord.runs.config_sections import Count, Named, Positive, Section, Share


class _Spelled(Named):
    """One name of a list; capitals and hyphens do not matter."""

    @field_validator("name")
    @classmethod
    def _canonical(cls, name: str) -> str:
        return name.strip().lower().replace("-", "_")


class LoraConfig(Section):
    """Adapters of rank r, trained instead of the trunk's weights; names as in `peft.LoraConfig`."""

    r: Count = Field(8, description="Rank of the adapters.")
    lora_alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        8, description="Adapters are scaled by lora_alpha / r."
    )
    lora_dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="Dropout on the adapters' inputs."
    )
    target_modules: str | list[str] | None = Field(
        None,
        description="Layers that get an adapter, or all-linear; default: peft's choice for the model, "
        "mostly query and value.",
    )
    use_rslora: bool = Field(False, description="Scale by lora_alpha / sqrt(r).")
    use_dora: bool = Field(False, description="Train directions and lengths separately (DoRA).")


class ModelConfig(Named):
    """The trunk that all tasks share: `minilm`, `use-multilingual`, `characters`, a folder, or a name
    on the hub.

    Options are those of the trunk (`gradaccord.models.trunks.loading`), e.g. `pooling`.
    """

    freeze: list[str] = Field(
        default_factory=list,
        description="Parts that are not trained, e.g. [embeddings, layers 0-3], or trunk for all.",
    )
    lora: LoraConfig | None = Field(None, description="Train low-rank adapters instead of the trunk.")

    @field_validator("freeze", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(part, str) for part in listed):
            return value
        return [part.strip() for one in listed for part in one.split(",") if part.strip()]


FILE_KEYS = ("format", "header", "separator", "quotes", "encoding", "iob")


def with_files(task: Any) -> Any:
    """A task as plain values whose `train`, `dev` and `test` are moved into its `files`."""
    if not isinstance(task, dict) or not isinstance(task.get("files", {}), dict | None):
        return task
    short = {split: task[split] for split in ORDER if split in task}
    if not short:
        return task
    rest = {key: value for key, value in task.items() if key not in short}
    return {**rest, "files": {**(task.get("files") or {}), **short}}


class TaskConfig(Section):
    """One task. Options of its kind (`pair`, `head`, `max_length`, ...) stand beside these."""

    model_config = ConfigDict(extra="allow", frozen=True)

    data: str | None = Field(None, description="A set that `gradaccord list data` shows, or hub:NAME.")
    files: dict[str, str | list[str]] | None = Field(
        None, description="Your own files by split; train, dev and test may also stand beside `kind`."
    )
    kind: str | None = Field(
        None, description="What is learned; known for the sets of `list data`, detected in own files."
    )
    columns: dict[str, str | list[str]] | list[str] | None = Field(
        None, description="Own files: column of each field, or the names of all columns in order."
    )
    labels: list[str] | dict[str, str] | None = Field(
        None,
        description="Classes in the order of their numbers, or a mapping: what files write -> class.",
    )
    format: str | None = Field(None, description="Own files: format, e.g. csv. null: by the ending.")
    header: bool | None = Field(None, description="Own tables: line 1 names columns. null: detected.")
    separator: str | None = Field(
        None, description="Own tables: comma, tab, semicolon, pipe or a character. null: detected."
    )
    quotes: bool | None = Field(None, description="Own tables: quotes enclose cells. null: detected.")
    encoding: str = Field("utf-8", description="Own files: the encoding of their text.")
    iob: Iob = Field(
        "strict", description="Own files with tags: repair reads an I- that continues nothing as B-."
    )
    cut: Annotated[float, Field(gt=0, lt=1)] | dict[str, float] | None = Field(
        None,
        description="Share of the training split to hold out as dev, or the share of each new split: "
        "{train: 0.8, dev: 0.1, test: 0.1}.",
    )
    dev_as_test: bool = Field(
        False,
        description="Report the published dev split as test, so that nothing is chosen by it; "
        "`cut` then makes dev, and without `cut` the last weights are kept.",
    )
    label_noise: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="Share of the training labels changed to another class: a control."
    )
    limit: dict[str, Count] = Field(
        default_factory=dict,
        description="Use at most this many examples of a split, drawn once for all runs.",
    )
    shared_head: str | None = Field(None, description="Tasks that name the same head share it.")
    evaluate_only: bool = Field(False, description="Never trained on: zero-shot transfer.")
    source: str | None = Field(None, description="The trained task whose head this one uses.")
    batch_size: Count | None = Field(None, description="Instead of train.batch_size.")
    weight: float = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="Its loss is multiplied by this before the method sees it.",
    )
    patience: Count | None = Field(
        None,
        description="Stop training on it after this many evaluations without a better score.",
    )
    metric: str | None = Field(
        None,
        description="The score by which weights are chosen and methods compared; default: the kind's "
        "first in `gradaccord list tasks`.",
    )
    clusters: Annotated[int, Field(ge=2)] | None = Field(
        None,
        description="Train on this many clusters of its examples, found by the encoder, as tasks.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"data": value}
        return with_files(value)

    @field_validator("labels", "columns", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        """Numbers of columns and classes that are numbers, as text."""
        if isinstance(value, dict):
            return {cls._as_text(key): cls._as_text(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [cls._as_text(inner) for inner in value]
        if isinstance(value, bool):
            raise ValueError("yes, no, on and off are true or false in YAML: put them in quotes")
        return str(value) if isinstance(value, int) else value

    @model_validator(mode="after")
    def _has_a_source(self) -> TaskConfig:
        if (self.data is None) == (self.files is None):
            raise ValueError("give either `data` (a known set) or `files` (your own)")
        if self.files is None and not str(self.data).startswith("hub:"):
            for name in ("labels", "columns"):
                if getattr(self, name) is not None:
                    raise ValueError(f"`{name}` belong to own `files`; a known set brings its own")
        if self.files is None:
            for name in FILE_KEYS:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"`{name}` is for own `files`: leave it out")
        if self.evaluate_only:
            for name in ("shared_head", "batch_size", "weight", "patience", "clusters", "label_noise"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(
                        f"`{name}` is for training, and the task is `evaluate_only`: leave one out"
                    )
        elif self.source is not None:
            raise ValueError("`source` is for tasks that are `evaluate_only`: leave it out")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The options of the task's kind."""
        metric = {} if self.metric is None else {"metric": self.metric}
        return {**(self.__pydantic_extra__ or {}), **metric}

    @property
    def reading(self) -> dict[str, Any]:
        """How own files are read, as options of `gradaccord.data.read`."""
        return {name: getattr(self, name) for name in ("columns", "labels", *FILE_KEYS)}


class MethodConfig(Named):
    """How gradients become an update; `gradaccord list methods` shows the names and options."""

    @field_validator("name")
    @classmethod
    def _canonical(cls, name: str) -> str:
        return canonical_method(name)


class SamplerConfig(_Spelled):
    """Which tasks a step takes: round_robin, sequential, proportional, uniform, weighted."""

    pairs: Literal["batches", "tasks"] | None = Field(
        None,
        description="For methods on pairs: two batches of one task, or two drawn tasks; default: tasks "
        "if the sampler draws several at once, else batches.",
    )


class RegularizerConfig(_Spelled):
    """A term added to every task's loss: smart or swep, with the options of the class."""


class OptimizerConfig(_Spelled):
    """sgd, adam, adamw, adafactor or recadam, with the options of the class."""


class WarmStartConfig(Section):
    """Train on one task alone before all others (the minBERT recipe)."""

    task: str = Field(description="Its name in `tasks`.")
    epochs: Positive = Field(1, description="Passes over its training data.")


class TrainConfig(Section):
    """How long, how fast, and what is kept. Give one of epochs, steps, gradients and seconds."""

    epochs: Positive | None = Field(
        None, description="Passes over all training data, counted in batches."
    )
    steps: Count | None = Field(None, description="Optimiser steps.")
    gradients: Count | None = Field(
        None, description="Batch gradients: the budget at which methods are compared fairly."
    )
    seconds: Positive | None = Field(
        None,
        description="Processor seconds of training, all threads and processes; on a GPU wall "
        "seconds. Evaluation and probes are not counted.",
    )
    batch_size: Count = Field(16, description="Examples in a task's batch.")
    micro_batches: Count = Field(1, description="Parts that a batch is computed in, to save memory.")
    optimizer: OptimizerConfig = Field(
        OptimizerConfig(name="adamw"), description="A name, or {name: ..., betas: ...}."
    )
    lr: Positive = Field(2e-5, description="The highest learning rate.")
    head_lr: Positive | None = Field(None, description="Learning rate of heads; default: lr.")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="How the rate falls to 0 after the warm-up, or constant."
    )
    warmup: Share = Field(0.1, description="Share of the run during which the rate rises.")
    clip: Positive | None = Field(1.0, description="Clip longer gradients to this length; null: never.")
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        "auto", description="auto: bf16 on a GPU that has it, else fp32."
    )
    compile: bool = Field(
        False,
        description="torch.compile the trunk: a minute or two at the start, faster steps on a GPU; "
        "not with `regularize` or FSDP2.",
    )
    checkpointing: bool = Field(
        False,
        description="Recompute activations inside the trunk's blocks in the backward pass: less "
        "memory, one more forward pass.",
    )
    evaluate_every: Share | Count = Field(
        0.25, description="Steps, or a share of the run, between evaluations on dev."
    )
    evaluation_batch_size: Count = Field(32, description="Examples in a batch of evaluation.")
    patience: Count | None = Field(
        None, description="Stop after this many evaluations without a better score."
    )
    save_every: Share | Count = Field(
        0.25, description="Steps, or a share of the run, between checkpoints."
    )
    keep: Count = Field(2, description="Checkpoints kept beside the best one.")
    warm_start: WarmStartConfig | None = Field(None, description="A task to train on first, alone.")
    seed: int = Field(0, description="Random seed of heads, batches, dropout and methods.")
    threads: Count | None = Field(None, description="Torch threads on the CPU; default: all cores.")
    log_with: list[Literal["tensorboard", "wandb", "mlflow", "trackio"]] = Field(
        default_factory=list, description="Trackers that also get the log, through Accelerate."
    )
    tensorboard: bool = Field(False, description="The same as log_with: tensorboard.")

    @field_validator("log_with", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @property
    def trackers(self) -> list[str]:
        """Every tracker once."""
        return list(dict.fromkeys([*self.log_with, *(["tensorboard"] if self.tensorboard else [])]))

    @model_validator(mode="after")
    def _one_length(self) -> TrainConfig:
        given = [n for n in ("epochs", "steps", "gradients", "seconds") if getattr(self, n) is not None]
        if len(given) > 1:
            raise ValueError(f"`{given[0]}` and `{given[1]}` both set the length: give one of them")
        return self


class ProbeConfig(Section):
    """What is measured beside the scores."""

    cosine: bool = Field(True, description="Cosines between the tasks' gradients, at each evaluation.")
    cosine_batches: Count | None = Field(
        None,
        description="Batches of each task that a cosine is measured on; default: a sixteenth of an "
        "epoch's, at least 2 and at most 8.",
    )
    distance: bool = Field(True, description="How far the trunk is from its pretrained weights.")
    masked_lm: dict[str, str] = Field(
        default_factory=dict,
        description="Name -> a text (data set or file of lines) whose masked-LM loss is measured.",
    )
    masked_lm_model: str | None = Field(
        None, description="The pretrained masked-LM checkpoint; default: the model's own."
    )
    errors: Count = Field(10, description="Worst examples kept for each task.")


class Config(Section):
    """The configuration of a run."""

    model: ModelConfig = ModelConfig(name="minilm")
    tasks: Annotated[dict[str, TaskConfig], Field(min_length=1)]
    method: MethodConfig = MethodConfig(name=BASELINE)
    regularize: list[RegularizerConfig] = Field(default_factory=list)
    sampler: SamplerConfig | None = Field(None, description="Default: what suits the method.")
    train: TrainConfig = TrainConfig()
    probe: ProbeConfig = ProbeConfig()
    data_folder: Path | None = Field(None, description="Default: --data, or $GRADACCORD_DATA.")

    @field_validator("regularize", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        if value is None or value == "none":
            return []
        return value if isinstance(value, list) else [value]

    @model_validator(mode="after")
    def _tasks_fit(self) -> Config:
        trained = [name for name, task in self.tasks.items() if not task.evaluate_only]
        if not trained:
            raise ValueError("every task is `evaluate_only`: train at least one")
        for name, task in self.tasks.items():
            if task.source is not None and task.source not in trained:
                raise ValueError(f"`source` of task {name!r} is {task.source!r}: name a trained task")
        warm = self.train.warm_start
        if warm is not None and warm.task not in trained:
            raise ValueError(f"`train.warm_start.task` is {warm.task!r}: name a trained task")
        return self

    def with_class(self) -> Config:
        """With a method that has a class: each single-task run of `stl` uses the baseline."""
        if self.method.name != SINGLE_TASK:
            return self
        return self.model_copy(update={"method": MethodConfig(name=BASELINE), "sampler": None})
