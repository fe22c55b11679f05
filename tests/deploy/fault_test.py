"""Faults of the machine under the finished program: no room for logs, no descriptors, a clock that jumps, a process that
is stopped. Faults of the engine (a stall, a failed step, numbers that are not finite) are in tests/service."""
import concurrent.futures
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

from grokd_server import Server

BODY = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}


def ask(server, body=BODY, timeout=30):
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.loads(answer.read())


def ask_many(server, count, clients=8):
    """How many of the answers are right."""
    expected = ask(server)["choices"][0]["text"]
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(lambda _: ask(server)["choices"][0]["text"] == expected, range(count)))


def test_a_full_disk_under_the_log_harms_no_request(start_server, tmp_path, program):
    server = Server(program, "/dev/full", "--log-level", "debug").wait_ready()
    try:
        assert ask_many(server, 50) == 50
    finally:
        assert server.stop() == 0


def test_a_log_that_nobody_reads_holds_up_nobody(program, tmp_path):
    from grokd_server import DEMO_MODEL, free_port
    port = free_port()
    reader, writer = os.pipe()  # holds 64 KiB, then every write waits
    process = subprocess.Popen([program, "serve", "--model", DEMO_MODEL, "--port", str(port), "--log-level", "debug"],
                               stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    try:
        server = Server.__new__(Server)
        server.url, server.process, server.log = f"http://127.0.0.1:{port}", process, tmp_path / "none"
        server.wait_ready()
        assert ask_many(server, 400) == 400  # some 200 KB of lines
    finally:
        os.close(reader)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.skipif(not shutil.which("prlimit"), reason="SKIPPED: no prlimit here")
def test_without_file_descriptors_new_clients_wait_and_old_ones_are_served(start_server):
    server = start_server(command_prefix=["prlimit", "--nofile=48:48"])
    expected = ask(server)["choices"][0]["text"]
    crowd = [socket.create_connection(("127.0.0.1", server.port), 5) for _ in range(100)]
    time.sleep(0.3)
    assert server.process.poll() is None
    text = json.dumps(BODY)
    old = crowd[0]  # was accepted first
    old.settimeout(20)
    old.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
    assert json.dumps(expected)[1:-1].encode() in old.recv(65536)
    for client in crowd:
        client.close()
    deadline = time.monotonic() + 10
    while True:
        try:
            assert ask(server, timeout=5)["choices"][0]["text"] == expected
            break
        except OSError:
            assert time.monotonic() < deadline, "the server does not recover"
    assert ask_many(server, 20) == 20


CLOCK = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
/* The wall clock is an hour back as long as the file is there; every other clock is true. */
int clock_gettime(clockid_t clock, struct timespec* time) {
  int result = (int)syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_REALTIME && access(JUMP, F_OK) == 0) time->tv_sec -= 3600;
  return result;
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="SKIPPED: no C compiler here")
def test_a_wall_clock_that_jumps_back_an_hour_ends_no_request(start_server, tmp_path):
    (tmp_path / "clock.c").write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", f'-DJUMP="{tmp_path}/jump"', "-o", tmp_path / "clock.so", tmp_path / "clock.c"],
                   check=True)
    server = start_server("--backend", "reference", "--no-speculation",
                          environment={"LD_PRELOAD": str(tmp_path / "clock.so")})
    now = ask(server)["created"]
    assert abs(now - time.time()) < 60
    long = {"prompt": "Once", "max_tokens": 200, "ignore_eos": True, "timeout": 60, "n": 2, "seed": 1}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(ask, server, long)
        while server.gauge("grokd_requests_running") == 0:
            time.sleep(0.01)
        (tmp_path / "jump").touch()
        assert ask(server)["created"] < now - 3000, "the jump was seen"
        assert json.loads(server.get("/readyz"))["status"] == "ready"
        (tmp_path / "jump").unlink()
        answer = running.result(60)
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["length"] * 2
    assert all(choice["stop_reason"] is None for choice in answer["choices"])
    server.get("/livez")


def test_a_process_that_was_stopped_for_a_while_goes_on(start_server):
    server = start_server("--backend", "reference", "--no-speculation", "--stall-limit", "1")
    long = {"prompt": "Once", "max_tokens": 200, "ignore_eos": True, "seed": 1, "stream": False}
    expected = ask(server, long)["choices"][0]["text"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(ask, server, long, 60)
        while server.gauge("grokd_requests_running") == 0:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        server.process.send_signal(signal.SIGCONT)
        assert running.result(60)["choices"][0]["text"] == expected
    deadline = time.monotonic() + 5
    while json.loads(server.get("/readyz"))["status"] != "ready":
        assert time.monotonic() < deadline
