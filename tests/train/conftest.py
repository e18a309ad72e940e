"""What the tests of runs start from; see tests/support/train_toy.py."""

from train_toy import (
    checkpoint,
    command,
    configured,
    content,
    exported,
    files,
    interrupted,
    run,
    trained,
    written,
)

__all__ = [
    "checkpoint", "command", "configured", "content", "exported", "files", "interrupted", "run",
    "trained", "written",
]  # fmt: skip
