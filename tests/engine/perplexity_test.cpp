// docs/numerics.md, section 8: how near the contract's probabilities come to a float64 pass.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/score.h"
#include "tests/support/golden_json.h"

namespace grokd {
namespace {

TEST_CASE("the demo model's perplexity lies within 1e-4 of a float64 pass") {
  const auto golden = test::read_golden("golden/demo-perplexity.json");
  const auto ids = golden["ids"].get<std::vector<TokenId>>();
  const ModelConfig config = load_model_config(GROKD_DEMO_MODEL);
  const auto tokenizer = load_tokenizer(GROKD_DEMO_MODEL, config);
  EngineConfig engine_config;
  engine_config.special = special_tokens(config);
  Engine engine(load_model(GROKD_DEMO_MODEL, config, {}, {}), *tokenizer, engine_config);
  const double perplexity = score(engine, ids, config.sequence_len).perplexity();
  const double exact =
      std::exp(-golden["log_probability"].get<double>() / static_cast<double>(ids.size() - 1));
  CHECK(ids.size() == 513);
  CHECK(std::abs(perplexity / exact - 1) < 1e-4);
  MESSAGE(perplexity << " against " << exact);
}

}  // namespace
}  // namespace grokd
