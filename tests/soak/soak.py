"""Clients of every kind at full load, for as long as asked; every answer is compared with the text it must be.

    soak.py [--seconds 1200] [--clients 24] [--server PROGRAM] [server flags...]

Kinds: good ones (plain, streamed, chat), slow readers, ones that leave (queued, in the prompt, in the middle of the
answer, by FIN or by reset), rude ones (no HTTP at all, half a header, a body that never ends) and malformed requests.
Prints the figures; exit status 1 when an answer was wrong or lost, or memory or descriptors did not stay."""
import argparse
import collections
import http.client
import json
import os
import pathlib
import random
import socket
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from grokd_server import ROOT, Server, percentile  # noqa: E402

PROMPTS = ["Once upon a time", "The little dog", "What is the capital of France?", "1 + 1 =", "Tom and Anna went to",
           "A red ball", "In the morning", "The king said", "Zürich ist", "日本", "def f(x):", "The rain"]
REQUESTS = [{"prompt": prompt, "max_tokens": tokens, "temperature": temperature, "seed": seed, "ignore_eos": True}
            for seed, prompt in enumerate(PROMPTS) for tokens, temperature in ((5, 0), (24, 1), (60, 0.7))]
JSON = {"Content-Type": "application/json"}


def exchange(port, body, path="/v1/completions", timeout=120):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), JSON)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def text_of_stream(text):
    events = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    assert events and events[-1] == "[DONE]", f"a stream without its end: {text[-200:]!r}"
    parts = [json.loads(event) for event in events[:-1]]
    assert not any("error" in part for part in parts), f"an error in a stream: {text[-300:]!r}"
    return "".join(part["choices"][0]["text"] for part in parts)


