"""Classes of images: normalisation, random crops and flips, cross-entropy, accuracy and macro F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import interpolate, pad

from gradaccord.core.checks import whole_number
from gradaccord.data.encoded import Batch, Encoded
from gradaccord.data.images.labelled import Images, Picture
from gradaccord.models.heads import layers
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.images import ImageTrunk
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.kinds.class_logits import NamedClasses
from gradaccord.tasks.kinds.sequences import Layers, layer_sizes
from gradaccord.tasks.task import StartingFile


@dataclass(frozen=True)
class ImageClassification(NamedClasses[Picture]):
    """One class of several for an image.

    labels: the classes' names, in the order of their numbers.
    mean, std: of each channel, in 0..1; images are normalised by them. One number serves all channels.
    crop: in training, images are padded by this many black pixels and cut at random to their size.
    flip: in training, half of the images are mirrored left to right.
    head: "linear", "hidden" (one layer as wide as the features) or a list of layer sizes.
    size: height and width in pixels that images are resized to; None: as they are.
    """

    labels: tuple[str, ...]
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.25,)
    crop: int = 0
    flip: bool = False
    head: Layers = "linear"
    dropout: float | None = None
    size: int | None = None
    metric: Literal["accuracy", "f1"] = field(default="accuracy", repr=False)

    kind = "image"
    starting_file = StartingFile(
        "",
        ("first: {data: fashion-mnist}", "# second: {data: mnist}"),
        "resnet18                # or conv4; fresh weights",
    )

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise ValueError(
                f"`mean` has {len(self.mean)} values and `std` {len(self.std)}: give as many of both."
            )
        if min(self.std) <= 0:
            raise ValueError(f"`std` is {self.std}: every value must be above 0.")
        if self.size is not None:
            whole_number("size", self.size, hint=", in pixels")
        whole_number("crop", self.crop, 0, hint=", in pixels")

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
            columns={"image": resized(images.images, self.size), "label": images.labels},
        )

    def new_head(self, trunk: Trunk) -> nn.Module:
        if not isinstance(trunk, ImageTrunk):
            raise ValueError(
                f"An image task needs a network of images and the trunk is a {type(trunk).__name__}: "
                "choose 'resnet18' or 'conv4'."
            )
        return ImageHead(self, trunk)

    def question_fields(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (), ()

    def checked_question(self, given: Any, where: str) -> Picture:
        if not isinstance(given, Picture):
            raise ValueError(
                f"{where}: an image task takes questions in Python only, as a "
                "`gradaccord.data.images.labelled.Picture`."
            )
        return given

    def sample_code(self, trunk: Mapping[str, Any]) -> tuple[str, list[str]]:
        size = trunk.get("size", 32)
        if not isinstance(size, int):
            raise ValueError(f"The model's `size` is {size!r}: it must be a whole number.")
        shape = f"{len(self.mean)}, {size}, {size}"
        imports = ["from gradaccord.data.images.labelled import Picture", "import torch"]
        return f"Picture(torch.zeros({shape}, dtype=torch.uint8), None)", imports


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


def resized(images: torch.Tensor, size: int | None) -> torch.Tensor:
    """Images of `size` by `size` pixels, antialiased; None: as they are."""
    if size is None or images.shape[-2:] == (size, size):
        return images
    parts = [
        interpolate(part.float(), (size, size), mode="bilinear", antialias=True).round().clamp(0, 255)
        for part in torch.split(images, 1000)
    ]
    return torch.cat([part.to(torch.uint8) for part in parts])


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
