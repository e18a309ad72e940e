"""Runs as tasks of a Ray cluster: submitted, watched, repeated if a node is lost, and collected."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from gradaccord.compare.on_node import Changes, Order, all_files, train_on_node
from gradaccord.compare.processes import OUTPUT, POLL, Run
from gradaccord.compare.setup import BASE_MB, Size
from gradaccord.runs.results import Results
from gradaccord.train.problem import load_problem

RETRIES = 5  # times that a run may lose its node
CONNECT, ANSWER = 5.0, 8.0  # seconds that a cluster has to take a connection, and to answer
INTERRUPTED = 130  # the exit code of a run that was asked to save itself
DATA, HEADERS, SETTINGS = 0, 1, 4  # kinds of frames of HTTP/2, and their flags
END_STREAM, END_HEADERS = 1, 4
REFUSALS = tuple(bytes([0x80 + i]) for i in (12, 13, 14))  # the statuses 400, 404 and 500
MARK = ".cluster"  # the file by which nodes find out whether they see a folder
LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Keeps Ray from printing on the terminal and sending statistics; what a user has set stays.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",
}


class ClusterError(ConnectionError):
    """A cluster that cannot be used; says why in one sentence."""


@contextmanager
def connected(given: str, jobs: int | None, say: Callable[[str], None]) -> Iterator[Cluster]:
    """The cluster behind `--cluster`: `ray` (the one of this machine, or a new one) or `ray:HOST:PORT`.

    jobs: runs at a time at most; None: as many as the cluster takes.
    """
    address = _address(given)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if address is None or address.rpartition(":")[0] in LOOPBACK:
        # Else Ray takes another address of this machine, which others can reach.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    try:
        if address is None:
            ray.init("local", include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
        else:
            ray.init(address, **quiet)
    except Exception as error:
        why = str(error).strip().partition("\n")[0].rstrip(".")
        raise ClusterError(
            f"--cluster {given} cannot be joined ({why}): this machine has to be one of its nodes, "
            f"with the same Python and Ray (ray start --address={address or 'HOST:PORT'})."
        ) from error
    try:
        yield Cluster(ray, jobs, say)
    finally:
        ray.shutdown()


def _address(given: str) -> str | None:
    """HOST:PORT of a cluster that answers; None if one has to be started on this machine."""
    kind, colon, address = given.partition(":")
    if kind != "ray" or (colon and not address) or address.startswith("ray:"):
        raise ValueError(f"--cluster is {given!r}: write ray, or ray:HOST:PORT of a running cluster.")
    if find_spec("ray") is None:
        raise ModuleNotFoundError("No module named 'ray'", name="ray")
    address = address or os.environ.get("RAY_ADDRESS", "")
    if not address:
        started = _started_here()
        return started if started and _why_no_answer(started) is None else None
    why = _why_no_answer(address)
    if why is not None:
        raise ClusterError(
            f"No Ray cluster answers at {address} ({why}): check the address, or start one with "
            "ray start --head."
        )
    return address


def _started_here() -> str:
    """The address that `ray start` left on this machine; read before Ray is imported, as it
    reads its own settings then."""
    place = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    try:
        return (Path(place) / "ray" / "ray_current_cluster").read_text().strip()
    except OSError:
        return ""


def _why_no_answer(address: str) -> str | None:
    """Why no Ray server is at an address; None if one is. Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return "it is not HOST:PORT"
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT) as server,
            server.makefile("rb") as answers,
        ):
            server.settimeout(ANSWER)
            server.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(SETTINGS, 0) + _alive_request())
            return None if _is_answered(answers) else "something else is there"
    except (OSError, OverflowError) as error:
        return str(getattr(error, "strerror", None) or error)


def _frame(kind: int, stream: int, flags: int = 0, content: bytes = b"") -> bytes:
    """A frame of HTTP/2."""
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def _alive_request() -> bytes:
    """The gRPC request that asks whether Ray's head is alive: an empty message."""
    values = {
        b"\x83\x86\x04": b"/ray.rpc.NodeInfoGcsService/CheckAlive",  # POST, http, path
        b"\x01": b"ray",  # authority
        b"\x0f\x10": b"application/grpc",  # type of content
        b"\x00\x02te": b"trailers",
    }
    headers = b"".join(name + bytes([len(value)]) + value for name, value in values.items())
    return _frame(HEADERS, 1, END_HEADERS, headers) + _frame(DATA, 1, END_STREAM, bytes(5))


def _is_answered(answers: BinaryIO) -> bool:
    """Whether the reply is HTTP/2 and does not refuse the request: gRPC never does, not even one for a
    method that it does not know.
    """
    kind = None
    while len(head := answers.read(9)) == 9:
        if kind is None and head[3] != SETTINGS:
            return False
        kind = head[3]
        content = answers.read(int.from_bytes(head[:3], "big"))
        if kind == HEADERS:
            return content[:1] not in REFUSALS
    return kind is not None