class Soak:
    def __init__(self, port, seed):
        self.port, self.random = port, random.Random(seed)
        self.counts = collections.Counter()
        self.seconds, self.wrong, self.bytes = [], [], 0
        self.lock, self.end = threading.Lock(), 0.0
        self.expected = [json.loads(exchange(port, request)[1])["choices"][0]["text"] for request in REQUESTS]
        self.kinds = [(self.plain, 6), (self.streamed, 6), (self.slow, 1), (self.vanish, 3), (self.malformed, 2),
                      (self.rude, 1)]

    def pick(self, chance):
        number = chance.randrange(len(REQUESTS))
        return REQUESTS[number], self.expected[number]

    def open(self, raw):
        client = socket.create_connection(("127.0.0.1", self.port), 30)
        client.sendall(raw)
        return client

    def raw_request(self, body):
        text = json.dumps(body)
        return f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text.encode())}\r\n\r\n{text}".encode()

    def check(self, kind, status, text, expected, started):
        with self.lock:
            if status == 429:
                self.counts["refused"] += 1
                return
            self.counts[kind] += 1
            self.seconds.append(time.monotonic() - started)
            if status != 200 or text != expected:
                self.wrong.append(f"{kind}: {status} {text[:200]!r} instead of {expected[:80]!r}")

    def plain(self, chance):
        request, expected = self.pick(chance)
        started = time.monotonic()
        status, text = exchange(self.port, request)
        self.bytes += len(text)
        self.check("plain", status, json.loads(text)["choices"][0]["text"] if status == 200 else text, expected, started)

    def streamed(self, chance):
        request, expected = self.pick(chance)
        started = time.monotonic()
        status, text = exchange(self.port, request | {"stream": True})
        self.bytes += len(text)
        self.check("streamed", status, text_of_stream(text) if status == 200 else text, expected, started)

    def slow(self, chance):
        """Reads a little, waits, reads on: gets all of it."""
        request, expected = self.pick(chance)
        started = time.monotonic()
        with self.open(self.raw_request(request | {"stream": True})) as client:
            seen = b""
            while not seen.endswith(b"0\r\n\r\n") and (data := client.recv(chance.choice((64, 700, 5000)))):
                seen += data
                time.sleep(chance.random() * 0.02)
                if seen.startswith(b"HTTP/1.1 429"):
                    return
        head, _, body = seen.partition(b"\r\n\r\n")
        joined = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            joined, body = joined + body[:int(size, 16)], body[int(size, 16) + 2:]
        self.check("slow", 200 if b" 200 " in head else 0, text_of_stream(joined.decode()), expected, started)

    def vanish(self, chance):
        request, _ = self.pick(chance)
        client = self.open(self.raw_request(request | {"stream": chance.random() < 0.7, "max_tokens": 200,
                                                       "prompt": request["prompt"] * chance.choice((1, 1, 40))}))
        time.sleep(chance.random() * 0.2)
        if chance.random() < 0.5:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        self.counts["vanished"] += 1

    def malformed(self, chance):
        body = chance.choice([b"{", b'{"prompt":1}', b'{"prompt":"\xff"}', b"[" * 5000, b'{"prompt":"Hi","n":0}', b"null",
                              b'{"prompt":"Hi","temperature":9}', b'{"messages":[]}'])
        status, text = exchange(self.port, body, chance.choice(("/v1/completions", "/v1/chat/completions")))
        with self.lock:
            self.counts["malformed"] += 1
            if status != 400 or "error" not in json.loads(text):
                self.wrong.append(f"malformed {body[:50]!r}: {status} {text[:200]}")

    def rude(self, chance):
        client = self.open(chance.choice([b"\x16\x03\x01\x02\x00", b"GET / HT", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n",
                                          b"GET /livez HTTP/1.1\r\n\r\n", b"\0" * 20000,
                                          b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"]))
        time.sleep(chance.random())
        client.close()
        self.counts["rude"] += 1

    def run_client(self, number, seed):
        chance = random.Random(seed * 1000 + number)
        actions, weights = zip(*self.kinds)
        while time.monotonic() < self.end:
            action = chance.choices(actions, weights)[0]
            try:
                action(chance)
            except (OSError, http.client.HTTPException, AssertionError, ValueError, KeyError) as error:
                with self.lock:
                    if action in (self.rude, self.vanish):  # the server may end such a connection first
                        self.counts["cut off"] += 1
                    else:
                        self.wrong.append(f"{action.__name__}: {error!r}"[:400])

    def run(self, seconds, clients, seed, watch):
        self.end = time.monotonic() + seconds
        threads = [threading.Thread(target=self.run_client, args=(number, seed)) for number in range(clients)]
        for thread in threads:
            thread.start()
        while time.monotonic() < self.end:
            time.sleep(min(1.0, max(0.0, self.end - time.monotonic())))
            watch()
        for thread in threads:
            thread.join()


def soak(program, seconds, clients, seed, flags, folder):
    """(what went wrong, figures as text)"""
    server = Server(program, pathlib.Path(folder) / "soak.log", "--max-waiting", max(clients - 4, 1), "--header-timeout", 2,
                    "--body-timeout", 2, "--log-level", "warn", *flags).wait_ready()
    wrong = []
    try:
        run = Soak(server.port, seed)
        run.run(min(3.0, seconds / 4), clients, seed + 1, lambda: None)  # what is allocated once, is by now
        memory, files = [server.memory_mib()], [server.descriptors()]

        def watch():
            memory.append(server.memory_mib())
            files.append(server.descriptors())

        run.run(seconds, clients, seed, watch)
        wrong += run.wrong
        if not server.wait_idle(30):
            wrong.append("requests are left when nobody asks any more")
        deadline = time.monotonic() + 10
        while server.descriptors() > files[0] and time.monotonic() < deadline:
            time.sleep(0.2)
        idle = server.descriptors()
        growth = max(memory) - memory[0]
        if growth > 64:
            wrong.append(f"memory grew by {growth:.0f} MiB")
        if idle > 60:
            wrong.append(f"{idle} descriptors are open when nobody is connected")
        finished = sum(run.counts[kind] for kind in ("plain", "streamed", "slow"))
        figures = (f"{seconds:.0f} s, {clients} clients: {finished} answers checked, {len(run.wrong)} wrong or lost, "
                   f"{dict(run.counts)}, {run.bytes / 1e6:.1f} MB, P50 {percentile(run.seconds, 0.5) * 1000:.0f} ms, "
                   f"P99 {percentile(run.seconds, 0.99) * 1000:.0f} ms, memory {memory[0]:.0f} -> {memory[-1]:.0f} MiB "
                   f"(most {max(memory):.0f}), descriptors at most {max(files)}, {idle} at the end")
        if finished == 0:
            wrong.append("no answer was checked")
    finally:
        ending = server.stop()
    if ending != 0:
        wrong.append(f"the server ended with {ending}:\n{server.log.read_text()[-2000:]}")
    return wrong, figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    parser.add_argument("--server", default=str(ROOT / "build/release/service/grokd"))
    arguments, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong, figures = soak(arguments.server, arguments.seconds, arguments.clients, arguments.seed, flags, folder)
    print(f"seed {arguments.seed}: {figures}")
    for line in wrong[:20]:
        print("WRONG:", line)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
