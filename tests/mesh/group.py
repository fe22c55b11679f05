"""Starts grokd as a group of processes under mpirun, and asks it over HTTP. Standard library only."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
LOOPBACK = ["--mca", "btl_tcp_if_include", "lo"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Group:
    """`wrap(rank)`: words to put before the program, to run each rank another way."""

    def __init__(self, program, model, ranks, log, *flags, wrap=None, launcher=LOOPBACK):
        self.port, self.log, self.host = free_port(), pathlib.Path(log), "127.0.0.1"
        serve = [program, "serve", "--model", str(model), "--port", str(self.port), "--threads", "1", *flags]
        if ranks == 1:
            command = (wrap(0) if wrap else []) + serve
        else:
            command = MPIRUN + launcher
            if not wrap:
                command += ["-np", str(ranks)] + serve
            for rank in range(ranks if wrap else 0):
                command += ([":"] if rank else []) + ["-np", "1"] + wrap(rank) + serve
        with open(log, "w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, start_new_session=True)

    def connect(self, timeout=60):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def get(self, path, timeout=5):
        connection = self.connect(timeout)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def wait_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}:\n{self.log.read_text()}")
            try:
                if self.get("/readyz")[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"not ready after {seconds} s:\n{self.log.read_text()}")

    def ask(self, **body):
        connection = self.connect()
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == 200, text
            return json.loads(text)
        finally:
            connection.close()

    def rank_pids(self):
        """The processes of the ranks: what they are children of is mpirun."""
        if "mpirun" not in pathlib.Path(f"/proc/{self.process.pid}/cmdline").read_text():
            return [self.process.pid]
        found = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if int(re.search(r"\) \S (\d+)", (entry / "stat").read_text()).group(1)) != self.process.pid:
                    continue
                environment = (entry / "environ").read_bytes().split(b"\0")
            except (OSError, AttributeError):
                continue
            ranks = [int(word[21:]) for word in environment if word.startswith(b"OMPI_COMM_WORLD_RANK=")]
            if ranks:
                found[ranks[0]] = int(entry.name)
        return [found[rank] for rank in sorted(found)]

    def stop(self, seconds=20):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise AssertionError(f"still running {seconds} s after SIGTERM:\n{self.log.read_text()}")


def answers(group):
    """What must not depend on the ranks: texts and the bits of log-probabilities, of short and long prompts."""
    asked = [dict(prompt="The capital of France is", temperature=0),
             dict(prompt="Once upon a time", temperature=0.9, seed=11, top_p=0.95),
             dict(prompt="A long story. " * 25, temperature=0.7, seed=5)]
    found = []
    for body in asked:
        answer = group.ask(max_tokens=16, logprobs=5, ignore_eos=True, **body)
        found.append([(choice["text"], choice["logprobs"]) for choice in answer["choices"]])
    return found
