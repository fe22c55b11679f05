"""The same request gives the same answer: streamed or plain, alone or in company, over HTTP or on the command line."""
import json
import pathlib
import random
import re
import struct
import subprocess
import threading
import urllib.request

import struct
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "deploy/demo-model")
PROMPTS = ["Once upon a time", "The fox said", "In a small house by the sea", "<|user|>\nWhat is 7 + 5?\n<|assistant|>\n"]


def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def events(raw):
    lines = [line[6:] for line in raw.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def plain(server, path, body):
    """{choice index: (text, logprobs, token ids, finish, stop reason)}, usage"""
    answer = json.loads(post(server, path, body))
    choices = {}
    for c in answer["choices"]:
        text = c["text"] if "text" in c else c["message"]["content"]
        choices[c["index"]] = (text, flat_logprobs([c["logprobs"]]), c.get("token_ids"), c["finish_reason"],
                               c["stop_reason"])
    return choices, answer["usage"]


def flat_logprobs(parts):
    """The pieces of a stream joined: every list appended in order."""
    joined = {}
    for part in parts:
        for key, value in (part or {}).items():
            if isinstance(value, list):
                joined.setdefault(key, []).extend(value)
    return joined


def streamed(server, path, body):
    pieces, usage = {}, None
    for event in events(post(server, path, {**body, "stream": True, "stream_options": {"include_usage": True}})):
        usage = event["usage"] or usage
        for c in event["choices"]:
            pieces.setdefault(c["index"], []).append(c)
    choices = {}
    for index, parts in pieces.items():
        text = "".join(p["text"] if "text" in p else p["delta"].get("content", "") for p in parts)
        ids = [t for p in parts for t in p.get("token_ids") or []] if body.get("return_token_ids") else None
        choices[index] = (text, flat_logprobs([p["logprobs"] for p in parts]), ids, parts[-1]["finish_reason"],
                          parts[-1]["stop_reason"])
    return choices, usage


def random_body(draw):
    body = {"seed": draw.randrange(-2**63, 2**63), "max_tokens": draw.randrange(1, 40)}
    options = {
        "temperature": lambda: draw.choice([0, 0.3, 0.8, 1.3]), "top_p": lambda: draw.choice([0.2, 0.9, 1]),
        "top_k": lambda: draw.choice([0, 1, 5, 50]), "min_p": lambda: draw.choice([0, 0.05]),
        "n": lambda: draw.randrange(1, 4), "presence_penalty": lambda: draw.choice([-0.5, 0.7]),
        "frequency_penalty": lambda: draw.choice([-0.3, 0.4]), "repetition_penalty": lambda: draw.choice([1, 1.2]),
        "stop": lambda: draw.choice([".", ["and", " the"], "\n", ["zzzz"]]), "ignore_eos": lambda: draw.choice([True, False]),
        "return_token_ids": lambda: True, "logit_bias": lambda: {str(draw.randrange(4, 4096)): draw.choice([-100, 2, 5])},
        "min_tokens": lambda: draw.randrange(0, body["max_tokens"] + 1),
    }
    for name in draw.sample(sorted(options), draw.randrange(0, 7)):
        body[name] = options[name]()
    return body


def test_stream_and_plain_replies_are_equal_for_200_random_parameter_sets(server):
    draw = random.Random(1)
    for i in range(200):
        body = random_body(draw)
        if i % 2:
            path = "/v1/chat/completions"
            body["messages"] = [{"role": "user", "content": draw.choice(["Tell me a story", "What is the capital of France?"])}]
            if draw.random() < 0.5:
                body |= {"logprobs": True, "top_logprobs": draw.randrange(0, 4)}
        else:
            path = "/v1/completions"
            body["prompt"] = draw.choice(PROMPTS)
            if draw.random() < 0.5:
                body |= {"logprobs": draw.randrange(0, 4), "echo": draw.choice([True, False])}
        assert streamed(server, path, body) == plain(server, path, body), body


def test_sixteen_streams_at_once_each_equal_the_same_request_alone(server):
    bodies = [{"prompt": PROMPTS[i % 4], "max_tokens": 64, "seed": i, "temperature": i % 2 * 0.9} for i in range(16)]
    alone = [streamed(server, "/v1/completions", body)[0] for body in bodies]
    together = [None] * len(bodies)

    def ask(i):
        together[i] = streamed(server, "/v1/completions", bodies[i])[0]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


@pytest.fixture(scope="session")
def program(request):
    return request.config.getoption("--server")


def test_generate_says_what_the_server_says(server, program):
    body = {"prompt": "Once upon a time", "max_tokens": 64, "temperature": 0}
    over_http = plain(server, "/v1/completions", body)[0][0][0]
    command = [program, "generate", "--model", MODEL, "--prompt", body["prompt"], "--max-tokens", "64", "--temperature", "0"]
    for _ in range(2):
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == over_http + "\n"


def test_perplexity_over_http_has_the_bits_of_grokd_score(server, program, tmp_path):
    script = re.search(r"```python\n(import array, json.*?)```", (ROOT / "docs/api.md").read_text(), re.S).group(1)
    text = tmp_path / "text.txt"
    text.write_text((ROOT / "deploy/demo-model/samples.txt").read_text()[:1500])
    (tmp_path / "perplexity.py").write_text(script)
    printed = subprocess.run(["python3", str(tmp_path / "perplexity.py"), server.url, str(text)], check=True,
                             capture_output=True, text=True).stdout
    command = [program, "score", "--model", MODEL, "--text", str(text), "--json"]
    score = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert score["windows"] == 1
    assert float(printed) == score["perplexity"]
    body = {"prompt": text.read_text(), "max_tokens": 0, "echo": True, "logprobs": 0}
    echoed = json.loads(post(server, "/v1/completions", body))["choices"][0]["logprobs"]["token_logprobs"][1:]
    assert len(echoed) == score["scored"]
    assert struct.pack(f"{len(echoed)}f", *echoed) == struct.pack(f"{len(echoed)}f", *score["token_logprobs"])
