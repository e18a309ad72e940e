"""Labelled images in two tensors, and the published sets of them by name.

fashion = load("fashion-mnist", "data/fashion_mnist")      # a Dataset of the kind "image"
fashion.split("train").images                              # uint8 [10000, 1, 28, 28]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import torch

from gradaccord.data.dataset import Dataset
from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.data.images.idx import read_idx

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip


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
            raise ValueError(f"The images have {len(sizes)} different sizes: give some, of one size.")
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


def load(name: str, folder: str | Path) -> Dataset:
    """A published set, as it lies in a folder.

    name: "mnist", "fashion-mnist", "cifar10", "cifar100" or "svhn". The dataset's options hold the mean
    and the standard deviation of its training images, by which a task normalises.
    """
    if name not in READERS:
        raise ValueError(f"`name` is {name!r}: use one of {', '.join(READERS)}.")
    folder = Path(folder)
    if not folder.exists():
        raise ValueError(f"{folder} does not exist: give the folder that {name} lies in.")
    splits, labels = READERS[name](folder)
    return as_dataset(name, splits, labels)


def as_dataset(name: str, splits: dict[str, Images], labels: tuple[str, ...]) -> Dataset:
    """Images as a data set of the kind "image", with what they are to be normalised by."""
    mean, spread = splits.get("train", next(iter(splits.values()))).statistics()
    options: dict[str, Any] = {"mean": mean, "std": spread}
    return Dataset(name, "image", splits, labels, options=options)


Read = tuple[dict[str, Images], tuple[str, ...]]


def _idx(labels: tuple[str, ...]) -> Callable[[Path], Read]:
    def read(folder: Path) -> Read:
        splits = {}
        for split, start in (("train", "train"), ("test", "t10k")):
            images, numbers = (_one(folder, f"{start}*{what}*") for what in ("images", "labels"))
            if images is not None and numbers is not None:
                splits[split] = Images(read_idx(images).unsqueeze(1), read_idx(numbers).long())
        if not splits:
            raise ValueError(
                f"{folder} holds no idx files: expected train-images-idx3-ubyte and "
                "train-labels-idx1-ubyte, plain or gzipped."
            )
        return splits, labels

    return read


def _one(folder: Path, pattern: str) -> Path | None:
    return next((path for path in sorted(folder.glob(pattern)) if path.is_file()), None)


def _cifar(classes: int) -> Callable[[Path], Read]:
    def read(folder: Path) -> Read:
        from gradaccord.data.images.cifar import read_cifar

        splits, labels = read_cifar(folder, classes)
        return {split: Images(images, numbers) for split, (images, numbers) in splits.items()}, labels

    return read


def _svhn(folder: Path) -> Read:
    from gradaccord.data.images.svhn import read_svhn

    found = {split: folder / f"{split}_32x32.mat" for split in ("train", "test", "extra")}
    splits = {split: Images(*read_svhn(path)) for split, path in found.items() if path.is_file()}
    if not splits:
        raise ValueError(f"{folder} holds no train_32x32.mat: fetch SVHN's cropped digits (format 2).")
    return splits, DIGITS


READERS: dict[str, Callable[[Path], Read]] = {
    "mnist": _idx(DIGITS),
    "fashion-mnist": _idx(CLOTHES),
    "cifar10": _cifar(10),
    "cifar100": _cifar(100),
    "svhn": _svhn,
}
