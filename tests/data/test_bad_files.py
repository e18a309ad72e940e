"""`files.bad_files`: what a library raises becomes a sentence; sentences of ours stay."""

from __future__ import annotations

import zlib

import pytest

from gradaccord.core.options import OptionError
from gradaccord.data.files.bad_files import reading, reason


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"), TypeError("a\nb"), RecursionError("too deep"), zlib.error("bad"), MemoryError(),
        NotImplementedError("that compression"), RuntimeError("encrypted."), OverflowError("9" * 5000),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), OSError(5, "Input/output error", "a.csv"),
        ValueError("not enough values to unpack (expected 2, got 1)"), ValueError("two\nlines."),
    ],
)  # fmt: skip
def test_any_exception_is_one_sentence_with_file_and_remedy(error):
    with pytest.raises(ValueError) as caught, reading("a.csv", "mend it"):
        raise error
    sentence = str(caught.value)
    assert sentence.startswith(f"a.csv cannot be read ({type(error).__name__}")
    assert sentence.endswith("): mend it.")
    assert "\n" not in sentence
    assert len(sentence) < 250
    assert caught.value.__cause__ is error


def test_our_own_sentences_stay_and_name_the_file():
    with pytest.raises(ValueError, match=r"^a.csv, line 3: no text\.$"), reading("a.csv"):
        raise ValueError("a.csv, line 3: no text.")
    with pytest.raises(ValueError, match=r"^a.csv: `x` is 1: use 2\.$"), reading("a.csv"):
        raise OptionError("x", "`x` is 1: use 2.")
    with pytest.raises(ValueError) as caught, reading("a.csv"):
        raise ValueError(f"a.csv: there is no {'x' * 9999}: the columns are a, b.")
    assert len(str(caught.value)) < 750
    assert str(caught.value).endswith("the columns are a, b.")


@pytest.mark.parametrize("error", [ModuleNotFoundError("pip install x"), KeyboardInterrupt()])
def test_what_is_no_fault_of_the_file_passes(error):
    with pytest.raises(type(error)) as caught, reading("a.csv"):
        raise error
    assert caught.value is error


def test_a_reason_is_short_and_in_one_line():
    assert reason(KeyError()) == "KeyError"
    assert reason(OSError(28, "No space left on device", "x")) == "OSError: No space left on device"
