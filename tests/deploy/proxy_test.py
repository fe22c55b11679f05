"""Behind nginx and HAProxy, configured as deploy/proxies shows: streams come through as they are made, silence does not
end them, and a server can be drained or restarted without a failed request."""
import http.client
import json
import socket
import threading
import time

import pytest

import proxies
from grokd_server import free_port, percentile

BODY = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
PROXIES = [pytest.param(name, marks=pytest.mark.skipif(not proxies.find(name), reason=f"SKIPPED: no {name} here"))
           for name in ("nginx", "haproxy")]


@pytest.fixture
def start_proxy(tmp_path):
    running = []

    def start(name, servers, *changes):
        proxy = getattr(proxies, name)(tmp_path, servers, *changes)
        running.append(proxy)
        return proxy

    yield start
    for proxy in running:
        proxy.stop()


def post(port, body, timeout=60):
    """(status, body as text)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def text_of(stream):
    """Text of a stream that ended as it should."""
    events = [line[6:] for line in stream.split("\n") if line.startswith("data: ")]
    assert events[-1] == "[DONE]" and "error" not in stream, stream[-500:]
    return "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1])


@pytest.mark.parametrize("name", PROXIES)
def test_each_event_of_a_stream_comes_when_it_is_made(start_server, start_proxy, name):
    server = start_server("--backend", "reference")
    proxy = start_proxy(name, [server.port, server.port])
    with socket.create_connection(("127.0.0.1", proxy.port), 10) as client:
        body = json.dumps(BODY | {"max_tokens": 100, "ignore_eos": True, "stream": True})
        client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        seen = b""
        while seen.count(b"data: ") < 2:
            seen += client.recv(65536)
        # Had the proxy held events back, they would come together at the end.
        assert server.gauge("grokd_requests_running") == 1
        while b"[DONE]" not in seen:
            seen += client.recv(65536)
    assert seen.count(b"data: ") > 20


@pytest.mark.parametrize("name", PROXIES)
def test_a_silent_stream_outlasts_the_proxys_idle_timeout(start_server, start_proxy, name):
    timeout = {"nginx": ("proxy_read_timeout 60s", "proxy_read_timeout 1s"), "haproxy": ("server 60s", "server 1s")}[name]
    server = start_server("--backend", "reference", "--slots", "1", "--no-speculation", "--ping-interval", "0.3")
    proxy = start_proxy(name, [server.port, server.port], timeout)
    long = {"prompt": "Once", "n": 4, "max_tokens": 400, "ignore_eos": True, "seed": 1, "stream": True}
    running = threading.Thread(target=post, args=(server.port, long))
    running.start()
    while server.gauge("grokd_requests_running") == 0:
        time.sleep(0.01)
    started = time.monotonic()
    status, stream = post(proxy.port, BODY | {"stream": True})  # waits for the only slot, silently but for comments
    waited = time.monotonic() - started
    running.join()
    assert waited > 1.2, "too short to show anything"
    assert status == 200 and ": ping" in stream
    text_of(stream)


@pytest.mark.parametrize("name", PROXIES)
def test_requests_are_spread_over_the_servers(start_server, start_proxy, name):
    servers = [start_server("--backend", "reference") for _ in range(2)]
    proxy = start_proxy(name, [server.port for server in servers])
    time.sleep(0.7)  # both have been found ready
    long = BODY | {"max_tokens": 60, "ignore_eos": True}
    clients = [threading.Thread(target=post, args=(proxy.port, long)) for _ in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    served = [server.gauge("grokd_request_finished_total") for server in servers]
    assert served == [4, 4]


class Load:
    """Clients that ask one after the other until told to stop; what failed is kept."""

    def __init__(self, port, clients, expected):
        self.port, self.expected = port, expected
        self.tried, self.failures, self.seconds = 0, [], []
        self.going, self.lock = True, threading.Lock()
        self.threads = [threading.Thread(target=self.ask, args=(number,)) for number in range(clients)]
        for thread in self.threads:
            thread.start()

    def ask(self, number):
        stream = number % 2 == 0
        while self.going:
            started, failure = time.monotonic(), None
            try:
                status, text = post(self.port, BODY | {"stream": stream}, timeout=30)
                if status != 200:
                    failure = f"{status} {text[:200]}"
                elif (text_of(text) if stream else json.loads(text)["choices"][0]["text"]) != self.expected:
                    failure = f"another text: {text[:200]}"
            except (OSError, http.client.HTTPException, ValueError, AssertionError, KeyError) as error:
                failure = repr(error)[:300]
            with self.lock:
                self.tried += 1
                self.seconds.append(time.monotonic() - started)
                if failure:
                    self.failures.append(failure)

    def end(self):
        self.going = False
        for thread in self.threads:
            thread.join()
        print(f"\n{self.tried} requests, {len(self.failures)} failed, P99 {percentile(self.seconds, 0.99) * 1000:.0f} ms")
        return self.failures


DRAIN = ("--drain-delay", "1.5", "--drain-timeout", "20")


@pytest.mark.parametrize("name", PROXIES)
def test_draining_one_of_two_servers_fails_no_request(start_server, start_proxy, name):
    servers = [start_server(*DRAIN) for _ in range(2)]
    expected = json.loads(post(servers[0].port, BODY)[1])["choices"][0]["text"]
    proxy = start_proxy(name, [server.port for server in servers])
    time.sleep(0.7)
    load = Load(proxy.port, 4, expected)
    time.sleep(0.5)
    assert servers[0].stop() == 0
    time.sleep(1)
    assert load.end() == []
    assert load.tried > 20


def rolling_restarts(program, folder, start_proxy, seconds, pause):
    """Restarts one server after the other, every `pause` seconds, for `seconds`. Returns the load and the restarts."""
    from grokd_server import Server
    ports = [free_port(), free_port()]
    servers = [Server(program, folder / f"rolling-{i}.log", *DRAIN, port=port) for i, port in enumerate(ports)]
    for server in servers:
        server.wait_ready()
    proxy = start_proxy("haproxy", ports)
    time.sleep(0.7)
    load = Load(proxy.port, 4, json.loads(post(ports[0], BODY)[1])["choices"][0]["text"])
    end, restarts, endings = time.monotonic() + seconds, 0, []
    while time.monotonic() < end:
        which, begun = restarts % 2, time.monotonic()
        endings.append(servers[which].stop())
        servers[which] = Server(program, folder / f"rolling-{which}.log", *DRAIN, port=ports[which]).wait_ready()
        restarts += 1
        time.sleep(max(0.7, pause - (time.monotonic() - begun)))
    failures = load.end()
    for server in servers:
        endings.append(server.stop())
    assert set(endings) == {0}
    return load, failures, restarts


@pytest.mark.skipif(not proxies.find("haproxy"), reason="SKIPPED: no haproxy here")
def test_rolling_restarts_fail_no_request(program, tmp_path, start_proxy, request):
    seconds, pause = request.config.getoption("--rolling-seconds"), request.config.getoption("--rolling-pause")
    load, failures, restarts = rolling_restarts(program, tmp_path, start_proxy, seconds, pause)
    print(f"{restarts} restarts in {seconds} s: {load.tried} requests, {len(failures)} failed")
    assert failures == []
    assert restarts >= 2 and load.tried > 50
