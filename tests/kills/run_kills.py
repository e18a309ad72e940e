"""Kill and resume everything: `python tests/kills/run_kills.py 100`, or `make kills KILLS=100`.

Every chain is a real command (a method, a few-shot learner, a sweep, a comparison). It runs once
undisturbed; then it is killed (kill -9 of its process group) at random moments and while it saves, and
given again until it ends. Weights, results and log must then be those of the undisturbed run, bit for
bit, and after every kill the checkpoints readable and the log whole up to the last of them.

Exit code 1 if anything differs. Nothing is written outside a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

BEGAN = time.monotonic()
HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "support")]
for variable, value in (("OMP_NUM_THREADS", "1"), ("HF_HUB_OFFLINE", "1"), ("COLUMNS", "200")):
    os.environ.setdefault(variable, value)

from kills_chains import Chain, chains, write_inputs  # noqa: E402
from kills_differences import differences, log_faults  # noqa: E402
from kills_processes import (  # noqa: E402
    Session,
    command,
    forked,
    fresh_command,
    import_all_of,
    wait_for_end,
    wait_for_moment,
    wait_for_saving,
)

FRESH = 0.1  # share of starts by a new interpreter
SAVING = 0.4  # share of kills aimed at a moment of saving
WRITES = 25  # temporary files up to which such a kill waits, at most


@dataclass
class Record:
    """What became of one chain."""

    kills: int = 0
    early: int = 0  # kills before the first checkpoint
    saving: int = 0  # kills while something was written
    fresh: int = 0  # kills of a new interpreter
    ends: int = 0  # runs that were let go to their end
    faults: list[str] = field(default_factory=list)


class Killer:
    """Runs chains below a folder. seed: of the choice of moments. start_up: seconds of imports."""

    def __init__(self, folder: Path, seed: int, start_up: float) -> None:
        self.folder, self.seed, self.start_up = folder, seed, start_up

    def kill(self, chain: Chain, kills: int) -> Record:
        """Run it undisturbed; then kill it so often, resuming it every time, and compare its ends."""
        whole, folder = self.folder / "whole" / chain.name, self.folder / "killed" / chain.name
        record, left, draw = Record(), kills, Random(f"{self.seed} {chain.name}")
        session = self._start(chain, whole)
        if session.ended(wait=True):
            record.faults.append(f"it failed undisturbed: {said(whole)}")
            return record
        took, again, lives, orphans = session.seconds, False, 0, []
        while left or again:
            fresh = not chain.starts_others and draw.random() < FRESH
            session = self._start(chain, folder, again=again, fresh=fresh)
            # Ever less is left of a run that is resumed.
            span = took * 0.7**lives + (self.start_up if fresh else 0.0)
            saving = bool(left) and draw.random() < SAVING
            if not left:
                code = session.ended(wait=True)
            elif saving:
                code = wait_for_saving(session, folder, draw.randint(1, WRITES))
            else:
                code = wait_for_moment(session, draw.uniform(0, span))
            if code is None:
                early = not any(folder.rglob("checkpoints/step-*"))
                started, others = session.started(), draw.random() < 0.5
                orphans += started
                code = session.kill(others=others)
            if code < 0:
                left, again, lives = left - 1, True, lives + 1
                record.kills, record.early = record.kills + 1, record.early + early
                record.saving, record.fresh = record.saving + saving, record.fresh + fresh
                if others or not started:  # nothing is written any more
                    record.faults += log_faults(folder, whole)
                continue
            found = differences(folder, whole) if code == 0 else [f"exit code {code}: {said(folder)}"]
            record.faults += found
            record.ends, again, lives = record.ends + 1, False, 0
            wait_for_end(orphans)
            for old in (folder, cache_of(folder)):
                shutil.rmtree(old, ignore_errors=True)
            output_of(folder).unlink()
        return record

    def _start(
        self, chain: Chain, folder: Path, *, again: bool = False, fresh: bool = False
    ) -> Session:
        folder.parent.mkdir(parents=True, exist_ok=True)
        start = fresh_command if fresh else command
        return start(chain.arguments(folder, again=again), output_of(folder), cache_of(folder))


def output_of(folder: Path) -> Path:
    """What the commands of a folder printed."""
    return folder.with_name(f"{folder.name}.txt")


def cache_of(folder: Path) -> Path:
    """A cache that is empty at first: a kill can meet its writing, too."""
    return folder.with_name(f"{folder.name}.cache")


def said(folder: Path) -> str:
    """The end of it."""
    return output_of(folder).read_text(errors="replace")[-1500:]


def main(kills: int, seed: int, only: list[str], jobs: int) -> int:
    """So many kills over all chains, or over those named, `jobs` chains at a time."""
    began, start_up = time.monotonic(), time.monotonic() - BEGAN
    with TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        if forked(lambda: write_inputs(folder / "inputs"), folder / "inputs.txt").ended(wait=True):
            raise RuntimeError((folder / "inputs.txt").read_text())
        chosen = [c for c in chains(folder / "inputs").values() if not only or c.name in only]
        for kind in ("train", "fewshot"):
            first = next((c for c in chosen if c.name.startswith(kind)), None)
            if first is not None:
                import_all_of(
                    lambda chain=first, to=folder / "first" / kind: run(
                        chain.arguments(to, again=False)
                    ),
                    folder / f"{kind}.txt",
                )
        print(f"{len(chosen)} chains, {kills} kills, seed {seed}", flush=True)
        shares = {c: kills // len(chosen) + (i < kills % len(chosen)) for i, c in enumerate(chosen)}
        records = {}
        with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
            killer = Killer(folder, seed, start_up)
            # The longest first.
            ordered = sorted((c for c in chosen if shares[c]), key=lambda c: not c.starts_others)
            started = {pool.submit(killer.kill, c, shares[c]): c.name for c in ordered}
            for ended in as_completed(started):
                name = started[ended]
                found = records[name] = ended.result()
                done = sum(record.kills for record in records.values())
                spent = (time.monotonic() - began) / 60
                left = spent * (kills - done) / max(done, 1)
                print(
                    f"{done}/{kills} kills, {spent:.1f} min, about {left:.1f} min left: {name}, "
                    f"{found.kills} kills, {len(found.faults)} faults",
                    *(f"  FAULT {fault}" for fault in found.faults), sep="\n", flush=True,
                )  # fmt: skip
    return summary(records)


def run(arguments: list[str]) -> None:
    """A command in this process."""
    from gradaccord.cli.app import main as gradaccord

    try:
        gradaccord(arguments)
    except SystemExit as end:
        if end.code:
            raise


def summary(records: dict[str, Record]) -> int:
    """The table; 1 if there are faults."""
    width = max(map(len, records))
    heads = ("kills", "early", "saving", "fresh", "ends", "faults")
    print(f"\n{'chain':{width}}", *(f"{head:>7}" for head in heads))
    rows = {
        name: [r.kills, r.early, r.saving, r.fresh, r.ends, len(r.faults)]
        for name, r in sorted(records.items())
    }
    rows["in all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    for name, row in rows.items():
        print(f"{name:{width}}", *(f"{value:7}" for value in row))
    print(
        "early: before the first checkpoint; saving: while something was written; fresh: of a new "
        "interpreter; ends: comparisons with the undisturbed run"
    )
    equal = sum(record.kills for record in records.values() if not record.faults)
    print(f"{equal} of {rows['in all'][0]} kills ended bit-equal.")
    return int(equal < rows["in all"][0] or any(record.faults for record in records.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kills", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of moments")
    parser.add_argument("--only", action="append", default=[], help="a chain; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="chains at a time")
    given = parser.parse_args()
    sys.exit(main(given.kills, given.seed, given.only, given.jobs))
