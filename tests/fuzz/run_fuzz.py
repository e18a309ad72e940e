"""Fuzz everything for so many minutes: `python tests/fuzz/run_fuzz.py 30`, or `make fuzz MINUTES=30`.

Each round runs in a process of its own, so that a crash of the interpreter is counted and not the end.
Exit code 1 if anything but a refusal in one sentence came out; what failed is printed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
EXAMPLES, SLOW = 40, 3  # of each input in a round
ROUND = 900  # seconds after which a round hangs


def one_round(seed: int, only: tuple[str, ...] = ()) -> int:
    """Every input, or those whose names begin so; the counts are the last line that is printed."""
    from fuzz_configurations import try_command, try_configuration, try_option, try_text
    from fuzz_readers import try_reader
    from fuzz_seeds import seeds
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    targets: dict[str, tuple[int, Callable[[st.DataObject], str | None]]] = {
        "configuration": (EXAMPLES, try_configuration),
        "options": (5 * EXAMPLES, try_option),
        "texts": (3 * EXAMPLES, try_text),
        "commands": (3 * EXAMPLES, try_command),
    }
    for name, each in seeds().items():
        targets[name] = (
            SLOW if each.slow else EXAMPLES,
            lambda draw, each=each: try_reader(each, draw),
        )
    counts: Counter[str] = Counter()
    for name, (examples, attempt) in targets.items():
        if only and not name.startswith(only):
            continue
        print(f"at {name}", flush=True)

        def tried(draw: st.DataObject, attempt: Callable[..., str | None]) -> None:
            counts["taken" if attempt(draw) is None else "refused"] += 1

        options = settings(
            max_examples=examples, deadline=None, database=None, print_blob=False,
            phases=[Phase.generate, Phase.shrink], suppress_health_check=[*HealthCheck],
        )  # fmt: skip
        try:
            seeded(seed)(options(given(st.data(), st.just(attempt))(tried)))()
        except Exception:
            counts["failed"] += 1
            print(f"FAILED {name} (seed {seed})\n{traceback.format_exc()[-3000:]}", flush=True)
    print(" ".join(f"{key}={counts[key]}" for key in ("taken", "refused", "failed")))
    return min(counts["failed"], 1)


def main(minutes: float) -> int:
    """Rounds until the time is over."""
    end, totals = time.monotonic() + 60 * minutes, Counter[str]()
    while time.monotonic() < end or not totals["rounds"]:
        seed = random.randrange(10**9)
        with TemporaryDirectory() as cache:
            folders = (str(HERE), str(HERE.parent / "support"), os.environ.get("PYTHONPATH", ""))
            path = os.pathsep.join(folders)
            environment = {
                **os.environ, "PYTHONPATH": path, "GRADACCORD_CACHE": cache, "HF_DATASETS_OFFLINE": "1",
                "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "TMPDIR": cache,
            }  # fmt: skip
            command = [sys.executable, __file__, "--round", str(seed)]
            try:
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=ROUND, check=False
                )
                lines, code = done.stdout.splitlines(), done.returncode
            except subprocess.TimeoutExpired as hung:
                lines, code = [(hung.stdout or b"").decode()[-300:]], -1
        totals["rounds"] += 1
        if code not in (0, 1):
            totals["crashed"] += 1
            print(f"The interpreter ended with {code} (seed {seed}): {lines[-1:]}", flush=True)
            continue
        print("\n".join(line for line in lines if not line.startswith("at ")), flush=True)
        totals.update({k: int(v) for k, v in (part.split("=") for part in lines[-1].split())})
    print("In all: " + ", ".join(f"{value} {key}" for key, value in totals.items()))
    return int(bool(totals["failed"] or totals["crashed"]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["--round"]:
        sys.exit(one_round(int(sys.argv[2]), tuple(sys.argv[3:])))
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 30))
