"""Labelled images in one uint8 tensor, read from class folders or zip files.

birds = read_classes("birds.zip", size=84)          # .../<class>/<image>.jpg
birds.images, birds.labels, birds.names             # [images, channels, 84, 84], [images], class names
train, rest = birds.part(range(100)), birds.part(range(100, 200))
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from gradaccord.data.files.bad_files import reading
from gradaccord.data.files.tensor_cache import Kept, cached, fingerprint

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"}
)
# Decoding leaves Python's lock only inside the decoder: on files below this mean size (bytes) two
# threads were slower than one (28 and 84 pixels), above it faster.
WORTH_THREADS = 30_000
THREADS = 4
LAYOUT = "2"  # of the cached file; another number forgets the old ones


@dataclass(frozen=True)
class ImageClasses:
    """Images sorted by class.

    images: uint8 [images, channels, height, width]. labels: int64 [images], 0..classes-1, ascending.
    names: of the classes.
    """

    images: torch.Tensor
    labels: torch.Tensor
    names: tuple[str, ...]

    def __len__(self) -> int:
        """Number of classes."""
        return len(self.names)

    @property
    def counts(self) -> torch.Tensor:
        """Images of each class."""
        return torch.bincount(self.labels, minlength=len(self))

    def part(self, classes: Iterable[int]) -> ImageClasses:
        """Some of the classes, renumbered in the order given."""
        chosen = [int(c) for c in classes]
        for c in chosen:
            if not 0 <= c < len(self):
                raise ValueError(f"Class {c} does not exist: there are {len(self)}, numbered from 0.")
        ends = self.counts.cumsum(0).tolist()
        starts = [0, *ends[:-1]]
        rows = [torch.arange(starts[c], ends[c], device="cpu") for c in chosen]
        return ImageClasses(
            self.images[torch.cat(rows)] if rows else self.images[:0],
            torch.repeat_interleave(
                torch.tensor([len(r) for r in rows], dtype=torch.long, device="cpu")
            ),
            tuple(self.names[c] for c in chosen),
        )

    def with_rotations(self) -> ImageClasses:
        """Every class turned by 0, 90, 180 and 270 degrees as four classes: Omniglot's way."""
        turned = [self.images.rot90(quarter, (-2, -1)) for quarter in range(4)]
        names = [f"{name} {90 * q}°" if q else name for q in range(4) for name in self.names]
        labels = torch.cat([self.labels + quarter * len(self) for quarter in range(4)])
        return ImageClasses(torch.cat(turned), labels, tuple(names))


def parent_folder(path: PurePosixPath) -> str | None:
    """The class of `.../<class>/<image>`: the folder that the image is in."""
    return path.parent.name or None


def read_classes(
    source: str | Path | Sequence[str | Path],
    *,
    class_of: Callable[[PurePosixPath], str | None] = parent_folder,
    size: int | None = None,
    grey: bool = False,
    invert: bool = False,
    keep: bool = True,
) -> ImageClasses:
    """Read folders or zip files of images; the second time from the cache.

    source: a folder, a zip file, or several of them. class_of: class name of an image by its path
    inside the source, None to leave it out; images from several places may share a class. size:
    height and width in pixels that every image is resized to (antialiased); without it all must be of
    one size. grey: one channel instead of three (as always if no image has any colour).
    invert: 255 - x, for dark ink on white paper. keep: in the cache (see `files/tensor_cache.py`).
    """
    sources = [Path(s) for s in ([source] if isinstance(source, str | Path) else source)]
    for path in sources:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist: give a folder or a zip file of images.")
    make = partial(_decode_all, sources, class_of, size, grey, invert)
    if not keep:
        kept = make()
    else:
        rule = f"{class_of.__module__}.{class_of.__qualname__}"
        options = f"{LAYOUT} {rule} {size} {grey} {invert}"
        if "<lambda>" in rule or "<locals>" in rule:
            raise ValueError(
                "`class_of` is a lambda or an inner function, which the cache cannot tell from "
                "another: give a function of a module, or keep=False."
            )
        kept = cached("images", "\n".join([options, *map(fingerprint, sources)]), make)
    tensors, texts = kept
    return ImageClasses(tensors["images"], tensors["labels"], tuple(json.loads(texts["names"])))


