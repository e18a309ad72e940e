"""How many small changes of the source the tests notice: `python tests/mutants/run_mutants.py`.

Draws mutants with a fixed seed, runs for each the tests that call the changed function until one
fails, and writes the list, `mutants.md`. What the tests call is recorded once, in `build/mutants`,
from where a run that was ended goes on; mutants that survived run again, killed ones only after an
edit of their file. Each mutant has a copy of the package and a process of its own, forked from one
that has the large libraries loaded. Needs Python 3.11 and a system that can fork.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import function_calls
import pytest
from hypothesis import Phase, settings
from mutations import SEED, SOURCE, Mutant, sample

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "mutants"
LIST = HERE / "mutants.md"
EQUIVALENT = HERE / "equivalent.json"  # id of a mutant -> why no test can notice it
TESTS = ("core", "methods", "runs", "data/test_samplers.py", "data/test_splits.py",
         "compare/test_statistics.py", "distributed")  # fmt: skip
LARGE = ("torch._dynamo", "torch.distributed.fsdp", "accelerate", "hypothesis", "lightning_fabric",
         "peft", "pydantic", "scipy.stats", "torchjd.aggregation", "transformers.trainer",
         "transformers.models.bert.modeling_bert", "typer", "yaml")  # fmt: skip
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0",
           "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # fmt: skip


def used() -> float:
    """Processor seconds of this process and those that it has waited for."""
    return sum(os.times()[:4])


class Recorder:
    """For pytest: which functions each test calls, and how long it takes."""

    def __init__(self, folder: Path) -> None:
        self.calls, self.folder = function_calls.CALLED, folder
        self.shared: set[tuple[str, str]] = set()  # called by fixtures, which several tests may share
        self.tests: dict[str, Any] = {}
        function_calls.start()

    def _taken(self) -> set[tuple[str, str]]:
        taken = set(self.calls)
        for path in self.folder.iterdir():
            lines = path.read_text().splitlines()
            taken |= {(file, name) for file, _, name in (line.partition(" ") for line in lines)}
            path.unlink()
        self.calls.clear()
        return taken

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Any:
        begin = used()
        self._taken()
        try:
            return (yield)
        finally:
            self.shared |= self._taken()
            self.tests[item.nodeid] = {"seconds": used() - begin, "calls": []}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        begin = used()
        result = yield
        self.tests[item.nodeid]["calls"] = sorted(self._taken())
        self.tests[item.nodeid]["seconds"] += used() - begin
        self.tests[item.nodeid]["passed"] = True
        return result


class Chosen:
    """For pytest: only these tests, or files, in this order; remembers the first that fails."""

    def __init__(self, tests: list[str]) -> None:
        self.order = tests
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        whole = {file: [i for i in items if i.nodeid.startswith(f"{file}::")] for file in self.order}
        single = {item.nodeid: item for item in items}
        items[:] = [i for test in self.order for i in whole[test] or [single.get(test)] if i]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def record(test_file: str, folder: Path) -> dict[str, Any]:
    """Run a test file as it is; in a process of its own."""
    calls = folder / "calls"
    calls.mkdir()
    os.environ |= {
        "MUTANTS_PACKAGE": str(SOURCE), "MUTANTS_CALLS": str(calls),
        "PYTHONPATH": os.pathsep.join(map(str, (SOURCE.parent, HERE, HERE / "calls"))),
    }  # fmt: skip
    function_calls.PACKAGE, function_calls.FOLDER = str(SOURCE), str(calls)
    sys.path.insert(0, str(SOURCE.parent))
    recorder = Recorder(calls)
    options = [option for option in OPTIONS if option != "-x"]
    pytest.main([test_file, *options, f"--basetemp={folder / 'tests'}"], plugins=[recorder])
    tests = {test: seen for test, seen in recorder.tests.items() if seen.get("passed")}
    return {"digest": digest(ROOT / test_file), "shared": sorted(recorder.shared), "tests": tests}


def attempt(mutant: Mutant, tests: list[str], seconds: float, folder: Path) -> dict[str, Any]:
    """Run tests on a mutant until one fails, or so many processor seconds; in a process of its own."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    package = folder / "src" / SOURCE.name
    shutil.copytree(SOURCE, package)
    (package / mutant.file).write_bytes(mutant.source)
    os.environ["PYTHONPATH"] = str(package.parent)
    sys.path.insert(0, str(package.parent))
    first = [test for test in tests if test.partition("::")[0] == tests[0].partition("::")[0]]
    for part in (first, tests[len(first) :]):  # most end in the first file: the others are not read
        chosen = Chosen(part)
        files = dict.fromkeys(test.partition("::")[0] for test in part)
        code = pytest.main([*files, *OPTIONS, f"--basetemp={folder / 'tests'}"], plugins=[chosen])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return {"killed": True, "by": chosen.failed or f"pytest's exit code {code}"}
        if len(part) == len(tests):
            break
    return {"killed": False}


