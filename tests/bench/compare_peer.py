#!/usr/bin/python3
"""grokd beside llama.cpp on the same weights, alternating in one run; prints a Markdown table of medians.

  compare_peer.py --grokd build/release/service/grokd --model DIR
                  --peer-bench llama-bench --peer-batched llama-batched-bench --peer-model FILE.gguf [--rounds 5]

With --busy the decode of one sequence is also measured while another process keeps the last core busy.

Both run with the same threads. Rates of grokd are of whole generations through its engine; the peer's are those of its
own bench programs. The read bandwidth is that of `grokd bench`, measured in the same run over as many bytes."""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys


def output_of(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, timeout=1800).stdout


def grokd(args, kind, *flags):
    out = json.loads(output_of(args.grokd, "bench", kind, "--model", args.model, "--repeat", 1, "--json",
                               "--threads", args.threads, *flags))
    return out if isinstance(out, list) else [out]


def grokd_round(args):
    batches = ",".join(map(str, args.batches))
    prompts = ",".join(map(str, args.prompts))
    return (grokd(args, "batch", "--batch", batches, "--tokens", args.tokens)
            + grokd(args, "prefill", "--prompt-tokens", prompts))


def peer_round(args):
    rates = {}
    prompts = [f for n in args.prompts for f in ("-p", n)]
    rows = json.loads(output_of(args.peer_bench, "-m", args.peer_model, "-t", args.threads, *prompts, "-n", args.tokens,
                                "-r", 1, "-o", "json"))
    for row in rows:
        if row["n_gen"] == 0:
            rates["prefill", row["n_prompt"]] = row["avg_ts"]
        else:
            rates["batch", 1] = row["avg_ts"]
    sizes = [n for n in args.batches if n > 1]
    lines = output_of(args.peer_batched, "-m", args.peer_model, "-t", args.threads, "-c", 8192, "-npp", 8, "-ntg",
                      args.tokens, "-npl", ",".join(map(str, sizes)), "--output-format", "jsonl").splitlines()
    for line in lines:
        if line.startswith("{"):
            row = json.loads(line)
            rates["batch", row["pl"]] = row["speed_tg"]
    return rates


@contextlib.contextmanager
def busy_neighbour():
    """A process that never rests, on the last core."""
    last = max(os.sched_getaffinity(0))
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                               preexec_fn=lambda: os.sched_setaffinity(0, {last}))
    try:
        yield
    finally:
        process.kill()
        process.wait()


def busy_round(args):
    with busy_neighbour():
        ours = grokd(args, "decode", "--tokens", args.tokens)[0]
        rows = json.loads(output_of(args.peer_bench, "-m", args.peer_model, "-t", args.threads, "-p", 0, "-n", args.tokens,
                                    "-r", 1, "-o", "json"))
    return ours | {"name": "busy"}, rows[0]["avg_ts"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--grokd", "--model", "--peer-bench", "--peer-batched", "--peer-model"):
        parser.add_argument(name, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--prompts", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--busy", action="store_true")
    args = parser.parse_args()
    ours, peers, figures = {}, {}, {}
    for turn in range(args.rounds):
        print(f"round {turn + 1} of {args.rounds}", file=sys.stderr, flush=True)
        for figure in grokd_round(args):
            key = (figure["name"], figure["size"])
            ours.setdefault(key, []).append(figure["tokens_per_second"])
            figures.setdefault(key, []).append(figure)
        for key, rate in peer_round(args).items():
            peers.setdefault(key, []).append(rate)
        if args.busy:
            figure, rate = busy_round(args)
            ours.setdefault(("busy", 1), []).append(figure["tokens_per_second"])
            figures.setdefault(("busy", 1), []).append(figure)
            peers.setdefault(("busy", 1), []).append(rate)
    print("| run | size | grokd tok/s | llama.cpp tok/s | ratio | read GB/s | machine GB/s | share |")
    print("|---|---|---|---|---|---|---|---|")
    median = statistics.median
    for key, rates in ours.items():
        share = median(f["bandwidth_share"] for f in figures[key])
        read = median(f["read_gb_per_second"] for f in figures[key])
        machine = median(f["bandwidth_gb_per_second"] for f in figures[key])
        peer = median(peers[key]) if key in peers else float("nan")
        print(f"| {key[0]} | {key[1]} | {median(rates):.1f} | {peer:.1f} | {median(rates) / peer:.2f} | {read:.1f} "
              f"| {machine:.1f} | {share:.0%} |")


if __name__ == "__main__":
    main()
