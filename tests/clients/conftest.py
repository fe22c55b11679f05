"""Starts real servers for real clients. Each test asks for `server` (the demo model, default flags) or makes its own
with `start_server(flags...)`."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from grokd_server import Server  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--server", default="build/release/service/grokd", help="path of the grokd program")


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
