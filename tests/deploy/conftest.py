"""Real servers, real proxies, real Prometheus. `start_server(flags...)` makes a server of a test's own."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from grokd_server import Server  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--server", default="build/release/service/grokd", help="path of the grokd program")
    parser.addoption("--rolling-seconds", type=float, default=6, help="length of the rolling restarts (by hand: 180)")
    parser.addoption("--soak-seconds", type=float, default=8, help="length of the soak (by hand: tests/soak/soak.py)")
    parser.addoption("--rolling-pause", type=float, default=2.5, help="between two of them (by hand: 10)")


@pytest.fixture(scope="session")
def program(request):
    return str(pathlib.Path(request.config.getoption("--server")).resolve())


@pytest.fixture
def start_server(program, tmp_path):
    servers = []

    def start(*flags, ready=True, **how):
        server = Server(program, tmp_path / f"server-{len(servers)}.log", *flags, **how)
        servers.append(server)
        return server.wait_ready() if ready else server

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.stop()
