"""A real grokd process on a free port, for the Python tests of every folder."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO_MODEL = ROOT / "deploy/demo-model"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class Server:
    """`command_prefix` stands before the program (prlimit, env...); `model` None leaves --model to the flags."""

    def __init__(self, program, log, *flags, port=None, model=DEMO_MODEL, environment=None, command_prefix=()):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = pathlib.Path(log)
        with open(log, "a") as output:
            self.process = subprocess.Popen(
                [*command_prefix, program, "serve", *(["--model", str(model)] if model else []), "--port", str(self.port),
                 *map(str, flags)],
                stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})

    def get(self, path, timeout=10):
        with urllib.request.urlopen(self.url + path, timeout=timeout) as answer:
            return answer.read().decode()

    def wait_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the server ended:\n{self.log.read_text()}"
            try:
                self.get("/readyz")
                return self
            except OSError:
                time.sleep(0.05)
        raise TimeoutError(f"not ready after {seconds} s:\n{self.log.read_text()}")

    def gauge(self, name):
        """Sum of a metric over its labels."""
        values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", self.get("/metrics"), re.M)
        return sum(map(float, values))

    def wait_idle(self, seconds):
        """Whether no request runs or waits, within the time given."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.gauge("grokd_requests_running") == 0 and self.gauge("grokd_requests_waiting") == 0:
                return True
            time.sleep(0.02)
        return False

    def memory_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self, patience=40):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "killed"
