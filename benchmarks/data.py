"""Reading and tokenising all of XNLI (dev and test in 15 languages), the first time and from the cache.

    python benchmarks/data.py --data DIR [--write]

Each measurement is a new process with an empty or a full cache; import time is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import markdown, publish, setting

LANGUAGES = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")


def work(folder: str) -> dict[str, float]:
    """Read and tokenise everything; returns what it took."""
    from gradaccord import data
    from gradaccord.models.tokens import HuggingFaceTokens
    from gradaccord.models.trunks.loading import minilm_folder
    from gradaccord.runs.usage import peak_memory
    from gradaccord.tasks.prepare import prepare
    from gradaccord.tasks.registry import task_for

    tokens = HuggingFaceTokens.load(minilm_folder())
    wall, processor = time.perf_counter(), time.process_time()
    pairs = 0
    for language in LANGUAGES:
        dataset = data.load(f"xnli/{language}", folder=folder)
        prepare(language, task_for(dataset), dataset, tokens)
        pairs += sum(dataset.counts.values())
    return {
        "pairs": pairs,
        "wall": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
        "memory": peak_memory(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("GRADACCORD_DATA"), help="holds xnli/")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.data is None:
        parser.error("give --data DIR, or set GRADACCORD_DATA")
    if given.work:
        print(json.dumps(work(given.data)))
        return
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for name in ("the first time", "from the cache"):
            command = [sys.executable, __file__, "--work", "--data", str(Path(given.data).resolve())]
            environment = {**os.environ, "GRADACCORD_CACHE": cache}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            took = json.loads(done.stdout.splitlines()[-1])
            rows.append(
                [name, f"{took['pairs']:,.0f}", f"{took['wall']:.1f} s", f"{took['processor']:.1f} s",
                 f"{took['memory']:,.0f} MB"]
            )  # fmt: skip
    table = markdown(["", "pairs", "wall time", "CPU time", "peak memory"], rows)
    publish(
        "data",
        f"{table}\n\n{setting('benchmarks/data.py --data DIR', os.cpu_count() or 1)}",
        given.write,
    )


if __name__ == "__main__":
    main()
