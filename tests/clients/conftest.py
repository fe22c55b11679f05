"""Starts real servers for real clients. Each test asks for `server` (the demo model, default flags) or makes its own
with `start_server(flags...)`. With --through, clients reach the server over TLS or through a proxy of deploy/proxies."""
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import proxies  # noqa: E402
from grokd_server import Server  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--server", default="build/release/service/grokd", help="path of the grokd program")
    parser.addoption("--through", choices=["tls", "nginx", "haproxy"], help="how clients reach the server; default: directly")


class Way:
    """What stands between clients and servers."""

    def __init__(self, kind, folder):
        self.kind, self.folder, self.running = kind, folder, []
        if kind == "tls":
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                            "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)

    def flags(self):
        return ["--tls-certificate", self.folder / "cert.pem", "--tls-private-key", self.folder / "key.pem"] \
            if self.kind == "tls" else []

    def put_before(self, server):
        folder = self.folder / str(len(self.running))
        folder.mkdir()
        if self.kind == "tls":
            front = proxies.tls_tunnel(folder, server.port)
        else:
            front = getattr(proxies, self.kind)(folder, [server.port, server.port])
        self.running.append(front)
        server.port, server.url = front.port, front.url

    def stop(self):
        for front in self.running:
            front.stop()


@pytest.fixture(scope="session")
def start_server(request, tmp_path_factory):
    program, folder, servers = request.config.getoption("--server"), tmp_path_factory.mktemp("servers"), []
    way = Way(request.config.getoption("--through"), folder)

    def start(*flags):
        server = Server(program, folder / f"{len(servers)}.log", *way.flags(), *flags)
        servers.append(server)
        if way.kind:
            way.put_before(server)
        return server.wait_ready()

    yield start
    endings = [server.stop() for server in servers]
    way.stop()
    assert endings == [0] * len(servers), "a server did not end cleanly on SIGTERM"


@pytest.fixture(scope="session")
def server(start_server):
    return start_server()


SLOW = ("--backend", "reference")  # some 100 tokens a second: long enough to leave in the middle of an answer


@pytest.fixture(scope="session")
def slow_server(start_server):
    return start_server(*SLOW)
