#!/usr/bin/python3
"""What the prefix cache and speculation save on a real server; prints two Markdown tables.

  savings.py --grokd build/release/service/grokd --model DIR [--rounds 3]

Prefix: 50 prompts with the same first 512 tokens, one after the other; time to the first token of the first and the
median of the rest. Speculation: greedy answers to a text that repeats itself and seeded answers at temperature 1.2 to
random tokens, by a server with speculation and one without, in turn."""
import argparse
import http.client
import json
import random
import statistics
import time

from compare_servers import Server


class Client:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)

    def stream(self, **body):
        """Seconds to the first token and to the end."""
        start = time.perf_counter()
        self.connection.request("POST", "/v1/completions", json.dumps({"stream": True, "ignore_eos": True, **body}),
                                {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        assert response.status == 200, response.read()
        response.readline()
        first = time.perf_counter() - start
        response.read()
        return first, time.perf_counter() - start


def prefix(args, server):
    rng, client = random.Random(time.time_ns()), Client(server)
    ids = lambda count: [rng.randrange(4, args.vocab) for _ in range(count)]
    client.stream(prompt=ids(600), max_tokens=2)
    shared = ids(512)
    first = [client.stream(prompt=shared + ids(16), max_tokens=1)[0] for _ in range(50)]
    return 1e3 * first[0], 1e3 * statistics.median(first[1:])


def requests_of(args):
    rng = random.Random(3)
    return {"repetitive": {"prompt": "The little fox sat by the door. " * 12, "max_tokens": 300, "temperature": 0},
            "random": {"prompt": [rng.randrange(4, args.vocab) for _ in range(144)], "max_tokens": 300, "temperature": 1.2, "seed": 5}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grokd", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    command = [args.grokd, "serve", "--model", args.model, "--slots", 4]
    with Server(command, "/readyz") as one, Server(command + ["--no-speculation"], "/readyz") as other:
        print("| prefix of 512 tokens | first, ms | rest, ms | share |\n|---|---|---|---|")
        for i in range(3):
            miss, hit = prefix(args, one)
            print(f"| round {i + 1} | {miss:.1f} | {hit:.2f} | {100 * hit / miss:.1f} % |")
        print("\n| answers of 300 tokens | with speculation, ms | without | faster |\n|---|---|---|---|")
        clients = Client(one), Client(other)
        for name, body in requests_of(args).items():
            for client in clients:
                client.stream(**body)
            times = [[client.stream(**body)[1] for client in clients] for _ in range(args.rounds)]
            with_, without = (1e3 * statistics.median(t) for t in zip(*times))
            print(f"| {name} | {with_:.1f} | {without:.1f} | {without / with_:.2f} x |")


if __name__ == "__main__":
    main()
