"""Every curl line of docs/api.md works as printed."""
import json
import pathlib
import re
import subprocess

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/api.md"


def curl_lines():
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("curl ")]


def test_the_page_has_its_curl_lines():
    assert len(curl_lines()) > 20


@pytest.mark.parametrize("line", curl_lines())
def test_curl_line_of_the_page_works(server, line):
    done = subprocess.run(["bash", "-c", line], env={"GROKD": server.url, "PATH": "/usr/bin:/bin"},
                          capture_output=True, timeout=60, text=True)
    assert done.returncode == 0, done.stderr
    if "/metrics" in line or "/openapi.yaml" in line:
        assert done.stdout
    elif '"stream":true' in line:
        events = [event for event in done.stdout.split("\n\n") if event.startswith("data: ")]
        assert events[-1] == "data: [DONE]"
        assert all(json.loads(event[6:])["id"] for event in events[:-1])
    else:
        assert isinstance(json.loads(done.stdout), dict)


def test_a_seed_gives_the_same_text_again(server):
    line = next(line for line in curl_lines() if '"seed":7' in line)
    texts = {json.loads(subprocess.check_output(["bash", "-c", line], env={"GROKD": server.url, "PATH": "/usr/bin:/bin"}))
             ["choices"][0]["text"] for _ in range(3)}
    assert len(texts) == 1 and texts.pop()
