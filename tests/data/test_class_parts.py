"""`images.class_parts`: no class in two parts, and enough in each."""

from __future__ import annotations

import pytest
import torch

from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.data.images.class_parts import divide


@pytest.mark.parametrize("ways", [2, 5])
def test_few_classes_are_divided_so_that_each_part_has_enough(ways):
    for count in range(3 * ways, 60):
        classes = ImageClasses(
            torch.zeros(count, 1, 2, 2), torch.arange(count), (*map(str, range(count)),)
        )
        splits = divide("own", classes, least=ways)
        parts = splits.train, splits.validation, splits.test
        assert min(map(len, parts)) >= ways
        assert sorted(name for part in parts for name in part.names) == sorted(classes.names)
        usual = divide("own", classes)
        if min(map(len, (usual.train, usual.validation, usual.test))) >= ways:
            assert splits.test.names == usual.test.names
    with pytest.raises(
        ValueError, match=f"{3 * ways - 1} classes for training, .*(ways|give at least 6)"
    ):
        divide("own", classes.part(range(3 * ways - 1)), least=ways)


def classes_of(count):
    """One image of 4 x 4 of each."""
    pixels = torch.arange(16.0).view(1, 1, 4, 4).repeat(count, 1, 1, 1)
    return ImageClasses(pixels, torch.arange(count), (*map(str, range(count)),))


def test_shares_seed_and_rotations_decide_on_the_parts():
    splits = divide("own", classes_of(100))
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [64, 16, 20]
    again, other = divide("own", classes_of(100)), divide("own", classes_of(100), seed=1)
    assert again.test.names == splits.test.names != other.test.names
    turned = divide("own", classes_of(100), rotations=True)
    assert [len(part) for part in (turned.train, turned.validation, turned.test)] == [256, 16, 20]
    assert "256 / 16 / 20 classes to train / validate / test, 4x4 grey" in str(turned)