Opened = tuple[str, PurePosixPath, Callable[[], bytes], int]  # shown name, path inside, content, bytes


def _files(source: Path) -> Iterator[Opened]:
    if source.is_dir():
        for path in sorted(source.rglob("*")):
            if path.suffix.lower() in SUFFIXES and path.is_file():
                inside = PurePosixPath(path.relative_to(source).as_posix())
                yield str(path), inside, path.read_bytes, path.stat().st_size
        return
    with reading(source, "give a folder or a whole zip file"):
        archive = zipfile.ZipFile(source)
    for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
        inside = PurePosixPath(entry.filename)
        # Archives made on a Mac hold a shadow "._name" beside each file.
        if inside.suffix.lower() in SUFFIXES and not inside.name.startswith("._"):
            yield f"{inside} in {source}", inside, partial(archive.read, entry), entry.file_size


def image_sizes(source: Path) -> set[tuple[int, int]]:
    """Every width and height that occurs in a folder or zip file; the images are not decoded."""
    image_module = require_pillow()
    found = set()
    with _only_honest_sizes():
        for shown, _, content, _ in _files(source):
            with (
                reading(f"Image {shown}", "repair or remove it"),
                image_module.open(io.BytesIO(content())) as picture,
            ):
                found.add(picture.size)
    return found


@contextmanager
def _only_honest_sizes() -> Iterator[None]:
    """A picture of more pixels than Pillow takes for honest is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", require_pillow().DecompressionBombWarning)
        yield


def _decode_all(
    sources: Sequence[Path],
    class_of: Callable[[PurePosixPath], str | None],
    size: int | None,
    grey: bool,
    invert: bool,
) -> Kept:
    by_class: dict[str, list[Opened]] = {}
    for source in sources:
        for file in _files(source):
            name = class_of(file[1])
            if name is not None:
                by_class.setdefault(name, []).append(file)
    names = sorted(by_class)
    files = [file for name in names for file in by_class[name]]
    if not files:
        raise ValueError(
            f"{', '.join(map(str, sources))} holds no image in a class folder: expected "
            "<class>/<image>.png or .jpg."
        )
    decode = partial(_decode, size=size, grey=grey)
    with _only_honest_sizes():
        if sum(file[3] for file in files) / len(files) > WORTH_THREADS:
            with ThreadPoolExecutor(THREADS) as pool:
                decoded = list(pool.map(decode, files))
        else:
            decoded = [decode(file) for file in files]
    for file, image in zip(files, decoded, strict=True):
        if image.shape != decoded[0].shape:
            raise ValueError(
                f"Image {file[0]} is {_pixels(image)}, and {files[0][0]} is {_pixels(decoded[0])}: "
                "give `size` to resize all to one."
            )
    images = torch.stack(decoded)
    if images.shape[1] == 3 and all(bool((i == i[:1]).all()) for i in decoded):
        images = images[:, :1].contiguous()  # no image has any colour
    labels = torch.repeat_interleave(
        torch.tensor([len(by_class[name]) for name in names], device="cpu")
    )
    return (
        {"images": 255 - images if invert else images, "labels": labels},
        {"names": json.dumps(names)},
    )


def _pixels(image: torch.Tensor) -> str:
    return f"{image.shape[-1]}x{image.shape[-2]}"


def _decode(file: Opened, *, size: int | None, grey: bool) -> torch.Tensor:
    image_module = require_pillow()
    shown, _, content, _ = file
    with (
        reading(f"Image {shown}", "repair or remove it"),
        image_module.open(io.BytesIO(content())) as picture,
    ):
        image = picture.convert("L" if grey else "RGB")
    if size is not None and image.size != (size, size):
        image = image.resize(
            (size, size), image_module.Resampling.BOX if grey else image_module.Resampling.LANCZOS
        )
    channels = 1 if grey else 3
    flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return flat.view(image.height, image.width, channels).permute(2, 0, 1).contiguous()


def require_pillow() -> Any:
    """The module PIL.Image; raises, with the remedy, if it is missing."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Reading images needs the package Pillow: pip install pillow.", name="PIL"
        ) from error
    return Image
