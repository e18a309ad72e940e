"""`glyphs`: few-shot characters with no download, drawn from the fonts that matplotlib ships.

A class is a letter or digit of some script (Latin, Greek, Cyrillic, Armenian, Georgian, Hebrew, Arabic,
Lao, Canadian syllabics and others); its 20 samples come from four to sixteen faces, each turned,
sheared, stretched, bent and with strokes made thicker or thinner. Letters that look alike (A in three
alphabets, o and O) are one class. Omniglot's protocol and shape: 28x28, ink 255 on 0, split by code
point. It is easier than Omniglot: type varies less than handwriting. The same on every machine with
the same fonts and FreeType.
"""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from gradaccord.data.files.tensor_cache import Kept, cached
from gradaccord.data.images.class_folders import ImageClasses, require_pillow
from gradaccord.data.images.class_parts import ClassSplits, divide

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

SAMPLES = 20
SPLIT = (0.7, 0.1, 0.2)  # of the classes, to train, validate, test
PAPER = 160  # pixels that a letter is set on, at FONT_SIZE
FONT_SIZE = 56
CANVAS = 56  # pixels of the drawing before it is scaled down
BOX = 36  # pixels that the longer side of a letter fills
FEWEST_FACES = 4
ALIKE = 0.92  # correlation of two blurred letters from which on they are one class
FACES = tuple(
    [f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")]
    + [f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")]
    + [f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")]
    + [f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")]
)
CATEGORIES = frozenset({"Lu", "Ll", "Lo", "Nd"})  # letters with and without case, digits
VERSION = "1"


def load(*, size: int = 28, rotations: bool = False, seed: int = 0) -> ClassSplits:
    """The set, split by code point: 70 / 10 / 20 % of the classes.

    size: of the images, in pixels. rotations: training classes turned by quarters as new classes.
    seed: of samples and split. The first call takes some seconds, later ones read the cache.
    """
    return divide("glyphs", draw(size=size, seed=seed), SPLIT, rotations=rotations, seed=seed)


def draw(*, size: int = 28, seed: int = 0) -> ImageClasses:
    """All classes, `SAMPLES` images each; names are the characters themselves."""
    if not 8 <= size <= CANVAS:
        raise ValueError(f"`size` is {size}: the letters are drawn for 8 to {CANVAS} pixels.")
    require_pillow()
    depends_on = f"{VERSION} {size} {seed} {_versions()}"
    tensors, texts = cached("glyphs", depends_on, lambda: _make(size, seed))
    return ImageClasses(tensors["images"], tensors["labels"], tuple(json.loads(texts["names"])))


def _versions() -> str:
    from importlib.metadata import version

    from PIL import features

    _fonts_folder()  # says how to get matplotlib if it is missing
    return f"{version('matplotlib')} {features.version('freetype2')} {torch.__version__}"


def _fonts_folder() -> Path:
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'The glyphs are drawn from the fonts of matplotlib: pip install "gradaccord[report]".',
            name="matplotlib",
        ) from error
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def _make(size: int, seed: int) -> Kept:
    generator = torch.Generator().manual_seed(seed)
    letters, drawn, faces = _letters()
    places = torch.stack([_faces_of_samples(len(drawn[letter]), generator) for letter in letters])
    starts = torch.tensor([faces[letter] for letter in letters], device="cpu")
    pictures = torch.cat([torch.stack(drawn[letter]) for letter in letters])
    chosen = (starts[:, None] + places).flatten()
    images = torch.cat(
        [_vary(pictures[rows].float() / 255, size, generator) for rows in torch.split(chosen, 2048)]
    )
    labels = torch.arange(len(letters), device="cpu").repeat_interleave(SAMPLES)
    return {"images": images, "labels": labels}, {"names": json.dumps(letters)}


def _letters() -> tuple[list[str], dict[str, list[torch.Tensor]], dict[str, int]]:
    """Letters that look unlike, their pictures in each face, and where these start in a row of all."""
    from matplotlib.ft2font import FT2Font
    from PIL import ImageFont

    folder = _fonts_folder()
    paths = [folder / f"{face}.ttf" for face in FACES]
    fonts = [
        (set(FT2Font(str(path)).get_charmap()), ImageFont.truetype(path, FONT_SIZE)) for path in paths
    ]
    points = sorted(set().union(*(points for points, _ in fonts)))
    drawn: dict[str, list[torch.Tensor]] = {}
    for point in points:
        letter = chr(point)
        # No accents and no variants of other letters: they would differ from them by a dot.
        if unicodedata.category(letter) not in CATEGORIES or unicodedata.decomposition(letter):
            continue
        having = [font for points, font in fonts if point in points]
        if len(having) >= FEWEST_FACES:
            drawn[letter] = [_picture(letter, font) for font in having]
    letters = _unlike(drawn)
    starts, total = {}, 0
    for letter in letters:
        starts[letter] = total
        total += len(drawn[letter])
    return letters, drawn, starts


def _picture(letter: str, font: FreeTypeFont) -> torch.Tensor:
    """A letter in the middle of the canvas, its longer side `BOX` pixels: uint8 [CANVAS, CANVAS]."""
    from PIL import Image, ImageDraw

    paper = Image.new("L", (PAPER, PAPER))
    ImageDraw.Draw(paper).text((PAPER // 2, PAPER // 2), letter, fill=255, font=font, anchor="mm")
    canvas = Image.new("L", (CANVAS, CANVAS))
    ink = paper.getbbox()
    if ink is not None:
        letter_alone = paper.crop(ink)
        scale = BOX / max(letter_alone.size)
        fit = letter_alone.resize([max(1, round(side * scale)) for side in letter_alone.size])
        canvas.paste(fit, ((CANVAS - fit.width) // 2, (CANVAS - fit.height) // 2))
    return torch.frombuffer(bytearray(canvas.tobytes()), dtype=torch.uint8).view(CANVAS, CANVAS)


def _unlike(drawn: dict[str, list[torch.Tensor]]) -> list[str]:
    """The letters that look like none before them."""
    letters = list(drawn)
    looks = torch.stack([drawn[letter][0] for letter in letters]).float().unsqueeze(1)
    looks = F.avg_pool2d(looks, 5, stride=3, padding=2).flatten(1)
    looks = looks - looks.mean(1, keepdim=True)
    norms = looks.norm(dim=1, keepdim=True)
    similar = (looks / norms.clamp_min(1e-6)) @ (looks / norms.clamp_min(1e-6)).T
    kept: list[int] = []
    for i in range(len(letters)):
        if norms[i] > 0 and (not kept or float(similar[i, kept].max()) < ALIKE):
            kept.append(i)
    return [letters[i] for i in kept]


def _faces_of_samples(faces: int, generator: torch.Generator) -> torch.Tensor:
    """Every face about equally often, in random order."""
    rounds = -(-SAMPLES // faces)
    orders = [torch.randperm(faces, generator=generator, device="cpu") for _ in range(rounds)]
    return torch.cat(orders)[:SAMPLES]


def _vary(pictures: torch.Tensor, size: int, generator: torch.Generator) -> torch.Tensor:
    """Strokes, turn, shear, stretch, shift, bend: [n, CANVAS, CANVAS] -> uint8 [n, 1, size, size]."""
    count = len(pictures)

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=generator, device="cpu")

    x = pictures.unsqueeze(1)
    thick, thin = F.max_pool2d(x, 3, 1, 1), -F.max_pool2d(-x, 3, 1, 1)
    change = uniform(-0.7, 1.0, 1, 1, 1)
    x = torch.where(change > 0, x + change * (thick - x), x - change * (thin - x))

    angle, shear = uniform(-0.25, 0.25), uniform(-0.25, 0.25)
    stretch = torch.exp(uniform(-0.18, 0.18, 2))
    cos, sin = angle.cos(), angle.sin()
    turn = torch.stack([cos, -sin, sin, cos], 1).view(-1, 2, 2)
    one, zero = torch.ones_like(shear), torch.zeros_like(shear)
    lean = torch.stack([one, shear, zero, one], 1).view(-1, 2, 2)
    linear = (turn @ lean) * stretch[:, None, :]
    affine = torch.cat([linear, uniform(-0.12, 0.12, 2, 1)], 2)
    grid = F.affine_grid(affine, [count, 1, size, size], align_corners=False)
    bend = F.interpolate(uniform(-0.09, 0.09, 2, 5, 5), (size, size), mode="bicubic")
    blur = CANVAS // size // 2  # before it is sampled at `size` points, so that no stroke is missed
    x = F.avg_pool2d(x, 2 * blur + 1, 1, blur)
    x = F.grid_sample(x, grid + bend.permute(0, 2, 3, 1), align_corners=False)
    x = x / x.amax((1, 2, 3), keepdim=True).clamp_min(0.1)  # thin strokes are as bright as thick ones
    return (x * 255).round().clamp(0, 255).to(torch.uint8)
