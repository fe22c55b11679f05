#!/usr/bin/python3
"""Thousands of clients that leave at random moments; prints what is left of them.

  cancels.py --grokd build/release/service/grokd --model DIR [--requests 10000]

Each client asks for a streamed or a plain answer and closes its connection after up to 40 ms: in the queue, in the prompt,
in the stream, before a plain answer. Then slots, queue and pages must be empty, and an answer must be what it was before."""
import argparse
import asyncio
import json
import random
import time
import urllib.request

from compare_servers import Server


def post(server, body):
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["text"]


def load(server):
    return json.load(urllib.request.urlopen(server.url + "/load", timeout=60))


async def leave_early(server, rng):
    ids = [rng.randrange(4, 4096) for _ in range(rng.choice((4, 40, 400)))]
    body = json.dumps({"prompt": ids, "max_tokens": rng.choice((1, 16, 200)), "stream": rng.random() < 0.7, "ignore_eos": True,
                       "service_tier": rng.choice(("priority", "default", "flex"))}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await asyncio.sleep(rng.random() * 0.04)
    writer.transport.abort()


async def leave_all(server, count):
    rng, left = random.Random(1), iter(range(count))

    async def client():
        for _ in left:
            await leave_early(server, rng)

    await asyncio.gather(*(client() for _ in range(48)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grokd", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--requests", type=int, default=10000)
    args = parser.parse_args()
    question = {"prompt": "Once upon a time", "max_tokens": 48, "temperature": 0}
    with Server([args.grokd, "serve", "--model", args.model, "--slots", 4, "--no-prefix-cache"], "/readyz") as server:
        before = post(server, question)
        started = time.monotonic()
        asyncio.run(leave_all(server, args.requests))
        ended = time.monotonic()
        while (now := load(server))["running"] or now["waiting"]:
            if time.monotonic() > ended + 10:
                raise SystemExit(f"left behind: {now}")
        empty = time.monotonic()
        print(f"{args.requests} clients left in {ended - started:.1f} s; empty {1e3 * (empty - ended):.1f} ms after the last one: {now}")
        assert post(server, question) == before, "the answer has changed"
        print("the same answer as before")


if __name__ == "__main__":
    main()
