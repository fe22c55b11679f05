"""Chat formats by name and from a file."""
import json
import subprocess
import urllib.request

import pytest


def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def prompt_of(server, messages):
    ids = post(server, "/tokenize", {"messages": messages})["tokens"]
    return post(server, "/detokenize", {"tokens": ids})["prompt"]


def test_a_file_gives_the_form_of_prompts(start_server, tmp_path):
    file = tmp_path / "letters.json"
    file.write_text(json.dumps({"begin": "Letters.\n", "user": "Q: {content}\n", "assistant": "A: {content}{eos}\n",
                                "generation_prompt": "A:"}))
    server = start_server("--chat-template", str(file))
    assert json.loads(server.get("/v1/models"))["data"][0]["chat_template"] == "letters"
    assert prompt_of(server, [{"role": "user", "content": "hi"}]) == "Letters.\nQ: hi\nA:"


def test_a_built_in_is_chosen_by_name(start_server):
    server = start_server("--chat-template", "grok-2")
    prompt = prompt_of(server, [{"role": "user", "content": "hi"}])
    assert prompt.startswith("Human: hi<|separator|>") and prompt.endswith("Assistant:")


@pytest.mark.parametrize("content, word", [(None, "neither"), ("{", "JSON"), ('{"user":"{content}"}', "assistant")])
def test_a_template_that_is_none_ends_the_program_with_one_line(request, tmp_path, content, word):
    file = tmp_path / "broken.json"
    if content is not None:
        file.write_text(content)
    ended = subprocess.run([request.config.getoption("--server"), "serve", "--model", "deploy/demo-model", "--port", "0",
                            "--chat-template", str(file)], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1 and word in ended.stderr and str(file) in ended.stderr
