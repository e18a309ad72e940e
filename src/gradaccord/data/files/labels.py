"""Labels as files write them turned into class numbers, with an error that says where and what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradaccord.data.files.dialect import is_number
from gradaccord.data.files.text_files import File, at


class Classes:
    """The class numbers of one set.

    names: of the classes, in the order of their numbers. A file may write a class as its name, its
    number ("1", 1, 1.0), or as one of `spellings`, which gives a class name for each. Where a name is
    itself a number (stars from 1 to 5), and where `by_number` is False, only names are read: "1" is
    then the class of that name.
    """

    def __init__(
        self,
        names: Sequence[str],
        spellings: Mapping[str, str] | None = None,
        *,
        by_number: bool = True,
    ) -> None:
        self.names = tuple(names)
        self.numbers: dict[str, int] = {}
        self._spelled = () if by_number else tuple(spellings or ())
        self._numbered = not by_number or any(map(is_number, self.names))
        for number, name in enumerate(self.names):
            written = name if self._numbered else str(number)
            for spelling in (written, f"{written}.0", name):
                self.numbers[spelling] = number
        for spelling, name in (spellings or {}).items():
            self.numbers[spelling] = self.numbers[f"{spelling}.0"] = self.names.index(name)

    def number(self, label: object, file: File | str, line: int) -> int:
        """The number of a class; a label that is none of them is an error."""
        written = str(label).lower() if isinstance(label, bool) else str(label).strip()
        try:
            return self.numbers[written]
        except KeyError:
            known = ", ".join(self._spelled or self.names)
            if not self._numbered:
                known = f"0..{len(self.names) - 1} or {known}"
            raise ValueError(
                f"{at(file, line)}: the label {written!r} is not one of {known}."
            ) from None


def value(label: object, file: File | str, line: int) -> float:
    """A number as the target of a regression."""
    try:
        found = float(str(label))
    except ValueError:
        raise ValueError(f"{at(file, line)}: the value {repr(label)[:60]} is not a number.") from None
    if found != found or found in (float("inf"), float("-inf")):
        raise ValueError(f"{at(file, line)}: the value {repr(label)[:60]} is not a finite number.")
    return found
