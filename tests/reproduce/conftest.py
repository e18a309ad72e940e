"""What the tests of entries start from; see tests/support/reproduce_toy.py."""

from reproduce_toy import folders, trio, trio_data

__all__ = ["folders", "trio", "trio_data"]
