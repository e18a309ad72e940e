"""AlignedMixin: what makes a Hugging Face Trainer train several tasks with a gradaccord method."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from gradaccord.core.losses import Loss, LossFn
from gradaccord.core.method import Method
from gradaccord.core.report import StepReport
from gradaccord.core.sharding import reshard
from gradaccord.data.samplers import TaskSampler
from gradaccord.integrations.data_loading import make_loader, make_step_sampler
from gradaccord.integrations.method_factory import MethodFactory
from gradaccord.integrations.resuming import NETWORK, ResumingMixin
from gradaccord.integrations.step_sampler import Part
from gradaccord.runs.launcher import fewer_than_asked
from gradaccord.runs.ranks import others_alive


class AlignedMixin(ResumingMixin):
    """Goes before a Trainer class: `class Mine(AlignedMixin, SFTTrainer)`. See `AlignedTrainer`.

    method: a name ("PCGrad"), a class, or a partial (`partial(DotProd, weight=0.1)`); any callable
        that takes the model and `engine=` will do. It is built when training begins, on the model as
        Accelerate wraps it; a trajectory method is also given the optimiser.
    method_options: keyword arguments of the method.
    train_dataset: a mapping from task name to data set, or one data set, which is then the task
        "train". One without a length is a stream: it is read in its own order, and `max_steps` sets
        how long. `per_device_train_batch_size` is the batch of one task.
    sampler: a `TaskSampler` that says which tasks a step takes. By default every task in every step;
        for trajectory methods one task, p_t ~ N_t^0.2; for methods on pairs (DotProd, PairedSum) two
        consecutive batches of one task, drawn in the same way (see `TaskPairs`, which also pairs
        tasks).
    regularize: SMART, SWEP, or a partial of them; built on the model.
    regularize_kind: SMART's `kind`, or one per task.
    data_collator, compute_metrics: one for all tasks, or a mapping with one for each.

    The loss of a task is `compute_loss(model, inputs)`, to be overridden as usual. While it runs,
    `self.task` is the task's name, and a model whose forward takes `task` is given that name. The loss
    must be a mean over its batch's items, as Hugging Face models return it: `count_items` counts them,
    so that the mean over all micro-batches and processes is exact.
    """

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *,
        method: str | Callable[..., Method] = "Sum",
        method_options: Mapping[str, Any] | None = None,
        sampler: TaskSampler | None = None,
        regularize: Callable[[nn.Module], Any] | None = None,
        regularize_kind: str | Mapping[str, str] = "classification",
        train_dataset: Any = None,
        data_collator: Any = None,
        compute_metrics: Any = None,
        **options: Any,
    ) -> None:
        self.method_factory = MethodFactory(method, method_options)
        self.task_sampler = sampler
        self.regularize = regularize
        self.regularize_kind = regularize_kind
        self.report: StepReport | None = None  # of the last step
        self.task: str | None = None  # whose loss is being computed
        self._held: list[Part] = []  # of this step's micro-batches
        self._sums: dict[str, tuple[float, int]] = {}  # of the reports since the last log
        self._examples = 0  # trained on in this call of `train`, over all processes
        self._data_layout = {}
        self._collators = data_collator if isinstance(data_collator, Mapping) else {}
        self._metrics_of = compute_metrics if isinstance(compute_metrics, Mapping) else {}
        self._given = dict(train_dataset) if isinstance(train_dataset, Mapping) else {}
        if isinstance(train_dataset, Mapping) and not self._given:
            raise ValueError("`train_dataset` is an empty mapping: give at least one task.")
        self._prepared: dict[str, Any] = {}
        first = next(iter(self._given.values()), train_dataset)
        takes_one = hasattr(super(), "_prepare_dataset")  # TRL's trainers prepare a single data set
        for name, value in (
            ("data_collator", next(iter(self._collators.values()), data_collator)),
            ("compute_metrics", next(iter(self._metrics_of.values()), compute_metrics)),
        ):
            if value is not None:
                options[name] = value
        super().__init__(
            model=model, args=args, train_dataset=first if takes_one else train_dataset, **options
        )
        if takes_one and self._given:
            self.train_dataset = self._prepared or self._given
        from gradaccord.integrations.callback import MethodCallback

        self.add_callback(MethodCallback(self))

    # What a user may override

    def count_items(self, inputs: Mapping[str, Any]) -> int | None:
        """The number of items that a batch's loss is the mean of: labels other than -100, or examples.

        None: unknown, and all micro-batches of the task count alike.
        """
        labels = inputs.get("shift_labels")
        if labels is None:
            labels = inputs.get("labels")
            if isinstance(labels, torch.Tensor) and self._loss_shifts_labels:
                labels = labels[..., 1:]
        if isinstance(labels, torch.Tensor):
            return int((labels != -100).sum())
        return next(
            (len(v) for v in inputs.values() if isinstance(v, torch.Tensor) and v.ndim > 0), None
        )

    def regularized(self, forward: Callable[[], Any], task: str, inputs: Mapping[str, Any]) -> LossFn:
        """The regularised loss of a batch; `forward` returns ((loss, items), outputs)."""
        about: dict[str, Any] = {}
        assert self.regularizer is not None
        if self.regularizer.compares_outputs:
            kinds = self.regularize_kind
            about["kind"] = kinds if isinstance(kinds, str) else kinds[task]
            about["mask"] = inputs.get("attention_mask")
        return self.regularizer.loss(forward, task=task, **about)

    # Data

    @property
    def task_datasets(self) -> dict[str, Any]:
        """The training data of each task."""
        data: Any = self.train_dataset
        return dict(data) if isinstance(data, Mapping) else {"train": data}

    def get_train_dataloader(self) -> Any:
        """A loader of micro-batches, each a list with one `Part` for every task of the step."""
        if self.train_dataset is None:
            raise ValueError("Training needs a `train_dataset`: give a mapping from task to data set.")
        tasks = self.task_datasets
        sampler, self._data_layout = make_step_sampler(self, tasks)
        return make_loader(self, tasks, self._collators, sampler)

    def _prepare_dataset(self, dataset: Any, *args: Any, **options: Any) -> Any:
        prepare: Any = super()._prepare_dataset  # type: ignore[misc]
        if not self._given or self._prepared or dataset is not next(iter(self._given.values())):
            return prepare(dataset, *args, **options)
        self._prepared = {task: prepare(data, *args, **options) for task, data in self._given.items()}
        return next(iter(self._prepared.values()))

    # Training

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **options: Any) -> Any:
        """As in every Trainer."""
        self._held = []
        self._sums = {}
        self._examples = 0
        return super().train(resume_from_checkpoint, *args, **options)

    def create_optimizer(self, *args: Any, **options: Any) -> Any:
        """As in every Trainer; SWEP's network is trained with the model."""
        built = self.regularizer is not None and self.regularizer.model is self.model
        if self.regularize is not None and not built:
            self.regularizer = self.regularize(self.model)
        network = self._network
        if network is not None:
            self.model.add_module(NETWORK, network)
        optimizer = super().create_optimizer(*args, **options)
        if network is not None:
            held = {id(p) for group in optimizer.param_groups for p in group["params"]}
            new = [p for p in network.parameters() if id(p) not in held]
            if new:  # the optimiser is the user's own
                optimizer.add_param_group({"params": new})
        return optimizer

    def _build_method(self) -> None:
        missing = fewer_than_asked(self.args.world_size)
        if missing is not None:
            warnings.warn(missing, stacklevel=2)
        if self.args.n_gpu > 1:
            raise ValueError(
                f"{self.args.n_gpu} devices are used by one process (nn.DataParallel), which does "
                "not expose the gradients of single tasks: start one process each with torchrun or "
                "accelerate launch."
            )
        if getattr(self.args, "activation_offloading", False):
            raise ValueError(
                "`activation_offloading` is on, whose hooks expect one backward pass a step: leave it "
                "out, or use `gradient_checkpointing`."
            )
        self._check_fsdp()
        self.method = self.method_factory.build(self.model_wrapped, self.optimizer, self.accelerator)
        self._load_method()

    def _check_fsdp(self) -> None:
        if not self.is_fsdp_enabled:
            if self.args.fsdp and self.args.world_size > 1:
                warnings.warn(
                    f"`fsdp` is on, and Accelerate runs {self.accelerator.distributed_type.value}, as "
                    "it does without a GPU: every process holds the whole model (DDP).",
                    stacklevel=2,
                )
        elif getattr(self.accelerator.state.fsdp_plugin, "fsdp_version", 1) != 2:
            raise ValueError(
                "`fsdp` is on with version 1, which does not expose the gradients of single tasks: set "
                "fsdp_config={'version': 2}."
            )
        elif self._network is not None:
            raise ValueError(
                f"`fsdp` is on, and `regularize` {type(self.regularizer).__name__} trains a network of "
                "its own, which would be sharded with the model: use DDP, or another regulariser."
            )

    def _finish(self) -> None:
        """End a trajectory with the steps it has; a batch that waited for its pair is stepped on."""
        if self.method.finish():
            optimizer: Any = self.optimizer
            optimizer.step()
            optimizer.zero_grad()

    def _detach_network(self) -> None:
        if NETWORK in self.model._modules:
            del self.model._modules[NETWORK]

    def training_step(
        self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Keep a micro-batch; with the last one of the step, let the method fill `.grad`."""
        self._held.extend(inputs)
        self._examples += sum(part.examples for part in inputs)
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        model.train()
        train_mode = getattr(self.optimizer, "train", None)
        if callable(train_mode):  # schedule-free optimisers
            train_mode()
        held, self._held = self._held, []
        losses: dict[str, list[LossFn]] = {}
        for part in held:
            batch: Any = self._prepare_inputs(part.inputs)
            items = self.count_items(batch)
            if items != 0:  # a batch whose labels are all -100 has no mean
                losses.setdefault(part.name, []).append(self._loss(model, part.task, batch, items))
        if not losses:
            raise ValueError(
                f"Step {self.state.global_step + 1} has no item to learn from: the labels of all its "
                "batches are -100."
            )
        with others_alive(self.accelerator, "continue with `resume_from_checkpoint`"):
            self.report = self.method.backward(losses)
        self._note(self.report)
        return self.report.losses.mean().to(device=self.args.device, dtype=torch.float32)

    def _loss(self, model: nn.Module, task: str, inputs: Any, items: int | None) -> LossFn:
        forward = partial(self._forward, model, task, inputs, items)
        if self.regularizer is None:
            return forward
        return self.regularized(partial(forward, outputs=True), task, inputs)

    def _forward(
        self, model: nn.Module, task: str, inputs: Any, items: int | None, outputs: bool = False
    ) -> Any:
        """(mean loss, items) of a batch as if it were a step of its own, and the outputs if wanted."""
        given = self._with_task(dict(inputs), task)  # a copy: `compute_loss` may take labels out
        with self._on(task), self._alone(), self.compute_loss_context_manager():
            count = self._get_num_items_in_batch([given], self.args.device)
            more = {"return_outputs": True} if outputs else {}
            found: Any = self.compute_loss(model, given, num_items_in_batch=count, **more)
        loss = found[0] if outputs else found
        weighed: Loss = loss if items is None else (loss, items)
        return (weighed, found[1]) if outputs else weighed

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A block in which a loss is not scaled for other micro-batches or processes."""
        steps = getattr(self, "current_gradient_accumulation_steps", 1)  # none before training
        before = self.args.average_tokens_across_devices, steps
        self.args.average_tokens_across_devices, self.current_gradient_accumulation_steps = False, 1
        try:
            yield
        finally:
            self.args.average_tokens_across_devices, self.current_gradient_accumulation_steps = before

    @contextmanager
    def _on(self, task: str | None) -> Iterator[None]:
        """A block that is about one task."""
        before = self.task, self.data_collator, self.compute_metrics
        if task is not None:
            self.task = task
            self.data_collator = self._collators.get(task, self.data_collator)
            self.compute_metrics = self._metrics_of.get(task, self.compute_metrics)
        try:
            yield
        finally:
            self.task, self.data_collator, self.compute_metrics = before

    def _with_task(self, inputs: Any, task: str | None) -> Any:
        """The inputs with the task's name, for a model that takes it."""
        if task is None:
            return inputs
        model: Any = self.model
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        if "task" not in inspect.signature(base.forward).parameters:
            return inputs
        return {**inputs, "task": task}

    def floating_point_ops(self, inputs: Any) -> Any:
        """As in every Trainer, over the tasks of a micro-batch."""
        if isinstance(inputs, list):
            return sum(self.floating_point_ops(part.inputs) for part in inputs)
        return super().floating_point_ops(inputs)

    def _track_num_input_tokens(self, inputs: Any) -> None:
        track: Any = super()._track_num_input_tokens
        for given in [part.inputs for part in inputs] if isinstance(inputs, list) else [inputs]:
            track(given)

    # Logging

    def _note(self, report: StepReport) -> None:
        floats = report.to_floats()
        if self.regularizer is not None:
            floats |= self.regularizer.to_floats()
        for key, value in floats.items():
            if not math.isnan(value):
                total, count = self._sums.get(key, (0.0, 0))
                self._sums[key] = total + value, count + 1

    def log(self, logs: dict[str, float], *args: Any, **options: Any) -> None:
        """As in every Trainer, with the mean of the steps' reports since the last log."""
        if "loss" in logs:
            logs |= {key: total / count for key, (total, count) in self._sums.items()}
            self._sums = {}
        if "train_samples_per_second" in logs:  # a Trainer supposes one batch a step
            logs["train_samples_per_second"] = round(self._examples / logs["train_runtime"], 3)
        super().log(logs, *args, **options)

    # Evaluation

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """As in every Trainer, at the outer weights of a trajectory method."""
        named = isinstance(eval_dataset, str)
        task = eval_dataset if named else self._task_in(metric_key_prefix)
        with self._outer_weights(), self._on(task):
            found: dict[str, float] = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
            reshard(self.model)  # before the outer weights leave again
        return found

    def predict(
        self, test_dataset: Any, ignore_keys: Any = None, metric_key_prefix: str = "test"
    ) -> Any:
        """As in every Trainer; the prefix "test_<task>" says which task it is."""
        with self._outer_weights(), self._on(self._task_in(metric_key_prefix)):
            found = super().predict(test_dataset, ignore_keys, metric_key_prefix)
            reshard(self.model)
        return found

    def prediction_step(self, model: nn.Module, inputs: Any, *args: Any, **options: Any) -> Any:
        """As in every Trainer; a model that takes `task` is given it."""
        # A stock Trainer's loss grows with the number of processes if the model takes any keyword.
        with self._alone():
            return super().prediction_step(model, self._with_task(inputs, self.task), *args, **options)

    def _task_in(self, prefix: str) -> str | None:
        return next((t for t in self.task_datasets if prefix.endswith(f"_{t}")), self.task)
