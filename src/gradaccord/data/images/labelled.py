"""Labelled images in two tensors: the examples of a data set of the kind "image"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import torch

from gradaccord.data.images.class_folders import ImageClasses


class Picture(NamedTuple):
    """One image, uint8 [channels, height, width], and its class (None: not labelled)."""

    image: torch.Tensor
    label: int | None

    # What else every example has (`gradaccord.data.examples`); pictures have no text.
    id = leak_key = shown = ""  # type: ignore[misc]

    @property
    def cut_key(self) -> bytes:
        """The same picture twice stays in one split."""
        return self.image.numpy().tobytes()

    @property
    def group_key(self) -> None:
        """None: each is scored on its own."""
        return None

    @property
    def labelled(self) -> bool:
        """Whether its class is known."""
        return self.label is not None


@dataclass(frozen=True, eq=False)
class Images(Sequence[Picture]):
    """Images of one size. labels: int64 [N], -1 where there is none."""

    images: torch.Tensor  # uint8 [N, channels, height, width]
    labels: torch.Tensor

    def __post_init__(self) -> None:
        if self.images.dim() != 4 or self.images.dtype != torch.uint8:
            shape = tuple(self.images.shape)
            raise ValueError(
                f"`images` is {self.images.dtype} of shape {shape}: it must be uint8 [N, channels, "
                "height, width]."
            )
        if len(self.labels) != len(self.images):
            raise ValueError(
                f"There are {len(self.labels)} labels for {len(self.images)} images: give one each."
            )

    @classmethod
    def of(cls, pictures: Sequence[Picture] | ImageClasses) -> Images:
        """Pictures in a list, or images read from class folders, as tensors."""
        if isinstance(pictures, cls):
            return pictures
        if isinstance(pictures, ImageClasses):
            return cls(pictures.images, pictures.labels)
        labels = [-1 if picture.label is None else int(picture.label) for picture in pictures]
        images = [picture.image for picture in pictures]
        sizes = {tuple(image.shape) for image in images}
        if len(sizes) != 1:
            raise ValueError(f"The images have {len(sizes)} different sizes: give images of one size.")
        return cls(torch.stack(images), torch.tensor(labels, device="cpu"))

    def __len__(self) -> int:
        return len(self.images)

    @overload
    def __getitem__(self, place: int) -> Picture: ...

    @overload
    def __getitem__(self, place: slice) -> Images: ...

    def __getitem__(self, place: int | slice) -> Picture | Images:
        if isinstance(place, slice):
            return Images(self.images[place], self.labels[place])
        label = int(self.labels[place])
        return Picture(self.images[place], None if label < 0 else label)

    def part(self, places: Iterable[int] | torch.Tensor) -> Images:
        """Some of the images, in the order given."""
        chosen = places if isinstance(places, torch.Tensor) else torch.tensor([*places], device="cpu")
        return Images(self.images[chosen], self.labels[chosen])

    def statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of each channel, in 0..1: what a model's input is scaled by."""
        counts = torch.stack(
            [torch.bincount(c.flatten(), minlength=256) for c in self.images.unbind(1)]
        )
        shares = counts.double() / counts.sum(1, keepdim=True)
        values = torch.arange(256, dtype=torch.float64, device="cpu") / 255
        mean = shares @ values
        spread = (shares @ values.square() - mean.square()).clamp_min(0).sqrt()
        return tuple(mean.tolist()), tuple(max(s, 1e-6) for s in spread.tolist())
