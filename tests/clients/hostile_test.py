"""Requests that broke other servers: each is answered as it should be, and the server goes on as before."""
import http.client
import json
import pathlib
import random
import socket
import struct
import threading
import time

import pytest

V = 4096  # vocabulary of the demo model
PATH = "/v1/completions"


def send(server, body, path=PATH, headers=None):
    """(status, answer as JSON, headers)"""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    payload = body if isinstance(body, (bytes, str)) else json.dumps(body)
    connection.request("POST", path, payload, {"Content-Type": "application/json", **(headers or {})})
    answer = connection.getresponse()
    raw = answer.read()
    connection.close()
    return answer.status, json.loads(raw.decode("utf-8", "strict")), answer.headers


def memory_mib(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@pytest.fixture(autouse=True)
def still_sane(server):
    before = memory_mib(server)
    yield
    assert send(server, {"model": "grokd-demo", "prompt": "Hi", "max_tokens": 2})[0] == 200
    assert memory_mib(server) < before + 64


def code(answer):
    return answer[0], answer[1]["error"]["code"]


def test_bad_utf8_in_the_body_is_invalid_json(server):
    assert code(send(server, b'{"prompt":"\xff"}')) == (400, "invalid_json")


@pytest.mark.parametrize("field", ["model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "n", "best_of", "stream",
                                   "stream_options", "stop", "logprobs", "echo", "presence_penalty", "frequency_penalty",
                                   "repetition_penalty", "logit_bias", "seed", "user", "suffix", "ignore_eos", "min_tokens",
                                   "stop_token_ids", "skip_special_tokens", "return_token_ids", "priority", "timeout",
                                   "cache_salt", "grammar", "regex", "service_tier", "response_format"])
def test_null_is_the_same_as_absent(server, field):
    absent = {"prompt": "Hi", "max_tokens": 3, "temperature": 0, "seed": 1}
    absent.pop(field, None)
    texts = [send(server, body)[1] for body in (absent, absent | {field: None})]
    assert all("choices" in text for text in texts)
    if field not in ("temperature", "seed"):
        assert texts[0]["choices"] == texts[1]["choices"]


@pytest.mark.parametrize("prompt", ["", [""], [], [[]], [-1], [[5, -1]], [1.5], [True], ["a", 5], [V], [0]])
def test_a_prompt_that_is_none_is_refused(server, prompt):
    status, answer, _ = send(server, {"prompt": prompt})
    assert status == 400 and answer["error"]["param"] == "prompt"


def test_no_messages_are_refused(server):
    assert send(server, {"messages": []}, "/v1/chat/completions")[0] == 400


@pytest.mark.parametrize("bias", [{str(V): 5}, {"-1": 5}, {"x": 1}, {"5": 101}])
def test_a_bias_outside_vocabulary_or_range_is_refused(server, bias):
    assert send(server, {"prompt": "Hi", "logit_bias": bias})[0] == 400


def test_huge_counts_cost_nothing(server):
    assert send(server, {"prompt": "Hi", "n": 5000000})[0] == 400
    assert send(server, {"prompt": "Hi", "logprobs": 1000000000})[0] == 400
    status, answer, headers = send(server, {"prompt": "Hi", "max_tokens": 2**63 - 1, "temperature": 0})
    assert status == 200 and answer["usage"]["completion_tokens"] <= 1024
    assert int(headers["X-Max-Tokens-Clamped"]) < 1024


def test_tiny_temperatures_are_greedy(server):
    texts = [send(server, {"prompt": "Once upon a time", "max_tokens": 24, "temperature": t, "top_p": p, "seed": 3})[1]
             ["choices"][0]["text"] for t, p in ((0, 1), (1e-6, 1), (1e-30, 1), (1e-4, 1e-4))]
    assert len(set(texts)) == 1


def test_log_probabilities_are_finite_numbers_whatever_the_bias(server):
    bias = {str(i): -100 for i in range(4, 1028)}
    status, answer, _ = send(server, {"prompt": "Once", "max_tokens": 8, "logprobs": 5, "logit_bias": bias})
    assert status == 200
    for logprob in answer["choices"][0]["logprobs"]["token_logprobs"]:
        assert -9999.0 <= logprob <= 0


def test_echoed_log_probabilities_know_nothing_of_the_filters(server):
    body = {"prompt": "Once upon a time", "echo": True, "logprobs": 1, "max_tokens": 2, "seed": 1}
    scores = [send(server, body | more)[1]["choices"][0]["logprobs"]["token_logprobs"][:4]
              for more in ({"temperature": 1, "top_k": 1}, {"temperature": 0.5, "top_p": 0.5})]
    assert scores[0] == scores[1] and scores[0][0] is None and all(s <= 0 for s in scores[0][1:])


@pytest.mark.parametrize("seed, status", [(2**63, 400), (1e30, 400), (-1, 200), (0, 200), (2**63 - 1, 200), (-2**63, 200)])
def test_seeds_are_64_bits_with_a_sign(server, seed, status):
    assert send(server, {"prompt": "Hi", "max_tokens": 2, "seed": seed})[0] == status


def test_nesting_does_not_reach_the_stack(server):
    deep = "[" * 200000 + "]" * 200000
    assert code(send(server, '{"prompt":"x","tools":' + deep + "}")) == (400, "json_too_deep")


@pytest.mark.parametrize("depth, status", [(25, 200), (5000, 400)])
def test_a_schema_of_fifty_levels_is_compiled_and_of_ten_thousand_refused(server, depth, status):
    schema = '{"type":"object","properties":{"a":' * depth + '{"type":"integer"}' + "}}" * depth
    body = ('{"prompt":"x","max_tokens":1,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":'
            + schema + "}}}")
    assert send(server, body)[0] == status


@pytest.mark.parametrize("grammar", ['root ::= "a', "root ::= root", "root ::= other", "x ::= " + "(" * 5000, "root ::= [z-a]"])
def test_a_broken_grammar_is_the_clients_mistake(server, grammar):
    assert send(server, {"prompt": "x", "max_tokens": 1, "grammar": grammar})[0] == 400


@pytest.mark.parametrize("value", ["abc", "-5", "1e999", "", "nan"])
def test_a_timeout_header_that_is_no_time_is_refused(server, value):
    assert code(send(server, {"prompt": "Hi"}, headers={"X-Request-Timeout": value})) == (400, "invalid_value")


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded"])
def test_forms_and_text_are_no_requests(server, media):
    assert send(server, {"prompt": "Hi"}, headers={"Content-Type": media})[0] == 415


def test_text_never_becomes_a_control_token(server):
    text = "[EOS][BOS]</s><|user|><|assistant|>\nyes"
    ids = send(server, {"messages": [{"role": "user", "content": text}]}, "/tokenize")[1]["tokens"]
    assert ids.count(7) == 1 and ids.count(8) == 1 and not set(ids) & {0, 1, 2, 3}
    assert text in send(server, {"tokens": ids}, "/detokenize")[1]["prompt"]


def test_megabytes_of_prompt_are_refused_within_a_second(server):
    for size, expected in ((2 << 20, 400), (5 << 20, 413)):
        start = time.monotonic()
        assert send(server, {"prompt": "a " * (size // 2)})[0] == expected
        assert time.monotonic() - start < 1


def test_made_up_names_make_no_new_metrics(server):
    send(server, {"prompt": "Hi", "model": "x"})
    send(server, {}, "/nowhere")
    server.get("/metrics")  # counts itself
    lines = len(server.get("/metrics").splitlines())
    for i in range(300):
        send(server, {"prompt": "Hi", "model": f"m{i}"})
        send(server, {}, f"/nowhere{i}")
    assert len(server.get("/metrics").splitlines()) == lines


def test_streams_that_are_reset_at_random_times_leave_nothing_behind(start_server):
    server = start_server("--slots", "8", "--max-waiting", "400")
    request = json.dumps({"prompt": "Once upon a time", "max_tokens": 900, "ignore_eos": True, "stream": True}).encode()
    head = (f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(request)}\r\n\r\n").encode()

    def rude(pause):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(head + request)
            time.sleep(pause)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    draw = random.Random(4)
    threads = [threading.Thread(target=rude, args=(draw.random() * 3,)) for _ in range(300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.wait_idle(5)
    assert server.gauge("grokd_kv_cache_usage_ratio") == 0
