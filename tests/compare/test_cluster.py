"""Runs on a real Ray cluster of two nodes on this machine, one of which is killed in the middle."""

import signal
import socket
import time
import warnings
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread

import psutil
import pytest
from compare_toy import run_here, runs_without_processes, study_of, table
from train_toy import said, same, until, weights

from gradaccord.compare import cluster
from gradaccord.compare.cluster import connected
from gradaccord.compare.on_node import EVERY
from gradaccord.runs.results import Results

# Its processes start slowly on a machine that is busy.
PATIENT = {"RAY_agent_register_timeout_ms": "120000", "RAY_raylet_start_wait_time_s": "120",
           "RAY_worker_niceness": "0"}  # else its workers starve beside other tests  # fmt: skip
NODE = {"num_cpus": 1, "memory": 2**31, "object_store_memory": 80 * 2**20}
LONG = ["train.steps=300", "train.evaluate_every=300", "train.save_every=5"]


class TwoNodes:
    """The cluster, the second node of which can be killed."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        here = {**NODE, "node_ip_address": "127.0.0.1"}
        self.cluster = Cluster(
            initialize_head=True, head_node_args={**here, "include_dashboard": False}
        )
        self.second = self.cluster.add_node(**here)
        self.option = f"ray:{self.cluster.address}"

    def processes_of(self, node):
        """The processes of a node: its own, and by their runs' folders those that train."""
        raylet = node.all_processes["raylet"][0].process.pid
        own, training = [], {}
        for process in psutil.Process(raylet).children(recursive=True):
            with suppress(psutil.Error):
                words = process.cmdline()
                if "--out" in words:
                    training[Path(words[words.index("--out") + 1])] = process
                else:
                    own.append(process)
        return own, training

    def all_told(self, node, what):
        """Tell a node's processes that train to `suspend` or to `resume`; by their runs' folders."""
        _, training = self.processes_of(node)
        for process in training.values():
            with suppress(psutil.NoSuchProcess):
                getattr(process, what)()
        return training

    @contextmanager
    def held(self):
        """All that train stand still."""
        nodes = self.cluster.head_node, self.second
        for node in nodes:
            self.all_told(node, "suspend")
        yield
        for node in nodes:
            self.all_told(node, "resume")

    def second_stands_still(self, begun):
        """Whether the second node is held in the middle of a run: begun, and not yet at its end.

        The first node is held as well: while the second starts a worker, it would do all runs.
        """
        self.all_told(self.cluster.head_node, "suspend")
        if any(begun(run) and not Results.exists(run) for run in self.all_told(self.second, "suspend")):
            return True
        self.all_told(self.second, "resume")
        return False

    def kill_second(self):
        """As if its plug had been pulled: no process is left to finish its run, or to tell of it."""
        own, training = self.processes_of(self.second)
        self.cluster.remove_node(self.second, allow_graceful=False)
        for processes in (own, training.values()):
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(processes, timeout=60)
        self.all_told(self.cluster.head_node, "resume")


@pytest.fixture(scope="module")
def two_nodes():
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in {**cluster.QUIET, **PATIENT}.items():
            patched.setenv(name, value)
        nodes = TwoNodes()
        yield nodes
        nodes.cluster.shutdown()


@pytest.fixture
def hidden_ray(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)


def test_a_sweep_does_as_many_trials_side_by_side_as_fit(two_nodes, file, tmp_path, command):
    given = ["train.lr=1e-4..1e-2", "--trials", 2, "--out", tmp_path / "s"]
    out, err = command("sweep", file, *given, "--cluster", two_nodes.option).done()
    assert "2 trials on a Ray cluster (2 nodes, 2 CPUs)." in out
    assert out.count("dev average") == 2
    assert "ray" not in err.lower()
    trials = study_of(tmp_path / "s").trials
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 2
    assert trials[1].datetime_start < trials[0].datetime_complete


