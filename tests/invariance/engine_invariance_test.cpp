// docs/numerics.md, section 9, through the whole engine: what its scheduling saves changes no bit.
#include <doctest/doctest.h>

#include <bit>
#include <random>

#include "tests/support/engine_harness.h"
#include "tests/support/model_harness.h"

namespace grokd {
namespace {

using Bits = std::vector<std::uint32_t>;

/// Tokens, and the bits of their log-probabilities and of those of the best others.
Bits bits_of(test::Answer& answer) {
  Bits bits;
  for (const auto& token : answer.tokens()) {
    bits.push_back(static_cast<std::uint32_t>(token.id));
    bits.push_back(std::bit_cast<std::uint32_t>(token.logprob));
    for (const auto& other : token.top) {
      bits.push_back(static_cast<std::uint32_t>(other.id));
      bits.push_back(std::bit_cast<std::uint32_t>(other.logprob));
    }
  }
  return bits;
}

struct Subject {
  std::string dir;
  kernels::KvType kv_type = kernels::KvType::int16;
};

/// An engine over a real model.
struct ModelEngine {
  ModelEngine(const Subject& subject, StepPolicy step, int slots = 4)
      : config(load_model_config(subject.dir)), tokenizer(load_tokenizer(subject.dir, config)) {
    RunnerOptions options;
    options.kv_type = subject.kv_type;
    options.cpu.threads = 2;
    options.cpu.force_threads = true;
    options.max_sequences = slots;
    options.max_batch_tokens = 96;
    auto runner = load_model(subject.dir, config, options, {});
    EngineConfig engine_config;
    engine_config.slots = slots;
    engine_config.step_tokens = 96;
    engine_config.special = special_tokens(config);
    engine_config.step = step;
    engine = std::make_unique<Engine>(std::move(runner), *tokenizer, engine_config);
  }
  RequestHandle submit(Request request, test::Answer& answer) {
    return std::move(std::get<RequestHandle>(engine->submit(std::move(request), answer.sink())));
  }

  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Engine> engine;
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all{{GROKD_CHECKPOINT_DIR "/tiny-a"},
                                        {GROKD_CHECKPOINT_DIR "/tiny-b"},
                                        {GROKD_CHECKPOINT_DIR "/tiny-c"},
                                        {GROKD_VARIANT_DIR "/tiny-mixtral"},
                                        {GROKD_VARIANT_DIR "/tiny-llama"},
                                        {GROKD_DEMO_MODEL},
                                        {GROKD_DEMO_MODEL, kernels::KvType::int8}};
  return all;
}

std::vector<TokenId> random_ids(const ModelConfig& config, std::mt19937& random, int count) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) ids.push_back(4 + static_cast<TokenId>(random() % (config.vocab_size - 4)));
  return ids;
}

Request request_of(std::vector<TokenId> prompt, int max_tokens, std::uint64_t seed) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.skip_special_tokens = false;
  request.sampling.temperature = seed % 2 == 0 ? 0 : 0.8;
  request.sampling.top_p = 0.95;
  request.sampling.seed = seed;
  request.sampling.top_logprobs = 3;
  return request;
}

TEST_CASE("an answer has the same bits whether its prompt's beginning was found in the cache or computed") {
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.dir);
    CAPTURE(static_cast<int>(subject.kv_type));
    ModelEngine shared(subject, {.prefix_cache = true}), own(subject, {.prefix_cache = false});
    std::mt19937 random(1);
    const int context = std::min(shared.engine->limits().context, 400);
    const auto common = random_ids(shared.config, random, context);
    int cached = 0;
    for (int i = 0; i < 24; ++i) {
      auto prompt = std::vector<TokenId>(common.begin(), common.begin() + random() % (context - 70));
      const auto tail = random_ids(shared.config, random, 1 + static_cast<int>(random() % 40));
      prompt.insert(prompt.end(), tail.begin(), tail.end());
      test::Answer first, second, miss;
      const auto a = shared.submit(request_of(prompt, 16, static_cast<std::uint64_t>(i)), first);
      const auto b = own.submit(request_of(prompt, 16, static_cast<std::uint64_t>(i)), miss);
      const auto expected = bits_of(miss);
      CHECK(bits_of(first) == expected);
      const auto c = shared.submit(request_of(prompt, 16, static_cast<std::uint64_t>(i)), second);
      CHECK(bits_of(second) == expected);
      CHECK(second.last().cached_tokens == (static_cast<int>(prompt.size()) - 1) / 64 * 64);
      CHECK(miss.last().cached_tokens == 0);
      cached += first.last().cached_tokens;
    }
    CHECK((cached > 0 || context < 200));
  }
}

/// Prompts that repeat themselves, so that there is something to propose, and a loop of a small model's own.
std::vector<TokenId> repetitive_prompt(const ModelConfig& config, std::mt19937& random) {
  const auto phrase = random_ids(config, random, 3 + static_cast<int>(random() % 20));
  std::vector<TokenId> prompt;
  for (auto times = 1 + random() % 4; times > 0; --times) {
    prompt.insert(prompt.end(), phrase.begin(), phrase.end());
  }
  return prompt;
}

TEST_CASE("answers have the same bits with speculation and without, alone and in company") {
  std::uint64_t accepted = 0;
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.dir);
    CAPTURE(static_cast<int>(subject.kv_type));
    ModelEngine with(subject, {.speculate = true, .always_speculate = true}),
        without(subject, {.speculate = false});
    std::mt19937 random(2);
    std::vector<test::Answer> ours(20), theirs(20);
    std::vector<RequestHandle> handles;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto prompt = repetitive_prompt(with.config, random);
      const int tokens = 8 + static_cast<int>(random() % 60);
      handles.push_back(with.submit(request_of(prompt, tokens, i), ours[i]));
      handles.push_back(without.submit(request_of(prompt, tokens, i), theirs[i]));
    }
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(bits_of(ours[i]) == bits_of(theirs[i]));
    accepted += with.engine->stats().accepted_tokens;
  }
  CHECK(accepted > 0);
}

TEST_CASE("answers have the same bits when higher tiers make them pause and compute again") {
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.dir);
    CAPTURE(static_cast<int>(subject.kv_type));
    ModelEngine crowded(subject, {}, 2), quiet(subject, {}, 2);
    std::mt19937 random(3);
    std::vector<test::Answer> ours(24), theirs(24);
    std::vector<RequestHandle> handles;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto prompt = random_ids(crowded.config, random, 1 + static_cast<int>(random() % 100));
      const int tokens = 4 + static_cast<int>(random() % 20);
      auto request = request_of(prompt, tokens, i);
      request.tier = 2 - static_cast<int>(i % 3);
      handles.push_back(crowded.submit(std::move(request), ours[i]));
      const auto alone = quiet.submit(request_of(prompt, tokens, i), theirs[i]);
      theirs[i].wait();
    }
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(bits_of(ours[i]) == bits_of(theirs[i]));
  }
}

}  // namespace
}  // namespace grokd
