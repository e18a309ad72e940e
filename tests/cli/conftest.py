"""What the tests of commands start from; see tests/support."""

from compare_toy import file, shared
from train_toy import (
    checkpoint,
    command,
    configured,
    content,
    exported,
    files,
    run,
    trained,
    written,
)

__all__ = ["checkpoint", "command", "configured", "content", "exported", "file", "files", "run",
           "shared", "trained", "written"]  # fmt: skip
