"""The commit of the working directory; the one place that calls git.

An untrusted folder may hold a `.git` whose settings name programs (a monitor, filters, hooks, pagers,
transports). None of them is run: hooks and the monitor are off, and files are compared with the commit
only if all of the folder's settings are known to name no program.
"""

from __future__ import annotations

import os
import re
import subprocess

OFF = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "safe.bareRepository=explicit")

# What `git init`, `clone`, `branch` and `config user.name` write.
HARMLESS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    r"|symlinks|autocrlf|eol)"
    r"|extensions\.(worktreeconfig|objectformat)|init\.defaultbranch|user\.(name|email)"
    r"|remote\..*\.(url|pushurl|fetch|tagopt)|branch\..*\.(remote|merge|rebase|description)"
    r"|submodule\..*\.(active|url)|lfs\.repositoryformatversion",
    re.DOTALL,
)


def commit() -> str | None:
    """The hash, with "+" if files differ, "?" if that was not safe to check; None without a commit."""
    try:
        found = _git("rev-parse", "HEAD").strip()
        if not _harmless():
            return f"{found}?"
        changed = _git("status", "--porcelain", "-uno", "--ignore-submodules=all")
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return f"{found}+" if changed.strip() else found


def _harmless() -> bool:
    """Whether the folder's own settings, included files too, are all known to name no program."""
    fields = _git("config", "--list", "--show-scope", "--name-only", "-z").split("\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return all(HARMLESS.fullmatch(name) for scope, name in pairs if scope in ("local", "worktree"))


def _git(*command: str) -> str:
    settings = [part for setting in OFF for part in ("-c", setting)]
    done = subprocess.run(
        ["git", "--no-pager", "--no-optional-locks", *settings, *command],
        capture_output=True,
        text=True,
        timeout=5,
        check=True,
        env={**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"},
    )
    return done.stdout
