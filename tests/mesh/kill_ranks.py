"""Kills or stops ranks of a serving group at random moments and looks at what clients, launcher and health page see.

    kill_ranks.py PROGRAM MODEL ROUNDS [RANKS [SEED]]

A round: start, stream from three clients without a pause, hit one rank, then: every client hears an error or an end,
the launcher exits with a status that is not 0 within the collective timeout (and the second of last words), no process
is left. That the next round starts shows that a restart works. Prints one line a round and the worst of each kind.
"""
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

from group import Group

TIMEOUT = 3.0  # --collective-timeout of these rounds, in s


class Client(threading.Thread):
    """Asks for one stream after the other until something ends other than well."""

    def __init__(self, group):
        super().__init__(daemon=True)
        self.group, self.end, self.ended_at, self.tokens = group, None, None, 0
        self.start()

    def run(self):
        try:
            while self.end is None:
                self.stream()
        except OSError as error:
            self.end = f"connection: {error}"
        except Exception as error:  # of http.client: an answer that is cut off
            self.end = f"cut off: {error!r}"
        self.ended_at = time.monotonic()

    def stream(self):
        connection = self.group.connect(30)
        body = dict(prompt="Once upon a time", max_tokens=200, ignore_eos=True, stream=True)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            self.end = f"status {answer.status}"
        well = False
        while line := answer.readline():
            self.tokens += line.startswith(b"data: {")
            well |= line.startswith(b"data: [DONE]")
            if b'"error"' in line[:20]:
                self.end = "error event"
        connection.close()
        if not well and self.end is None:
            self.end = "cut off"


def still_runs(pid, seconds=2):
    """A process that is dead and waits to be collected does not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return False
        except OSError:
            return False
        time.sleep(0.05)
    return True


def watch_livez(group, seen):
    while group.process.poll() is None:
        try:
            seen.append(group.get("/livez", 2)[0])
        except Exception:  # the server is ending
            pass
        time.sleep(0.05)


def round_of(program, model, ranks, rank, how, delay, folder):
    """What happened, as a dictionary; raises AssertionError where it is not what must happen."""
    group = Group(program, model, ranks, folder / "log", "--collective-timeout", str(TIMEOUT))
    try:
        group.wait_ready()
        clients, livez = [Client(group) for _ in range(3)], []
        threading.Thread(target=watch_livez, args=(group, livez), daemon=True).start()
        time.sleep(delay)
        pids = group.rank_pids()
        assert len(pids) == ranks, f"{len(pids)} ranks"
        hit = time.monotonic()
        os.kill(pids[rank], how)
        status = group.process.wait(TIMEOUT + 12)
        exited = time.monotonic() - hit
        for client in clients:
            client.join(5)
        assert all(client.end for client in clients), "a client hangs"
        assert status != 0, "the launcher exited with 0"
        left = [pid for pid in pids if still_runs(pid)]
        assert not left, f"left behind: {left}"
        noticed = max(client.ended_at for client in clients) - hit
        return dict(rank=rank, how=how.name, noticed=noticed, exited=exited, status=status,
                    ends=[client.end for client in clients], red=503 in livez, tokens=sum(c.tokens for c in clients))
    finally:
        if group.process.poll() is None:
            os.killpg(group.process.pid, signal.SIGKILL)
            group.process.wait()


def allowed_seconds(how):
    """Until the clients know: of a stopped rank the group waits for a sign, of a dead one the launcher tells."""
    return TIMEOUT + 1 if how == signal.SIGSTOP else 2.5


def main(program, model, rounds, ranks=2, seed=1):
    generator, worst, failed = random.Random(int(seed)), {}, 0
    for number in range(int(rounds)):
        rank = generator.randrange(int(ranks))
        how = generator.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
        with tempfile.TemporaryDirectory() as folder:
            try:
                seen = round_of(program, model, int(ranks), rank, how, generator.uniform(0, 1.2), pathlib.Path(folder))
                assert seen["noticed"] < allowed_seconds(how), f"noticed after {seen['noticed']:.2f} s"
            except AssertionError as error:
                failed += 1
                print(f"{number}: rank {rank} {how.name}: FAILED: {error}", flush=True)
                continue
        kind = (how.name, "rank 0" if rank == 0 else "another rank")
        worst[kind] = max(worst.get(kind, (0, 0)), (seen["noticed"], seen["exited"]))
        print(f"{number}: rank {rank} {how.name}: clients knew after {seen['noticed']:.2f} s, launcher exited with "
              f"{seen['status']} after {seen['exited']:.2f} s, /livez red: {seen['red']}, {seen['ends']}", flush=True)
    for kind, (noticed, exited) in sorted(worst.items()):
        print(f"worst of {' '.join(kind)}: clients {noticed:.2f} s, launcher {exited:.2f} s")
    print(f"{rounds} rounds, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
