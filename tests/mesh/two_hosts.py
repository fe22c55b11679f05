"""Two network namespaces with addresses of their own stand for two hosts: a rank in each, started by mpirun through the
launch agent `ip netns exec`, gives the bits of one rank; a rank that is killed or stopped on the other host is noticed.
Needs root and the package iproute2.

    two_hosts.py PROGRAM MODEL
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import kill_ranks
from group import Group, answers

SPACES = {"grokd-a": "10.77.0.1", "grokd-b": "10.77.0.2"}


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def make_spaces():
    for space in SPACES:
        ip("netns", "add", space)
    ip("link", "add", "grokd0", "netns", "grokd-a", "type", "veth", "peer", "name", "grokd0", "netns", "grokd-b")
    for space, address in SPACES.items():
        ip("-n", space, "address", "add", address + "/24", "dev", "grokd0")
        ip("-n", space, "link", "set", "grokd0", "up")
        ip("-n", space, "link", "set", "lo", "up")


def remove_spaces():
    for space in SPACES:
        subprocess.run(["ip", "netns", "delete", space], stderr=subprocess.DEVNULL)


def launcher(folder):
    """mpirun's words for a rank in each space. The agent is called as ssh would be: host, then the command."""
    agent = folder / "agent"
    agent.write_text('#!/bin/sh\nshift\nexec ip netns exec grokd-b sh -c "$*"\n')
    agent.chmod(0o755)
    network = "10.77.0.0/24"
    return ["--host", ",".join(f"{address}:1" for address in SPACES.values()), "--mca", "plm_rsh_agent", str(agent),
            "--mca", "btl_tcp_if_include", network, "--mca", "oob_tcp_if_include", network]


def address_space_of(pid):
    return subprocess.run(["ip", "netns", "identify", str(pid)], capture_output=True, text=True).stdout.strip()


def rank_pids(program):
    """By namespace: of this program's servers."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].decode(errors="replace") == program:
            found[address_space_of(entry.name)] = int(entry.name)
    return found


def lose_rank(program, model, folder, how):
    words = ["--collective-timeout", str(kill_ranks.TIMEOUT)]
    group = Group(program, model, 2, folder / "log", *words, launcher=launcher(folder)).wait_ready()
    clients = [kill_ranks.Client(group) for _ in range(3)]
    time.sleep(0.5)
    hit = time.monotonic()
    os.kill(rank_pids(program)["grokd-b"], how)
    status = group.process.wait(kill_ranks.TIMEOUT + 12)
    for client in clients:
        client.join(5)
    noticed = max(client.ended_at for client in clients) - hit
    print(f"{how.name} of the rank on the other host: clients knew after {noticed:.2f} s, launcher exited with {status} "
          f"after {time.monotonic() - hit:.2f} s, {[client.end for client in clients]}", flush=True)
    assert status != 0 and noticed < kill_ranks.allowed_seconds(how)


def inside(program, model):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        alone = Group(program, model, 1, folder / "log").wait_ready()
        wanted = answers(alone)
        alone.stop()
        pair = Group(program, model, 2, folder / "log", launcher=launcher(folder)).wait_ready()
        print("ranks in", sorted(rank_pids(program)), flush=True)
        assert sorted(rank_pids(program)) == sorted(SPACES)
        assert answers(pair) == wanted
        print("equal bits", flush=True)
        pair.stop()
        for how in (signal.SIGKILL, signal.SIGSTOP):
            lose_rank(program, model, folder, how)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        inside(*sys.argv[2:])
    else:
        remove_spaces()
        make_spaces()
        try:
            words = [sys.executable, "-B", __file__, "--inside", str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2]]
            sys.exit(subprocess.run(["ip", "netns", "exec", "grokd-a", *words]).returncode)
        finally:
            remove_spaces()
