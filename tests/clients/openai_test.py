"""The official Python client, nothing changed but the address."""
import asyncio
import concurrent.futures
import time

import openai
import pytest

MODEL = "grokd-demo"
LONG = dict(model=MODEL, prompt="Once upon a time", max_tokens=900, stream=True, temperature=0,
            extra_body={"ignore_eos": True})


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60)


def test_models_are_listed_and_found(client):
    assert MODEL in [model.id for model in client.models.list()]
    assert client.models.retrieve(MODEL).object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_completion_has_text_and_usage(client):
    done = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=12, temperature=0)
    assert done.choices[0].text.strip()
    assert done.choices[0].finish_reason == "length"
    assert done.usage.completion_tokens == 12
    assert done.usage.total_tokens == done.usage.prompt_tokens + 12


def test_stream_gives_the_text_of_the_whole_answer(client):
    asked = dict(model=MODEL, prompt="Once upon a time", max_tokens=40, temperature=0.8, seed=3)
    whole = client.completions.create(**asked)
    chunks = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == whole.choices[0].text
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage


def test_chat_answers_a_question(client):
    messages = [{"role": "user", "content": "What is the capital of Norway?"}]
    done = client.chat.completions.create(model=MODEL, messages=messages, temperature=0)
    assert done.choices[0].message.role == "assistant"
    assert "Oslo" in done.choices[0].message.content
    assert done.choices[0].finish_reason == "stop"
    chunks = list(client.chat.completions.create(model=MODEL, messages=messages, temperature=0, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == done.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_n_gives_that_many_different_answers(client):
    done = client.completions.create(model=MODEL, prompt=["The fox", "The owl"], n=3, max_tokens=12, seed=1)
    assert [choice.index for choice in done.choices] == list(range(6))
    assert len({choice.text for choice in done.choices[:3]}) > 1
    chunks = client.completions.create(model=MODEL, prompt=["The fox", "The owl"], n=3, max_tokens=12, seed=1, stream=True)
    texts = [""] * 6
    for chunk in chunks:
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [choice.text for choice in done.choices]


def test_stop_string_ends_the_text_before_it(client):
    whole = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=60, temperature=0).choices[0].text
    stop = whole[len(whole) // 2:][:7]
    cut = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=60, temperature=0, stop=stop)
    assert cut.choices[0].text == whole[:whole.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


def test_logprobs_have_the_shapes_of_the_types(client):
    done = client.completions.create(model=MODEL, prompt="The fox", max_tokens=5, temperature=0, logprobs=3)
    scores = done.choices[0].logprobs
    assert "".join(scores.tokens) == done.choices[0].text
    assert all(value <= 0 for value in scores.token_logprobs)
    assert all(token in top for token, top in zip(scores.tokens, scores.top_logprobs))
    chat = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}], temperature=0,
                                          max_completion_tokens=5, logprobs=True, top_logprobs=2)
    entries = chat.choices[0].logprobs.content
    assert bytes(sum((entry.bytes for entry in entries), [])).decode() == chat.choices[0].message.content
    assert all(entry.top_logprobs[0].logprob == entry.logprob for entry in entries)


def test_errors_are_typed(client):
    create = client.completions.create
    with pytest.raises(openai.NotFoundError) as caught:
        create(model="no-such-model", prompt="x")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as caught:
        create(model=MODEL, prompt="x", temperature=9)
    assert (caught.value.code, caught.value.param) == ("invalid_value", "temperature")
    with pytest.raises(openai.BadRequestError) as caught:
        create(model=MODEL, prompt="word " * 3000)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x"}],
            tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])
    assert caught.value.code == "unsupported_parameter"
    assert caught.value.response.headers["x-request-id"]


def test_a_key_is_asked_for_when_keys_are_set(start_server, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("right-key\n")
    server = start_server("--api-key-file", str(keys))
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0).models.list()
    assert openai.OpenAI(base_url=server.url + "/v1", api_key="right-key").models.list().data


@pytest.fixture
def slow_client(slow_server):
    return openai.OpenAI(base_url=slow_server.url + "/v1", api_key="none", max_retries=0, timeout=60)


def test_an_abandoned_stream_frees_its_slot(slow_server, slow_client):
    stream = slow_client.completions.create(**LONG)
    for _, chunk in zip(range(3), stream):
        assert chunk.choices
    assert slow_server.gauge("grokd_requests_running") == 1
    stream.close()
    assert slow_server.wait_idle(2)


def test_a_timed_out_call_frees_its_slot(slow_server, slow_client):
    asked = {**LONG, "stream": False}
    with pytest.raises(openai.APITimeoutError):
        slow_client.with_options(timeout=0.5).completions.create(**asked)
    assert slow_server.gauge("grokd_requests_running") == 1
    assert slow_server.wait_idle(3)


def test_a_full_queue_is_429_and_the_client_comes_back(start_server):
    server = start_server("--slots", "1", "--max-waiting", "1", "--backend", "reference")
    base = dict(base_url=server.url + "/v1", api_key="none", timeout=60)
    eager, patient = openai.OpenAI(**base, max_retries=0), openai.OpenAI(**base, max_retries=5)
    running = eager.completions.create(**LONG)
    next(iter(running))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: list(eager.completions.create(model=MODEL, prompt="x", max_tokens=2, stream=True)))
        deadline = time.monotonic() + 5
        while server.gauge("grokd_requests_waiting") < 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(openai.RateLimitError) as caught:
            eager.completions.create(model=MODEL, prompt="x", max_tokens=2)
        assert 1 <= int(caught.value.response.headers["retry-after"]) <= 120
        assert caught.value.code == "queue_full"
        later = pool.submit(lambda: patient.completions.create(model=MODEL, prompt="x", max_tokens=2))
        time.sleep(0.2)
        running.close()
        assert later.result(60).usage.completion_tokens == 2
        assert waiting.result(60)


def test_many_calls_at_once_each_get_their_own_answer(client):
    async def ask_all():
        async with openai.AsyncOpenAI(base_url=client.base_url, api_key="none", max_retries=8, timeout=60) as many:
            return await asyncio.gather(*(
                many.completions.create(model=MODEL, prompt=f"The number {i}", max_tokens=8, temperature=0) for i in range(24)))

    together = asyncio.run(ask_all())
    for i in (0, 11, 23):
        alone = client.completions.create(model=MODEL, prompt=f"The number {i}", max_tokens=8, temperature=0)
        assert together[i].choices[0].text == alone.choices[0].text