class Home:
    """An actor on the command's machine: sends and receives the files of runs whose nodes do not see
    their folders, and tells runs to stop."""

    def __init__(self) -> None:
        self._stops: dict[Path, int] = {}

    def files(self, folder: Path) -> Changes:
        """The files that a run has so far."""
        return all_files(folder)

    def report(self, folder: Path, changes: Changes | None) -> int:
        """Take over what a run has written; returns how often it was asked to stop."""
        if changes is not None:
            changes.apply(folder)
        return self._stops.get(folder, 0)

    def stop(self, folder: Path) -> None:
        """Ask a run to save itself and end."""
        self._stops[folder] = self._stops.get(folder, 0) + 1


def run_as_task(order: Order, home: Any) -> int:
    """The task of a run; its exit code."""

    def files() -> Changes:
        found: Changes = home.files.remote(order.folder).future().result()
        return found

    def report(changes: Changes | None) -> int:
        # `ray.get` would give the CPU to another run while it waits.
        asked: int = home.report.remote(order.folder, changes).future().result()
        return asked

    return train_on_node(order, files, report)


class Cluster:
    """A Ray cluster as a `Runner`: submits runs as tasks, and collects what their nodes write."""

    def __init__(self, ray: Any, jobs: int | None, say: Callable[[str], None]) -> None:
        self.ray, self.say = ray, say
        self.jobs = jobs or sys.maxsize  # the others wait in Ray's queue
        self.gpus = min(1, int(ray.cluster_resources().get("GPU", 0)))  # of a run
        actor = ray.remote(Home).options(num_cpus=0, scheduling_strategy=self._here(), max_restarts=-1)
        self.home = actor.remote()
        self._marks: dict[Path, str] = {}
        self._sizes: dict[str, Size] = {}
        self._warned = False

    def _here(self) -> Any:
        """The command's own node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)

    def __str__(self) -> str:
        nodes, total = len(self._nodes()), self.ray.cluster_resources()
        parts = [(nodes, "node"), (int(total.get("CPU", 0)), "CPU"), (int(total.get("GPU", 0)), "GPU")]
        shown = [f"{count} {what}{'s' * (count > 1)}" for count, what in parts if count]
        return f"on a Ray cluster ({', '.join(shown)})"

    def needs(self, threads: int, megabytes: float) -> dict[str, float]:
        """What a task asks Ray for."""
        return {"num_cpus": threads, "num_gpus": self.gpus, "memory": int(megabytes * 2**20)}

    def _fitting(self, run: Run, data: Path | None) -> int:
        """How many such runs the cluster holds at once, at least 1; warns if it holds none."""
        wanted = self.needs(threads_of(run), self._memory_mb(run, data))
        asked = {"CPU": wanted["num_cpus"], "GPU": wanted["num_gpus"], "memory": wanted["memory"]}
        held = sum(
            min(int(node.get(kind, 0) // amount) for kind, amount in asked.items() if amount)
            for node in self._nodes()
        )
        if not held and not self._warned:
            self._warned = True
            shown = f"{asked['CPU']} CPUs, {asked['GPU']} GPUs and {asked['memory'] / 2**20:.0f} MB"
            self.say(f"No node has the {shown} that a run asks for: runs wait until one joins.")
        return max(1, min(held, self.jobs))

    def _memory_mb(self, run: Run, data: Path | None) -> float:
        """The memory that a run is likely to take; runs with the same tasks load a model once."""
        if not run.memory_mb:
            alike = run.config.model_dump_json(include={"model", "tasks"})
            if alike not in self._sizes:
                self._sizes[alike] = Size.of(load_problem(run.config, data))
            run.memory_mb = self._sizes[alike].memory_mb(run.config)
        return run.memory_mb

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def at_once(self, runs: Sequence[Run], data: Path | None) -> int:
        """As many as the cluster holds at once."""
        return max(1, self._fitting(runs[0], data) // len(runs))

    def start(self, run: Run, data: Path | None) -> ClusterJob:
        """Hand a run to Ray, which starts it as soon as a node has room."""
        self._fitting(run, data)
        return ClusterJob(self, run, data.resolve() if data is not None else None)

    def submit(self, run: Run, data: Path | None) -> Any:
        """Submit a task for a run; returns the reference to its exit code."""
        folder = run.folder.resolve()
        order = Order(folder, self._mark(folder.parent), data, threads_of(run))
        task = self.ray.remote(run_as_task).options(
            **self.needs(order.threads, run.memory_mb), max_retries=0, name=run.label
        )  # repeated by `ClusterJob`, which reports it, and not by Ray
        return task.remote(order, self.home)

    def _mark(self, folder: Path) -> tuple[Path, str]:
        """A file by which a node finds out whether it sees a folder."""
        if folder not in self._marks:
            self._marks[folder] = secrets.token_hex(16)
            (folder / MARK).write_text(self._marks[folder])
        return folder / MARK, self._marks[folder]

    def pool(self) -> Pool:
        """Workers for functions that are not training runs."""
        return Pool(self)


class ClusterJob:
    """A run on the cluster as a `Job`. One that loses its node goes on elsewhere."""

    def __init__(self, cluster: Cluster, run: Run, data: Path | None) -> None:
        self.returncode: int | None = None
        self._cluster, self._run, self._data = cluster, run, data
        self._lost = 0
        self._stopped = False
        self._result = cluster.submit(run, data)

    def poll(self) -> int | None:
        """Its exit code, None while it is going or waiting for a node."""
        if self.returncode is None:
            ray = self._cluster.ray
            with _cluster_loss_explained(ray):
                ended, _ = ray.wait([self._result], timeout=0)
                if ended:
                    self._collect()
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Ask it to save itself; one that still waits for a node never begins."""
        if self.returncode is None:
            self._stopped = True
            with _cluster_loss_explained(self._cluster.ray):
                if self._run.going:
                    self._cluster.home.stop.remote(self._run.folder.resolve())
                else:
                    self._cluster.ray.cancel(self._result)

    def wait(self) -> int:
        """Wait until it has ended; its exit code."""
        while self.poll() is None:
            time.sleep(POLL)
        assert self.returncode is not None
        return self.returncode

    def _collect(self) -> None:
        errors = self._cluster.ray.exceptions
        try:
            code = self._cluster.ray.get(self._result)
        except errors.TaskCancelledError:
            self.returncode = INTERRUPTED
        except errors.RayTaskError as error:  # before the run began
            self._explain(str(error.cause))
            self.returncode = 1
        except errors.RayError:
            self._again("its node was lost")
        else:
            if (code < 0 or code == INTERRUPTED) and not self._stopped:
                self._again("it was killed on its node")
            else:
                self.returncode = code

    def _again(self, why: str) -> None:
        """Submit it again, unless it was asked to stop, or has lost too many nodes."""
        if self._stopped or Results.exists(self._run.folder):
            self.returncode = INTERRUPTED
            return
        self._lost += 1
        if self._lost > RETRIES:
            self._explain(f"{why} for the {self._lost}th time; the same command tries again")
            self.returncode = 1
            return
        self._cluster.say(f"{self._run.label}: {why}; it goes on elsewhere.")
        self._result = self._cluster.submit(self._run, self._data)

    def _explain(self, why: str) -> None:
        """Write why as the last line of what the run printed, which tables quote."""
        with (self._run.folder / OUTPUT).open("a", encoding="utf-8") as output:
            output.write(f"{why.strip().splitlines()[-1] if why.strip() else why}\n")


