"""What the program says when its command line is wrong: one line that names the flag, and exit status 1."""
import subprocess

import pytest


@pytest.fixture
def grokd(request):
    program = request.config.getoption("--server")

    def run(*arguments):
        return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)

    return run


@pytest.mark.parametrize("arguments, word", [
    ([], "subcommand"),
    (["fly"], "fly"),
    (["serve"], "--model"),
    (["serve", "--model", "x", "--port", "99999"], "--port"),
    (["serve", "--model", "x", "--port", "many"], "--port"),
    (["serve", "--model", "x", "--backend", "abacus"], "--backend"),
    (["serve", "--model", "x", "--slots", "0"], "--slots"),
    (["serve", "--model", "x", "--no-such-flag"], "--no-such-flag"),
    (["serve", "--model"], "--model"),
    (["generate", "--temperature", "hot", "--model", "x"], "--temperature"),
    (["score", "--model", "x"], "--text"),
    (["loadtest", "--url", "ftp://x"], "--url"),
    (["bench", "dance", "--model", "x"], "dance"),
    (["synth", "--preset", "huge", "--out", "/tmp/never"], "preset"),
])
def test_a_wrong_command_line_is_one_line_naming_what_is_wrong(grokd, arguments, word):
    ended = grokd(*arguments)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1 and ended.stderr.endswith("\n")
    assert word in ended.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["--version"]])
def test_help_is_no_failure(grokd, arguments):
    ended = grokd(*arguments)
    assert ended.returncode == 0 and ended.stdout and not ended.stderr
