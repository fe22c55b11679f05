"""HTTPS of the server itself: what clients may do to it, and a certificate that is replaced while it runs."""
import http.client
import json
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import time

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="SKIPPED: no openssl to make certificates with")
BODY = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
LONG = BODY | {"max_tokens": 400, "ignore_eos": True}


def make_certificate(folder, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                    "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem",
                    "-out", folder / "cert.pem"], check=True, capture_output=True)


@pytest.fixture
def tls_server(start_server, tmp_path):
    def start(*flags):
        make_certificate(tmp_path, "first")
        server = start_server("--tls-certificate", tmp_path / "cert.pem", "--tls-private-key", tmp_path / "key.pem",
                              "--metrics-port", 0, *flags, ready=False)
        deadline = time.monotonic() + 30
        while "is ready" not in server.log.read_text():
            assert server.process.poll() is None and time.monotonic() < deadline, server.log.read_text()
            time.sleep(0.05)
        return server
    return start


def context(folder, **how):
    made = ssl.create_default_context(cafile=folder / "cert.pem")
    for name, value in how.items():
        setattr(made, name, value)
    return made


def connect(server, folder, **how):
    raw = socket.create_connection(("127.0.0.1", server.port), 20)
    return context(folder, **how).wrap_socket(raw, server_hostname="127.0.0.1")


def request_bytes(body, path="/v1/completions"):
    text = json.dumps(body)
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


def ask(server, folder, body=BODY):
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context(folder))
    connection.request("POST", "/v1/completions", json.dumps(body))
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def load(server, folder):
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context(folder))
    connection.request("GET", "/load")
    return json.loads(connection.getresponse().read())


def becomes_idle(server, folder, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        now = load(server, folder)
        if now["running"] + now["waiting"] == 0:
            return True
        time.sleep(0.05)
    return False


def test_answers_streams_and_keep_alive_go_through(tls_server, tmp_path):
    server = tls_server()
    status, plain = ask(server, tmp_path)
    assert status == 200
    with connect(server, tmp_path) as client:
        assert client.version() == "TLSv1.3"
        for _ in range(2):  # on one connection
            client.sendall(request_bytes(BODY | {"stream": True}))
            seen = b""
            while not seen.endswith(b"0\r\n\r\n"):
                seen += client.recv(65536)
            texts = [json.loads(line[6:])["choices"][0]["text"] for line in seen.split(b"\n")
                     if line.startswith(b"data: {")]
            assert "".join(texts) == json.loads(plain)["choices"][0]["text"]
    big = "x" * 1_000_000  # many records each way
    assert ask(server, tmp_path, {"prompt": big})[0] == 400
    assert "127.0.0.1" in server.log.read_text(), "the client's address is in the log"


def test_old_protocols_plain_text_and_other_protocols_are_refused(tls_server, tmp_path):
    server = tls_server("--header-timeout", "1")
    with pytest.raises(ssl.SSLError):
        connect(server, tmp_path, maximum_version=ssl.TLSVersion.TLSv1_1)
    http2_only = context(tmp_path)
    http2_only.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        http2_only.wrap_socket(socket.create_connection(("127.0.0.1", server.port), 10), server_hostname="127.0.0.1")
    both = context(tmp_path)
    both.set_alpn_protocols(["h2", "http/1.1"])
    with both.wrap_socket(socket.create_connection(("127.0.0.1", server.port), 10),
                          server_hostname="127.0.0.1") as client:
        assert client.selected_alpn_protocol() == "http/1.1"
    for first_bytes in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01", b"", bytes(5000)):
        with socket.create_connection(("127.0.0.1", server.port), 10) as client:
            client.sendall(first_bytes)
            try:
                while data := client.recv(4096):  # an alert at most, and the end within the time for a header
                    assert b"HTTP" not in data
            except ConnectionResetError:
                pass
    assert ask(server, tmp_path)[0] == 200


@pytest.mark.parametrize("leave", ["close", "reset"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(tls_server, tmp_path, leave, stream):
    server = tls_server("--backend", "reference")
    client = connect(server, tmp_path)
    client.sendall(request_bytes(LONG | {"stream": stream}))
    deadline = time.monotonic() + 10
    while load(server, tmp_path)["running"] == 0:
        assert time.monotonic() < deadline
    if leave == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert becomes_idle(server, tmp_path, 3)


def test_a_reader_that_stops_reading_is_cut_off(tls_server, tmp_path):
    server = tls_server("--slow-reader-timeout", "0.5", "--max-output-bytes", "32768")
    assert becomes_idle(server, tmp_path, 3)  # what is opened once is open now
    free = server.descriptors()
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", server.port))
    client = context(tmp_path).wrap_socket(raw, server_hostname="127.0.0.1")
    client.sendall(request_bytes(LONG | {"stream": True, "n": 16, "logprobs": 5}))
    assert becomes_idle(server, tmp_path, 20)
    deadline = time.monotonic() + 10
    while server.descriptors() > free and time.monotonic() < deadline:
        time.sleep(0.1)
    assert server.descriptors() <= free, "the connection's descriptors are free again"
    client.close()


def test_a_new_certificate_is_shown_after_sighup_and_a_bad_one_is_not_taken(tls_server, tmp_path):
    server = tls_server()

    def shown():
        with connect(server, tmp_path, check_hostname=False, verify_mode=ssl.CERT_NONE) as client:
            return client.getpeercert(True)

    def after_hangup(wanted):
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while wanted not in server.log.read_text():
            assert time.monotonic() < deadline, server.log.read_text()
            time.sleep(0.05)

    first = shown()
    (tmp_path / "key.pem").write_text("nonsense")
    after_hangup("reload failed")
    assert shown() == first
    make_certificate(tmp_path, "second")
    after_hangup('"reloaded"')
    assert shown() != first
    assert ask(server, tmp_path)[0] == 200


@pytest.mark.parametrize("certificate, key, word", [("missing.pem", "key.pem", "missing.pem"),
                                                    ("cert.pem", "missing.pem", "missing.pem"),
                                                    ("cert.pem", "other.pem", "other.pem")])
def test_files_that_cannot_be_used_are_named_in_one_line(program, tmp_path, certificate, key, word):
    make_certificate(tmp_path, "other")
    (tmp_path / "key.pem").rename(tmp_path / "other.pem")
    make_certificate(tmp_path, "first")
    ended = subprocess.run([program, "serve", "--model", "deploy/demo-model", "--port", "0", "--tls-certificate",
                            tmp_path / certificate, "--tls-private-key", tmp_path / key],
                           capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1 and word in ended.stderr


def test_a_drain_ends_streams_as_without_tls(tls_server, tmp_path):
    server = tls_server("--backend", "reference", "--drain-timeout", "0.3")
    with connect(server, tmp_path) as client:
        client.sendall(request_bytes(LONG | {"stream": True}))
        seen = client.recv(4096)
        server.process.send_signal(signal.SIGTERM)
        while data := client.recv(65536):
            seen += data
    assert b"shutting_down" in seen and b"data: [DONE]" in seen and seen.endswith(b"0\r\n\r\n")
    assert server.process.wait(10) == 0
