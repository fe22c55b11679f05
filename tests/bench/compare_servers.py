#!/usr/bin/python3
"""Even streams while long prompts arrive: grokd beside llama-server on the same weights; prints a Markdown table.

  compare_servers.py --grokd build/release/service/grokd --model DIR [--peer-server llama-server --peer-model FILE.gguf]
                     [--long-share 0.3] [--rounds 1]

Each server in turn answers 8 streams alone, then 8 streams while prompts of 512 tokens arrive at a rate that takes
`--long-share` of grokd's time. Both are driven by `grokd loadtest` over loopback; the peer is started with 9 slots, since
one must be left for the long prompts. `no budget` is grokd with --itl-target-ms 0."""
import argparse
import json
import socket
import subprocess
import time
import urllib.request

LONG_PROMPT = 512


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server process that is ready, and ended by `with`."""

    def __init__(self, command, path):
        self.port = free_port()
        self.command = [str(part) for part in command] + ["--port", str(self.port)]
        self.path = path

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + self.path, timeout=5)
                return self
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"{self.command[0]} does not become ready")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def loadtest(args, server, *flags):
    command = [args.grokd, "loadtest", "--url", server.url, "--vocab", args.vocab, "--json", *flags]
    return subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def result(process):
    return json.loads(process.communicate(timeout=900)[0])


def streams(args, server):
    return loadtest(args, server, "--mix", "short", "--concurrency", 8, "--requests", args.requests,
                    "--max-tokens", args.tokens)


def long_prompts(args, server, rate, seconds):
    count = max(2, round(rate * seconds))
    return loadtest(args, server, "--mix", "long", "--rate", rate, "--requests", count, "--max-tokens", 1)


def measure(args, server, rate):
    """Streams alone, then with long prompts as long as the streams last."""
    result(loadtest(args, server, "--mix", "short", "--requests", 8, "--max-tokens", 8))  # warm-up
    started = time.monotonic()
    quiet = result(streams(args, server))
    others = long_prompts(args, server, rate, 1.5 * (time.monotonic() - started))
    mixed = result(streams(args, server))
    others.kill()
    others.wait()
    return quiet, mixed


def prefill_rate(args):
    out = subprocess.run([args.grokd, "bench", "prefill", "--model", args.model, "--prompt-tokens", str(LONG_PROMPT),
                          "--repeat", "3", "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(out)["tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grokd", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer-server")
    parser.add_argument("--peer-model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--long-share", type=float, default=0.3)
    parser.add_argument("--itl-target-ms", type=float, default=1, help="below what decodes take: prompts then get half of that")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    rate = args.long_share * prefill_rate(args) / LONG_PROMPT
    grokd = [args.grokd, "serve", "--model", args.model, "--threads", args.threads, "--slots", 16]
    servers = {"grokd": (grokd + ["--itl-target-ms", args.itl_target_ms], "/readyz"),
               "grokd, no budget": (grokd + ["--itl-target-ms", 0], "/readyz")}
    if args.peer_server:
        servers["llama-server"] = ([args.peer_server, "-m", args.peer_model, "-t", args.threads, "-np", 9, "-c", 9 * 1024],
                                   "/health")
    print(f"{rate:.2f} prompts of {LONG_PROMPT} tokens a second\n")
    print("| server | quiet tok/s | quiet P50 ms | quiet P99 ms | mixed tok/s | mixed P50 ms | mixed P99 ms | mixed max ms "
          "| P99 / quiet P50 |\n|---|---|---|---|---|---|---|---|---|")
    for _ in range(args.rounds):
        for name, (command, path) in servers.items():
            with Server(command, path) as server:
                quiet, mixed = measure(args, server, rate)
            q, m = quiet["inter_token_ms"], mixed["inter_token_ms"]
            print(f"| {name} | {quiet['output_tokens_per_second']:.1f} | {q['p50']:.1f} | {q['p99']:.1f} "
                  f"| {mixed['output_tokens_per_second']:.1f} | {m['p50']:.1f} | {m['p99']:.1f} | {m['max']:.1f} "
                  f"| {m['p99'] / q['p50']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