class Pool(Executor):
    """Functions as tasks; Ray starts one whose node is lost again on another."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._results: list[Any] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit one call as a task."""
        task = self._cluster.ray.remote(fn).options(
            **self._cluster.needs(1, BASE_MB), max_retries=RETRIES
        )
        # A node has another current folder.
        placed = [one.resolve() if isinstance(one, Path) else one for one in args]
        self._results.append(task.remote(*placed, **kwargs))
        future: Future[Any] = Future()
        self._results[-1].future().add_done_callback(partial(self._hand_on, future))
        return future

    def _hand_on(self, future: Future[Any], done: Future[Any]) -> None:
        """Pass on the result, or the exception that the function raised."""
        errors, error = self._cluster.ray.exceptions, done.exception()
        if error is None:
            future.set_result(done.result())
        elif isinstance(error, errors.RayTaskError):
            future.set_exception(error.cause)
        else:
            future.set_exception(RuntimeError(f"{str(error).partition(chr(10))[0]}"))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for all calls; with `cancel_futures`, interrupt them first, as Ctrl-C does."""
        if cancel_futures:
            for result in self._results:
                self._cluster.ray.cancel(result)
        if wait and self._results:
            self._cluster.ray.wait(self._results, num_returns=len(self._results))


def threads_of(run: Run) -> int:
    """The CPUs of a run: as many as its file says, else one."""
    return run.config.train.threads or 1


@contextmanager
def _cluster_loss_explained(ray: Any) -> Iterator[None]:
    """Turn the end of the whole cluster into one sentence."""
    try:
        yield
    except ray.exceptions.RayError as error:
        raise ClusterError(
            "The Ray cluster is gone; every run's last checkpoint is kept: the same command "
            "continues once a cluster is running."
        ) from error
