"""Starts real servers for real clients. Each test asks for `server` (the demo model, default flags) or makes its own
with `start_server(flags...)`."""
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pytest_addoption(parser):
    parser.addoption("--server", default="build/release/service/grokd", help="path of the grokd program")


class Server:
    def __init__(self, program, log, *flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        with open(log, "w") as output:
            self.process = subprocess.Popen(
                [program, "serve", "--model", str(ROOT / "deploy/demo-model"), "--port", str(self.port), *flags],
                stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode()

    def wait_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the server ended:\n{self.log.read_text()}"
            try:
                self.get("/readyz")
                return
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

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "killed"


@pytest.fixture(scope="session")
def start_server(request, tmp_path_factory):
    program, folder, servers = request.config.getoption("--server"), tmp_path_factory.mktemp("servers"), []

    def start(*flags):
        server = Server(program, folder / f"{len(servers)}.log", *flags)
        servers.append(server)
        server.wait_ready()
        return server

    yield start
    endings = [server.stop() for server in servers]
    assert endings == [0] * len(servers), "a server did not end cleanly on SIGTERM"


@pytest.fixture(scope="session")
def server(start_server):
    return start_server()


SLOW = ("--backend", "reference")  # some 100 tokens a second: long enough to leave in the middle of an answer


@pytest.fixture(scope="session")
def slow_server(start_server):
    return start_server(*SLOW)
