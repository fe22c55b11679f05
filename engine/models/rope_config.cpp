// The "rope_scaling" of configuration files, in the words of Hugging Face's.

#include <nlohmann/json.hpp>

#include "engine/models/config_fields.h"

namespace grokd {

using kernels::RopeScaling;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr double kLargest = 1e9, kSmallest = 1e-9;

RopeScaling::Kind kind_of(const Fields& f, const std::string& name) {
  if (name == "default" || name == "original") return RopeScaling::Kind::none;
  if (name == "linear") return RopeScaling::Kind::linear;
  if (name == "llama3") return RopeScaling::Kind::llama3;
  if (name == "yarn") return RopeScaling::Kind::yarn;
  f.fail("rope_type", "\"" + name + "\" is not known (known: default, linear, llama3, yarn)");
}

void read_yarn(const Fields& f, RopeScaling& s) {
  s.beta_fast = f.number("beta_fast", kSmallest, kLargest, s.beta_fast);
  s.beta_slow = f.number("beta_slow", kSmallest, kLargest, s.beta_slow);
  s.attention_factor = f.number("attention_factor", kSmallest, kLargest, 0);
  for (const char* key : {"mscale", "mscale_all_dim", "truncate"}) {
    if (f.has(key)) f.fail(key, "is not supported");
  }
}

}  // namespace

RopeScaling read_rope_scaling(const Fields& parent, const std::string& key, int context) {
  const Fields f(parent.child(key), parent.need(key));
  RopeScaling s;
  s.kind = kind_of(f, f.has("rope_type") ? f.text("rope_type") : f.text("type", "default"));
  if (s.kind == RopeScaling::Kind::none) return s;
  s.factor = f.number("factor", 1, kLargest);
  if (s.kind == RopeScaling::Kind::linear) return s;
  s.original_context = context > 0 ? f.number("original_max_position_embeddings", 1, kLargest, context)
                                   : f.number("original_max_position_embeddings", 1, kLargest);
  if (s.kind == RopeScaling::Kind::yarn) {
    read_yarn(f, s);
    return s;
  }
  s.low_freq = f.number("low_freq_factor", kSmallest, kLargest);
  s.high_freq = f.number("high_freq_factor", kSmallest, kLargest);
  if (s.high_freq <= s.low_freq) f.fail("high_freq_factor", "must be above low_freq_factor");
  return s;
}

ordered_json rope_scaling_json(const RopeScaling& s) {
  switch (s.kind) {
    case RopeScaling::Kind::none:
      return {{"rope_type", "default"}};
    case RopeScaling::Kind::linear:
      return {{"rope_type", "linear"}, {"factor", s.factor}};
    case RopeScaling::Kind::llama3:
      return {{"rope_type", "llama3"},
              {"factor", s.factor},
              {"original_max_position_embeddings", s.original_context},
              {"low_freq_factor", s.low_freq},
              {"high_freq_factor", s.high_freq}};
    case RopeScaling::Kind::yarn:
      break;
  }
  ordered_json yarn = {{"rope_type", "yarn"},
                       {"factor", s.factor},
                       {"original_max_position_embeddings", s.original_context},
                       {"beta_fast", s.beta_fast},
                       {"beta_slow", s.beta_slow}};
  if (s.attention_factor > 0) yarn["attention_factor"] = s.attention_factor;
  return yarn;
}

}  // namespace grokd
