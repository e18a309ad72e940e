"""Tests mirror the source: <room>/[<sub>/]<module>.py is tested in tests/<room>/test_<module>.py.

Or all of <sub>/ in tests/<room>/test_<sub>.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gradaccord

SOURCE, TESTS = Path(gradaccord.__file__).parent, Path(__file__).parent
MODULES = sorted(
    path.relative_to(SOURCE).as_posix() for path in SOURCE.glob("*/**/*.py") if path.stem != "__init__"
)
# Module -> the test file that covers it, where that is another one.
ELSEWHERE = {
    "core/sharding.py": "distributed/test_fsdp.py",  # DTensors take seconds: one launch has them all
    "methods/regularize/regularizer.py": "methods/test_smart.py",  # abstract, without a line to run
}


def mirrored(module: str) -> bool:
    room, *folders, name = module.split("/")
    places = [Path(*folders, f"test_{name}"), *(Path(f"test_{folder}.py") for folder in folders)]
    if sum(other.startswith(f"{room}/") and other.endswith(f"/{name}") for other in MODULES) == 1:
        places.append(Path(f"test_{name}"))  # the only one of its name
    return any((TESTS / room / place).exists() for place in places)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_a_test_file(module: str) -> None:
    assert mirrored(module) or module in ELSEWHERE


@pytest.mark.parametrize("module", ELSEWHERE)
def test_the_list_of_exceptions_is_true(module: str) -> None:
    assert module in MODULES
    assert (TESTS / ELSEWHERE[module]).exists()
    assert not mirrored(module), "it has a test file of its own: take it off the list"
