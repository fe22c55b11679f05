"""What crowds of bad clients cost the good ones: latency of small requests before and during each crowd, memory, failures.

    crowd.py [--server PROGRAM] [--scale 1.0] [server flags...]

Crowds at scale 1: 500 sockets that send half a header, 4,096 idle connections, 10,000 connections that are opened and closed
at once, 50 streams that are never read (measured against 50 that are). Exit status 1 when a good request failed or was
answered wrongly, when memory grew by more than 150 MiB, or (scale 1) when the median latency rose by more than 20 %."""
import argparse
import json
import pathlib
import resource
import socket
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from grokd_server import ROOT, Server, percentile  # noqa: E402

SMALL = {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}
ROUNDS = 4
LONG = {"prompt": "Hi", "max_tokens": 400, "ignore_eos": True, "stream": True, "seed": 1}


def request_bytes(body):
    text = json.dumps(body)
    return f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


class GoodClient:
    """One connection that is kept: what is measured is the answer, not the connecting."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.answer = None
        self.seconds, self.failed = [], 0

    def ask(self):
        started = time.monotonic()
        self.socket.sendall(request_bytes(SMALL))
        seen = b""
        while b"\r\n\r\n" not in seen:
            seen += self.socket.recv(65536)
        head, _, body = seen.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += self.socket.recv(65536)
        self.seconds.append(time.monotonic() - started)
        text = json.loads(body).get("choices", [{}])[0].get("text")
        self.answer = self.answer if self.answer is not None else text
        self.failed += b" 200 " not in head or text != self.answer

    def ask_for(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.ask()


def measure(server, seconds, crowd=None):
    """Figures of a good client while `crowd(ready, stop)` runs beside it."""
    good, ready, stop = GoodClient(server.port), threading.Event(), threading.Event()
    thread = threading.Thread(target=crowd, args=(ready, stop)) if crowd else None
    if thread:
        thread.start()
        ready.wait(60)  # the crowd connects from this process: its own work is not to be measured
    good.ask_for(seconds)
    memory = server.memory_mib()
    stop.set()
    if thread:
        thread.join()
    good.socket.close()
    return good, memory


def half_headers(server, count):
    def crowd(ready, stop):
        clients = [socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(count)]
        ready.set()
        while not stop.wait(0.5):  # a byte now and then, as slow attackers do
            for client in clients:
                try:
                    client.send(b"G")
                except OSError:
                    pass
        for client in clients:
            client.close()
    return crowd


def idle(server, count):
    def crowd(ready, stop):
        clients = [socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(count)]
        ready.set()
        stop.wait()
        for client in clients:
            client.close()
    return crowd


def in_and_out(server, count):
    def crowd(ready, stop):
        ready.set()
        for number in range(count):
            socket.create_connection(("127.0.0.1", server.port), 30).close()
            if number % 100 == 99:
                time.sleep(0.04)  # 2,500 a second, not as fast as this machine can
            if stop.is_set():
                return
    return crowd


def streams(server, count, read):
    def crowd(ready, stop):
        clients = []
        for _ in range(count):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096 if not read else 1 << 20)
            client.connect(("127.0.0.1", server.port))
            client.sendall(request_bytes(LONG))
            client.setblocking(False)
            clients.append(client)
        ready.set()
        while not stop.wait(0.02):
            for client in clients if read else []:
                try:
                    client.recv(1 << 16)
                except OSError:
                    pass
        for client in clients:
            client.close()
    return crowd


def run(program, scale, flags, folder):
    """(lines of figures, what went wrong)"""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    server = Server(program, pathlib.Path(folder) / "crowd.log", "--max-connections", 6000, "--max-waiting", 2000,
                    "--log-level", "warn", *flags).wait_ready()
    lines, wrong = [], []
    seconds = 4 * scale if scale < 1 else 4
    sizes = [max(1, int(count * scale)) for count in (500, 4096, 10000, 50)]
    crowds = [(f"{sizes[0]} half headers", None, half_headers(server, sizes[0])),
              (f"{sizes[1]} idle connections", None, idle(server, sizes[1])),
              (f"{sizes[2]} connects and closes", None, in_and_out(server, sizes[2])),
              (f"{sizes[3]} streams nobody reads", streams(server, sizes[3], True), streams(server, sizes[3], False))]
    try:
        measure(server, seconds / 2)
        for name, baseline, crowd in crowds:
            # By turns: what else the machine does then falls on both alike.
            before, during, failed, memory_before, memory = [], [], 0, 0, 0
            for _ in range(ROUNDS):
                for times, beside in ((before, baseline), (during, crowd)):
                    good, now = measure(server, seconds / ROUNDS, beside)
                    server.wait_idle(60)
                    times += good.seconds
                    failed += good.failed
                    memory_before, memory = memory_before or now, max(memory, now)
            medians = [statistics.median(times) for times in (before, during)]
            lines.append(f"{name}: {len(during)} requests, {failed} failed; median {medians[0] * 1000:.2f} -> "
                         f"{medians[1] * 1000:.2f} ms, P99 {percentile(before, 0.99) * 1000:.2f} -> "
                         f"{percentile(during, 0.99) * 1000:.2f} ms; memory {memory_before:.0f} -> {memory:.0f} MiB")
            if failed or not during:
                wrong.append(f"{name}: {failed} requests failed")
            if memory > memory_before + 150:
                wrong.append(f"{name}: memory grew by {memory - memory_before:.0f} MiB")
            if scale >= 1 and medians[1] > medians[0] * 1.2:
                wrong.append(f"{name}: the median rose by more than 20 %")
    finally:
        if server.stop() != 0:
            wrong.append("the server did not end cleanly")
    return lines, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=str(ROOT / "build/release/service/grokd"))
    parser.add_argument("--scale", type=float, default=1.0)
    arguments, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        lines, wrong = run(arguments.server, arguments.scale, flags, folder)
    print("\n".join(lines + [f"WRONG: {line}" for line in wrong]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
