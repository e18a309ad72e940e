"""What the tests of comparisons start from; see tests/support."""

from compare_toy import copied, file, finished, shared, swept
from train_toy import checkpoint, command, configured, content, files, run, written

__all__ = ["checkpoint", "command", "configured", "content", "copied", "file", "files", "finished",
           "run", "shared", "swept", "written"]  # fmt: skip
