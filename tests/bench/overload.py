#!/usr/bin/python3
"""Twice what a server can take, and what deadlines, refusals and tiers make of it; prints one Markdown table.

  overload.py --grokd build/release/service/grokd --model DIR [--timeout-factor 4] [--requests 300]

Capacity is what the server answers a second while all its slots are busy. Then requests of the 30/50/20 mix arrive at
0.5, 1 and 2 times that rate, a tenth of them of the priority tier, each with a deadline of `--timeout-factor` times
what an answer takes at capacity. Goodput: answers a second that were whole before their deadline."""
import argparse

from compare_servers import Server, loadtest, result

SLOTS = 16


def load(args, server, rate, timeout):
    return result(loadtest(args, server, "--rate", rate, "--requests", args.requests, "--max-tokens", args.tokens, "--timeout",
                           timeout, "--priority-share", 0.1, "--slo-ttft-ms", 1e9, "--slo-itl-ms", 1e9))


def row(name, rate, r):
    answered, late = r["completed"], r["late"]
    return (f"| {name} | {rate:.2f} | {r['goodput']:.2f} | {100 * (answered - late) / max(answered, 1):.1f} % | {r['refused']} "
            f"| {r['refusal_ms']['p99']:.1f} | {r['refusal_ms']['max']:.1f} | {r['ttft_ms']['p50']:.0f} | {r['ttft_ms']['p99']:.0f} "
            f"| {r['priority_ttft_ms']['p50']:.0f} | {r['priority_ttft_ms']['p99']:.0f} | {r['failed']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grokd", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--timeout-factor", type=float, default=4)
    args = parser.parse_args()
    command = [args.grokd, "serve", "--model", args.model, "--slots", SLOTS, "--no-speculation"]
    with Server(command, "/readyz") as server:
        full = result(loadtest(args, server, "--concurrency", SLOTS, "--requests", args.requests, "--max-tokens", args.tokens))
        capacity = full["completed"] / full["seconds"]
        timeout = max(0.1, args.timeout_factor * full["end_to_end_ms"]["p50"] / 1e3)
        print(f"capacity {capacity:.2f} requests a second, deadline {timeout:.2f} s\n")
        print("| load | arrivals/s | goodput/s | in time | refused | refusal P99 ms | max | TTFT P50 ms | P99 | priority P50 | P99 "
              "| failed |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
        for factor in (0.5, 1, 2):
            print(row(f"{factor} x", factor * capacity, load(args, server, factor * capacity, timeout)), flush=True)


if __name__ == "__main__":
    main()
