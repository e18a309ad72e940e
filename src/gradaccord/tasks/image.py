"""Classes of images: normalisation, random crops and flips, cross-entropy, accuracy and macro F1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn.functional import pad

from gradaccord.data.encoded import Batch, Encoded
from gradaccord.data.images import Images, Picture
from gradaccord.models.heads import layers
from gradaccord.models.images import ImageTrunk
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunk import Trunk
from gradaccord.tasks.class_logits import ClassLogits
from gradaccord.tasks.sequences import Layers, layer_sizes


@dataclass(frozen=True)
class ImageClassification(ClassLogits[Picture]):
    """One class of several for an image.

    labels: the classes' names, in the order of their numbers.
    mean, std: of each channel, in 0..1; images are normalised by them. One number serves all channels.
    crop: in training, images are padded by this many black pixels and cut at random to their size.
    flip: in training, half of the images are turned left to right.
    head: "linear", "hidden" (one layer as wide as the features) or a list of layer sizes.
    """

    labels: tuple[str, ...]
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.25,)
    crop: int = 0
    flip: bool = False
    head: Layers = "linear"
    dropout: float | None = None

    kind: ClassVar[str] = "image"
    metric: ClassVar[str] = "accuracy"

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise ValueError(f"`mean` has {len(self.mean)} values and `std` {len(self.std)}: one each.")
        if min(self.std) <= 0:
            raise ValueError(f"`std` is {self.std}: every value must be above 0.")
        if self.crop < 0:
            raise ValueError(f"`crop` is {self.crop}: it must be 0 or more pixels.")

    def encode(self, examples: Sequence[Picture], tokens: Tokens) -> Encoded:
        images = Images.of(examples)
        wrong = (images.labels < -1) | (images.labels >= len(self.labels))
        if wrong.any():
            place = int(wrong.nonzero()[0])
            raise ValueError(
                f"Image {place} has the label {int(images.labels[place])}: it must be one of "
                f"0..{len(self.labels) - 1}."
            )
        if len(self.mean) not in (1, images.images.shape[1]):
            raise ValueError(
                f"`mean` has {len(self.mean)} values and the images {images.images.shape[1]} channels: "
                "give one for each, or one for all."
            )
        return Encoded(
            ids=None,
            first=torch.arange(len(images) + 1, device="cpu"),
            example=torch.arange(len(images), device="cpu"),
            columns={"image": images.images, "label": images.labels},
        )

    def new_head(self, trunk: Trunk) -> nn.Module:
        if not isinstance(trunk, ImageTrunk):
            raise ValueError(
                f"An image task needs a network of images and the trunk is a {type(trunk).__name__}: "
                "choose 'resnet18' or 'conv4'."
            )
        return ImageHead(self, trunk)

    def decode(self, examples: Sequence[Picture], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        return [self.labels[int(logits.argmax())] for logits in rows]

    def gold(self, example: Picture) -> str | None:
        return None if example.label is None else self.labels[example.label]

    def score(self, examples: Sequence[Picture], predictions: Sequence[Any]) -> dict[str, float]:
        from sklearn.metrics import accuracy_score, f1_score

        from gradaccord.tasks.predictions import labelled

        gold, predicted = labelled(self, examples, predictions)
        f1 = f1_score(gold, predicted, average="macro", zero_division=0.0)
        return {"accuracy": 100 * float(accuracy_score(gold, predicted)), "f1": 100 * float(f1)}


class ImageHead(nn.Module):
    """Normalises (and in training crops and flips) the images, and reads the trunk's pooled state.

    Where to crop and what to flip is drawn from torch's global generator, as dropout's masks are: a
    loss that is computed again under the same random state sees the same images.
    """

    def __init__(self, task: ImageClassification, trunk: ImageTrunk) -> None:
        super().__init__()
        self.crop, self.flip = task.crop, task.flip
        self.register_buffer("mean", torch.tensor(task.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(task.std).view(1, -1, 1, 1), persistent=False)
        sizes = layer_sizes(task.head, trunk.hidden, pair=False)
        dropout = trunk.dropout if task.dropout is None else task.dropout
        self.layers = layers(trunk.hidden, len(task.labels), sizes, dropout)

    def forward(self, trunk: Trunk, batch: Batch) -> torch.Tensor:
        """[images, classes]."""
        images = batch["image"]
        if self.training:
            images = augmented(images, self.crop, self.flip)
        scaled = (images.to(self.mean.dtype) / 255 - self.mean) / self.std  # type: ignore[operator,arg-type]
        logits: torch.Tensor = self.layers(trunk({"image": scaled}).pooled)
        return logits


def augmented(images: torch.Tensor, crop: int, flip: bool) -> torch.Tensor:
    """Each image cut at random from itself padded by `crop`, and half of them flipped."""
    count, _, height, width = images.shape
    if not (crop or flip):
        return images
    device = images.device
    rows = torch.arange(height, device=device).expand(count, -1)
    columns = torch.arange(width, device=device).expand(count, -1)
    if crop:
        images = pad(images, (crop,) * 4)
        rows = rows + torch.randint(2 * crop + 1, (count, 1), device=device)
        columns = columns + torch.randint(2 * crop + 1, (count, 1), device=device)
    if flip:
        turned = torch.rand(count, 1, device=device) < 0.5
        columns = torch.where(turned, columns.flip(1), columns)
    which = torch.arange(count, device=device).view(-1, 1, 1)
    return images[which, :, rows.unsqueeze(2), columns.unsqueeze(1)].permute(0, 3, 1, 2)
