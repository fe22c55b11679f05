#include "engine/models/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/gguf_checkpoint.h"
#include "engine/checkpoint/gguf_file.h"
#include "engine/checkpoint/mapped_file.h"
#include "engine/models/config_fields.h"
#include "engine/models/hf_config.h"

namespace grokd {
namespace {

using nlohmann::json;

constexpr int kMaxSize = 1 << 24;
constexpr double kLargest = 1e12, kSmallest = 1e-12;

/// The metadata as the JSON object whose fields it has.
json to_json(const GgufFile& gguf) {
  json object = json::object();
  for (const auto& [key, value] : gguf.metadata)
    std::visit([&, name = key](const auto& one) { object[name] = one; }, value);
  return object;
}

class Reader {
 public:
  Reader(std::string path, const GgufFile& gguf)
      : path_(std::move(path)), gguf_(gguf), document_(to_json(gguf)), f_(path_, document_) {}
  ModelConfig read();

 private:
  std::string key(const std::string& end) const { return architecture_ + "." + end; }
  bool has_tensor(std::string_view name) const {
    return std::any_of(gguf_.tensors.begin(), gguf_.tensors.end(),
                       [&](const StoredTensor& tensor) { return tensor.name == name; });
  }
  void read_sizes(ModelConfig& c) const;
  void read_llama(ModelConfig& c) const;
  void read_grok(ModelConfig& c) const;
  void read_rope_scaling(ModelConfig& c) const;
  void read_tokens(ModelConfig& c) const;

  std::string path_, architecture_;
  const GgufFile& gguf_;
  const json document_;
  const Fields f_;
};

void Reader::read_sizes(ModelConfig& c) const {
  const auto embeddings = std::find_if(gguf_.tensors.begin(), gguf_.tensors.end(),
                                       [](const StoredTensor& t) { return t.name == "token_embd.weight"; });
  if (embeddings == gguf_.tensors.end() || embeddings->view.shape[0] > kMaxSize)
    throw ConfigError(path_ + ": has no sane token_embd.weight");
  c.vocab_size = static_cast<int>(embeddings->view.shape[0]);
  c.emb_size = f_.integer(key("embedding_length"), 1, 65793);
  c.num_layers = f_.integer(key("block_count"), 1, 4096);
  c.num_q_heads = f_.integer(key("attention.head_count"), 1, 4096);
  c.num_kv_heads = f_.integer(key("attention.head_count_kv"), 1, 4096, c.num_q_heads);
  c.key_size = f_.integer(key("attention.key_length"), 2, 4096, std::max(2, c.emb_size / c.num_q_heads));
  c.sequence_len = f_.integer(key("context_length"), 1, kMaxSize);
  c.ffn_size = f_.integer(key("feed_forward_length"), 1, kMaxSize);
  c.rms_norm_eps = f_.number(key("attention.layer_norm_rms_epsilon"), 1e-12, 1);
  c.num_experts = f_.integer(key("expert_count"), 0, 4096, 0);
  c.num_selected_experts = c.num_experts > 0 ? f_.integer(key("expert_used_count"), 1, 4096) : 1;
  c.num_experts = std::max(c.num_experts, 1);
  c.tied_embeddings = !has_tensor("output.weight");
  c.attn_output_multiplier = 1 / std::sqrt(static_cast<double>(c.key_size));
  c.rope_theta = f_.number(key("rope.freq_base"), 1, kLargest, 10000);
  if (f_.has(key("rope.dimension_count")) && f_.integer(key("rope.dimension_count"), 1, 4096) != c.key_size)
    f_.fail(key("rope.dimension_count"), "is not the width of a head");
}

void Reader::read_rope_scaling(ModelConfig& c) const {
  const std::string type = f_.text(key("rope.scaling.type"), "none");
  if (type == "none") return;
  if (type != "linear" && type != "yarn") f_.fail(key("rope.scaling.type"), "\"" + type + "\" is not known");
  c.rope_scaling.kind =
      type == "yarn" ? kernels::RopeScaling::Kind::yarn : kernels::RopeScaling::Kind::linear;
  c.rope_scaling.factor = f_.number(key("rope.scaling.factor"), 1, kLargest);
  c.rope_scaling.original_context =
      f_.number(key("rope.scaling.original_context_length"), 1, kLargest, c.sequence_len);
}

void Reader::read_llama(ModelConfig& c) const {
  c.model_type = c.num_experts > 1 ? "mixtral" : "llama";
  c.activation = kernels::Activation::silu;
  c.post_norms = false;
  c.renormalize_gates = c.num_experts > 1;
  c.sliding_window = f_.integer(key("attention.sliding_window"), 0, kMaxSize, 0);
  read_rope_scaling(c);
  if (has_tensor("rope_freqs.weight"))
    throw ConfigError(path_ +
                      ": rope_freqs.weight: RoPE factors of a file are not supported; put the config.json of "
                      "the model beside it");
}

/// What files of 2024 leave out is what llama.cpp takes then.
void Reader::read_grok(ModelConfig& c) const {
  const bool dense = has_tensor("blk.0.ffn_gate.weight");
  c.model_type = dense ? "grok-2" : "grok-1";
  c.embedding_multiplier = f_.number(key("embedding_scale"), kSmallest, kLargest, 78.38367176906169);
  c.output_multiplier = f_.number(key("logit_scale"), kSmallest, kLargest, 0.5773502691896257);
  c.attn_output_multiplier =
      f_.number(key("attention.output_scale"), kSmallest, kLargest, c.attn_output_multiplier);
  c.attn_logit_cap = f_.number(key("attn_logit_softcapping"), 0, 60, 30);
  if (!dense) return;
  c.router_logit_cap = f_.number(key("router_logit_softcapping"), 0, 60, 30);
  c.final_logit_cap = f_.number(key("final_logit_softcapping"), 0, kLargest, 0);
  c.attn_temperature_len = f_.integer(key("attention.temperature_length"), 0, kMaxSize, 0);
  c.dense_ffn_size = c.ffn_size;
  c.ffn_size = f_.integer(key("expert_feed_forward_length"), 1, kMaxSize);
}

void Reader::read_tokens(ModelConfig& c) const {
  const auto id = [&](const char* name) { return f_.integer(name, 0, c.vocab_size - 1, -1); };
  c.bos_token = id("tokenizer.ggml.bos_token_id");
  c.eos_token = id("tokenizer.ggml.eos_token_id");
  c.pad_token = c.unk_token = -1;
  c.add_bos =
      c.bos_token >= 0 && f_.boolean("tokenizer.ggml.add_bos_token", !c.model_type.starts_with("grok"));
}

ModelConfig Reader::read() {
  architecture_ = f_.text("general.architecture");
  ModelConfig c;
  if (architecture_ != "llama" && architecture_ != "grok")
    f_.fail("general.architecture", "\"" + architecture_ + "\" is not known (known: grok, llama)");
  read_sizes(c);
  if (architecture_ == "grok") {
    read_grok(c);
  } else {
    read_llama(c);
  }
  read_tokens(c);
  c.name = f_.text("general.name", "");
  c.checkpoint = ".";
  c.scale_groups = choose_scale_groups(c);
  return c;
}

}  // namespace

ModelConfig read_gguf_config(const std::string& model_dir) {
  const std::string path = gguf_files(model_dir).front();
  const MappedFile file(path);
  try {
    const GgufFile gguf = read_gguf(file.bytes());
    return Reader(path, gguf).read();
  } catch (const FileFormatError& error) {
    throw ConfigError(path + ": " + error.what());
  }
}

}  // namespace grokd