def test_ctrl_c_saves_every_run_and_a_killed_node_costs_none(two_nodes, file, tmp_path, command):
    """Given again it goes on; then a node dies: all runs finish, each is in the table once."""
    pieces = ["compare", file, *LONG, "--methods", "sum", "--seeds", 3]
    arguments = [*pieces, "--out", tmp_path / "c", "--cluster", two_nodes.option]
    runs = [tmp_path / "c" / "sum" / f"seed-{seed}" for seed in range(3)]

    def saved(*some):
        return {step for run in some or runs for step in run.glob("checkpoints/step-*[05]")}

    first = command(*arguments)
    until(lambda: saved() or first.poll() is not None)
    with two_nodes.held():  # no run comes to its end before it is told
        first.send_signal(signal.SIGINT)
        time.sleep(3 * EVERY)
    out, _ = first.done(130)
    assert "every run is saved. The same command continues" in out

    before = saved()
    second = command(*arguments)
    middle = partial(two_nodes.second_stands_still, lambda run: saved(run) - before)
    until(lambda: middle() or second.poll() is not None)
    assert second.poll() is None, second.communicate()
    two_nodes.kill_second()
    out, err = second.done()
    assert "its node was lost; it goes on elsewhere." in out, out
    assert "raylet" not in (out + err).lower()
    assert table(tmp_path / "c")["sum"]["seeds"] == [0, 1, 2]
    assert table(tmp_path / "c")["sum"]["missing"] == {}
    assert any("Continued at step" in (run / "output.txt").read_text() for run in runs)
    with runs_without_processes():
        run_here(*pieces, "--out", tmp_path / "whole")
    for run in runs:
        assert same(weights(run), weights(tmp_path / "whole" / "sum" / run.name))


def test_without_ray_the_command_says_what_to_install(file, tmp_path, capsys, hidden_ray):
    for given in (
        ["compare", file],
        ["sweep", file, "train.lr=1e-4..1e-2"],
    ):
        wrong = said(capsys, *given, "--out", tmp_path / "none", "--cluster", "ray")
        assert wrong == "gradaccord: This needs the package ray: pip install 'gradaccord[cluster]'.\n"
    assert not (tmp_path / "none").exists()


@contextmanager
def listening(answer):
    """A server on 127.0.0.1 that takes connections, and answers so."""
    with ExitStack() as taken, socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with suppress(OSError):
                while True:
                    taken.enter_context(server.accept()[0]).sendall(answer)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)  # else it waits for a connection for ever
            thread.join()


def test_an_address_that_does_not_answer_is_one_sentence(file, tmp_path, capsys):
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    given = ["compare", file, "--out", tmp_path / "none", "--cluster"]
    began = time.monotonic()
    wrong = said(capsys, *given, f"ray:127.0.0.1:{nobody}")
    assert f"No Ray cluster answers at 127.0.0.1:{nobody} (Connection refused): check the" in wrong
    with listening(b"") as silent:
        assert "(timed out)" in said(capsys, *given, f"ray:127.0.0.1:{silent}")
    with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as web:
        assert "(something else is there)" in said(capsys, *given, f"ray:127.0.0.1:{web}")
    settings, not_found = b"\0\0\0\4\0\0\0\0\0", b"\0\0\1\1\5\0\0\0\1\x8d"
    with listening(settings + not_found) as proxy:  # speaks HTTP/2, and knows nothing of Ray
        assert "(something else is there)" in said(capsys, *given, f"ray:127.0.0.1:{proxy}")
    assert "(it is not HOST:PORT)" in said(capsys, *given, "ray:somewhere")
    assert time.monotonic() - began < 20
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("given", ["slurm", "ray:", "ray:ray://host:10001"])
def test_another_cluster_is_one_sentence(given):
    with pytest.raises(ValueError, match="write ray, or ray:HOST:PORT"), connected(given, None, print):
        pass
