"""What the tests of runs start from; see tests/support/train_toy.py."""

from train_toy import checkpoint, configured, content, files, run, written

__all__ = ["checkpoint", "configured", "content", "files", "run", "written"]
