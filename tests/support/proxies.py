"""Debian's nginx and HAProxy with the configurations of deploy/proxies, on free ports."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time

from grokd_server import ROOT, free_port

CONFIGURATIONS = ROOT / "deploy/proxies"


def find(program):
    return shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")


class Proxy:
    """Listens on `port` in front of `servers` (two ports)."""

    def __init__(self, command, port, log):
        self.port, self.url, self.log = port, f"http://127.0.0.1:{port}", log
        with open(log, "w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, pathlib.Path(log).read_text()
                assert time.monotonic() < deadline, "the proxy does not listen"
                time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


def with_ports(text, front, servers, changes):
    for old, new in [("8080", front), ("8081", servers[0]), ("8082", servers[1]), *changes]:
        text, found = re.subn(rf"\b{old}\b", str(new), text)
        assert found, f"{old} is not in the configuration"
    return text


def nginx(folder, servers, *changes):
    port, folder = free_port(), pathlib.Path(folder)
    site = with_ports((CONFIGURATIONS / "nginx.conf").read_text(), f"127.0.0.1:{port}", servers, changes)
    paths = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in
                    ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "site.conf").write_text(site)
    user = "user root; " if os.getuid() == 0 else ""  # else its workers could not keep large bodies here
    (folder / "nginx.conf").write_text(
        f"{user}daemon off; worker_processes 1; pid {folder}/pid; error_log stderr notice;\n"
        f"events {{ worker_connections 4096; }}\nhttp {{ access_log off; {paths} include {folder}/site.conf; }}\n")
    return Proxy([find("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf")], port, folder / "nginx.log")


def haproxy(folder, servers, *changes):
    port, folder = free_port(), pathlib.Path(folder)
    text = with_ports((CONFIGURATIONS / "haproxy.cfg").read_text(), port, servers, changes)
    (folder / "haproxy.cfg").write_text(text)
    return Proxy([find("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")], port, folder / "haproxy.log")


def tls_tunnel(folder, server_port):
    """A plain port whose bytes reach the server over TLS, unchanged."""
    port, folder = free_port(), pathlib.Path(folder)
    (folder / "tunnel.cfg").write_text(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 120s\n timeout server 120s\n"
        f"listen tunnel\n bind 127.0.0.1:{port}\n server s 127.0.0.1:{server_port} ssl verify none\n")
    return Proxy([find("haproxy"), "-db", "-f", str(folder / "tunnel.cfg")], port, folder / "tunnel.log")