def digest(path: Path) -> str:
    """Of a file's text."""
    return sha256(path.read_bytes()).hexdigest()[:12]


class Pool:
    """Calls in forked processes, so many at a time; each leaves its result in a file."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.running: dict[int, tuple[float, Path, Callable[[dict[str, Any] | None], None]]] = {}

    def start(
        self,
        call: Callable[[Path], dict[str, Any]],
        seconds: float,
        done: Callable[[dict[str, Any] | None], None],
    ) -> None:
        """Wait for a place and start; done: takes the result, or None if it ran too long or crashed."""
        while len(self.running) >= self.jobs:
            self._look()
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setsid()
                output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
                os.dup2(output, 1)
                os.dup2(output, 2)
                os.environ["TMPDIR"] = str(folder)
                os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")
                tempfile.tempdir = None
                result = json.dumps(call(folder))
                (folder / "result").write_text(result)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        self.running[pid] = (time.monotonic() + seconds, folder, done)

    def finish(self) -> None:
        """Wait for all."""
        while self.running:
            self._look()

    def _look(self) -> None:
        time.sleep(0.1)
        for pid, (end, folder, done) in list(self.running.items()):
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            if not ended and time.monotonic() < end:
                continue
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # also what its tests left behind
            if not ended:
                os.waitpid(pid, 0)
            del self.running[pid]
            path = folder / "result"
            if ended and not path.exists():
                print((folder / "output").read_text(errors="replace")[-2000:], flush=True)
            done(json.loads(path.read_text()) if path.exists() else None)
            shutil.rmtree(folder, ignore_errors=True)


def recorded(pool: Pool, quick: bool) -> dict[str, Any]:
    """What every test file calls; only files that have changed are run, with `quick` none."""
    places = [ROOT / "tests" / place for place in TESTS]
    files = [f for place in places for f in ([place] if place.is_file() else place.rglob("test_*.py"))]
    everything: dict[str, Any] = {}
    for path in sorted(files):
        name = path.relative_to(ROOT).as_posix()
        kept = WORK / "calls" / f"{name.replace('/', '-')}.json"

        def done(
            result: dict[str, Any] | None, name: str = name, kept: Path = kept, path: Path = path
        ) -> None:
            if result is None:
                sys.exit(f"{name} cannot be recorded")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(result))
            everything[name] = result
            print(f"recorded {name}: {len(result['tests'])} tests", flush=True)

        if kept.exists() and json.loads(kept.read_text())["digest"] == digest(path):
            everything[name] = json.loads(kept.read_text())
            continue
        if quick:  # it counts as a whole for its module, and as it was for others
            everything[name] = {"shared": [], "tests": {}}
            everything[name] |= json.loads(kept.read_text()) if kept.exists() else {}
            everything[name]["whole"] = True
            continue
        pool.start(partial(record, name), 3600, done)
    pool.finish()
    return everything


@cache
def elsewhere() -> dict[str, str]:
    """Modules whose test file has another name, as the test of the mirror lists them."""
    text = (ROOT / "tests" / "test_mirror.py").read_text()
    return dict(ast.literal_eval(text.partition("ELSEWHERE = ")[2].partition("\n}\n")[0] + "}"))


def tests_of(mutant: Mutant, calls: dict[str, Any], seconds: float) -> tuple[list[str], float]:
    """Tests that call the changed function, and how long they take.

    The module's own test file first, then the fastest files, as many as the time allows.
    """
    room, name = mutant.file.partition("/")[0], Path(mutant.file).stem
    own = f"tests/{elsewhere().get(mutant.file, f'{room}/test_{name}.py')}"

    def touched(called: Iterable[list[str]]) -> bool:
        return any(f == mutant.file and mutant.function in ("", name) for f, name in called)

    found: dict[str, dict[str, float]] = {}
    for file, seen in calls.items():
        if own == file and "whole" in seen:
            found[file] = {file: 0.0}
            continue
        everywhere = touched(seen["shared"])
        found[file] = {
            test: each["seconds"]
            for test, each in seen["tests"].items()
            if everywhere or touched(each["calls"])
        }
    chosen: list[str] = []
    total = 0.0
    for _file, tests in sorted(found.items(), key=lambda f: (own != f[0], sum(f[1].values()))):
        for test, took in sorted(tests.items(), key=lambda t: t[1]):
            if total + took <= seconds or not chosen:
                chosen.append(test)
                total += took
    return chosen, total


def main() -> None:
    """Record, run and list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=210, help="how many mutants")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--seconds", type=float, default=600, help="of tests for a mutant at most")
    parser.add_argument("--quick", action="store_true", help="do not record what tests call")
    given = parser.parse_args()
    os.chdir(ROOT)
    for name in LARGE:
        with suppress(ImportError):
            import_module(name)
    settings.register_profile("first failure", phases=[Phase.explicit, Phase.generate])
    settings.load_profile("first failure")  # none is made smaller
    gc.freeze()  # forked processes need not look through what they have in common
    WORK.mkdir(parents=True, exist_ok=True)
    pool = Pool(given.jobs)
    calls = recorded(pool, given.quick)
    kept = WORK / "results.json"
    results: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    mutants = sample(given.count)
    for mutant in mutants:
        known = results.get(mutant.id)
        if known and known["killed"] and known["digest"] == digest(SOURCE / mutant.file):
            continue
        tests, seconds = tests_of(mutant, calls, given.seconds)

        def done(result: dict[str, Any] | None, mutant: Mutant = mutant) -> None:
            result = result or {"killed": True, "by": "time limit"}
            results[mutant.id] = result | {"digest": digest(SOURCE / mutant.file)}
            kept.write_text(json.dumps(results, indent=0))
            how = f"killed by {result['by']}" if result["killed"] else "SURVIVED"
            print(f"{mutant.id} {mutant.file}:{mutant.line} {mutant.before} -> {mutant.after}: {how}")

        if not tests:
            done({"killed": False, "by": "no test calls it"})
            continue
        pool.start(partial(attempt, mutant, tests, 60 + 5 * seconds), 3600, done)
    pool.finish()
    write_list(mutants, results)


def write_list(mutants: list[Mutant], results: dict[str, Any]) -> None:
    """A table of all mutants, and the share that was killed."""
    reasons: dict[str, str] = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    rows, killed, equivalent = [], 0, 0
    for mutant in mutants:
        result = results[mutant.id]
        if result["killed"]:
            killed += 1
            answer = f"killed by `{result['by'].removeprefix('tests/')}`"
        else:
            equivalent += mutant.id in reasons
            answer = "survived: " + reasons.get(mutant.id, "**not answered**")
        change = f"`{mutant.before}` → `{mutant.after}`"
        row = (mutant.id, f"{mutant.file}:{mutant.line}", change, answer)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    share = killed / len(mutants)
    summary = (
        f"{len(mutants)} mutants (seed {SEED}): {killed} killed, {share:.1%}; {len(mutants) - killed} "
        f"survived, of which {equivalent} change nothing that a test could see."
    )
    head = ["# Mutants", "", "Written by `make mutants`.", "", summary, ""]
    head += ["| id | place | change | outcome |", "|---|---|---|---|"]
    LIST.write_text("\n".join([*head, *rows, ""]), encoding="utf-8")
    print(summary)


if __name__ == "__main__":
    main()
