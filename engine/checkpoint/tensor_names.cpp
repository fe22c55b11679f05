#include "engine/checkpoint/tensor_names.h"

#include <algorithm>
#include <array>

namespace grokd {
namespace {

constexpr std::string_view kEmbeddings = "in_out_embed/embeddings", kLayer = "transformer/decoder_layer_",
                           kModel = "language_model/";

// Llama, Mistral
constexpr std::array kLlama = std::to_array<NameRow>({
    {kEmbeddings, "model.embed_tokens.weight"},
    {"out_embed/embeddings", "lm_head.weight"},
    {"language_model/rms_norm/scale", "model.norm.weight"},
    {"rms_norm/scale", "model.layers.{L}.input_layernorm.weight"},
    {"rms_norm_2/scale", "model.layers.{L}.post_attention_layernorm.weight"},
    {"multi_head_attention/query/w", "model.layers.{L}.self_attn.q_proj.weight"},
    {"multi_head_attention/key/w", "model.layers.{L}.self_attn.k_proj.weight"},
    {"multi_head_attention/value/w", "model.layers.{L}.self_attn.v_proj.weight"},
    {"multi_head_attention/linear/w", "model.layers.{L}.self_attn.o_proj.weight"},
    {"moe/linear/w", "model.layers.{L}.mlp.gate_proj.weight"},
    {"moe/linear_v/w", "model.layers.{L}.mlp.up_proj.weight"},
    {"moe/linear_1/w", "model.layers.{L}.mlp.down_proj.weight"},
});

constexpr std::array kMixtral = std::to_array<NameRow>({
    {kEmbeddings, "model.embed_tokens.weight"},
    {"out_embed/embeddings", "lm_head.weight"},
    {"language_model/rms_norm/scale", "model.norm.weight"},
    {"rms_norm/scale", "model.layers.{L}.input_layernorm.weight"},
    {"rms_norm_2/scale", "model.layers.{L}.post_attention_layernorm.weight"},
    {"multi_head_attention/query/w", "model.layers.{L}.self_attn.q_proj.weight"},
    {"multi_head_attention/key/w", "model.layers.{L}.self_attn.k_proj.weight"},
    {"multi_head_attention/value/w", "model.layers.{L}.self_attn.v_proj.weight"},
    {"multi_head_attention/linear/w", "model.layers.{L}.self_attn.o_proj.weight"},
    {"router/w", "model.layers.{L}.block_sparse_moe.gate.weight"},
    {"moe/linear/w", "model.layers.{L}.block_sparse_moe.experts.{E}.w1.weight"},
    {"moe/linear_v/w", "model.layers.{L}.block_sparse_moe.experts.{E}.w3.weight"},
    {"moe/linear_1/w", "model.layers.{L}.block_sparse_moe.experts.{E}.w2.weight"},
});

constexpr std::array kGrok2 = std::to_array<NameRow>({
    {kEmbeddings, "model.embed_tokens.weight"},
    {"out_embed/embeddings", "lm_head.weight"},
    {"language_model/rms_norm/scale", "model.norm.weight"},
    {"rms_norm/scale", "model.layers.{L}.pre_attn_norm.weight"},
    {"rms_norm_1/scale", "model.layers.{L}.post_attn_norm.weight"},
    {"rms_norm_2/scale", "model.layers.{L}.pre_moe_norm.weight"},
    {"rms_norm_3/scale", "model.layers.{L}.post_moe_norm.weight"},
    {"multi_head_attention/query/w", "model.layers.{L}.self_attn.q_proj.weight"},
    {"multi_head_attention/key/w", "model.layers.{L}.self_attn.k_proj.weight"},
    {"multi_head_attention/value/w", "model.layers.{L}.self_attn.v_proj.weight"},
    {"multi_head_attention/linear/w", "model.layers.{L}.self_attn.o_proj.weight"},
    {"router/w", "model.layers.{L}.block_sparse_moe.gate.weight"},
    {"moe/linear/w", "model.layers.{L}.block_sparse_moe.experts.{E}.w1.weight"},
    {"moe/linear_v/w", "model.layers.{L}.block_sparse_moe.experts.{E}.w3.weight"},
    {"moe/linear_1/w", "model.layers.{L}.block_sparse_moe.experts.{E}.w2.weight"},
    {"dense/linear/w", "model.layers.{L}.mlp.gate_proj.weight"},
    {"dense/linear_v/w", "model.layers.{L}.mlp.up_proj.weight"},
    {"dense/linear_1/w", "model.layers.{L}.mlp.down_proj.weight"},
});

// hpcai-tech/grok-1
constexpr std::array kGrok1 = std::to_array<NameRow>({
    {kEmbeddings, "model.embed_tokens.weight"},
    {"out_embed/embeddings", "lm_head.weight"},
    {"language_model/rms_norm/scale", "model.norm.scale"},
    {"rms_norm/scale", "model.layers.{L}.pre_attn_norm.scale"},
    {"rms_norm_1/scale", "model.layers.{L}.post_attn_norm.scale"},
    {"rms_norm_2/scale", "model.layers.{L}.pre_moe_norm.scale"},
    {"rms_norm_3/scale", "model.layers.{L}.post_moe_norm.scale"},
    {"multi_head_attention/query/w", "model.layers.{L}.attn.q_proj.weight"},
    {"multi_head_attention/key/w", "model.layers.{L}.attn.k_proj.weight"},
    {"multi_head_attention/value/w", "model.layers.{L}.attn.v_proj.weight"},
    {"multi_head_attention/linear/w", "model.layers.{L}.attn.o_proj.weight"},
    {"router/w", "model.layers.{L}.moe_block.gate.weight"},
    {"moe/linear/w", "model.layers.{L}.moe_block.experts.{E}.linear.weight"},
    {"moe/linear_v/w", "model.layers.{L}.moe_block.experts.{E}.linear_v.weight"},
    {"moe/linear_1/w", "model.layers.{L}.moe_block.experts.{E}.linear_1.weight"},
});

// keyfan/grok-1-hf
constexpr std::array kGrok1Transformer = std::to_array<NameRow>({
    {kEmbeddings, "transformer.in_out_embed.weight"},
    {"out_embed/embeddings", "lm_head.weight"},
    {"language_model/rms_norm/scale", "transformer.rms_norm.weight"},
    {"rms_norm/scale", "transformer.decoder_layer.{L}.rms_norm.weight"},
    {"rms_norm_1/scale", "transformer.decoder_layer.{L}.rms_norm_1.weight"},
    {"rms_norm_2/scale", "transformer.decoder_layer.{L}.rms_norm_2.weight"},
    {"rms_norm_3/scale", "transformer.decoder_layer.{L}.rms_norm_3.weight"},
    {"multi_head_attention/query/w", "transformer.decoder_layer.{L}.multi_head_attention.query.weight"},
    {"multi_head_attention/key/w", "transformer.decoder_layer.{L}.multi_head_attention.key.weight"},
    {"multi_head_attention/value/w", "transformer.decoder_layer.{L}.multi_head_attention.value.weight"},
    {"multi_head_attention/linear/w", "transformer.decoder_layer.{L}.multi_head_attention.linear.weight"},
    {"router/w", "transformer.decoder_layer.{L}.router.weight"},
    {"moe/linear/w", "transformer.decoder_layer.{L}.moe.{E}.linear.weight"},
    {"moe/linear_v/w", "transformer.decoder_layer.{L}.moe.{E}.linear_v.weight"},
    {"moe/linear_1/w", "transformer.decoder_layer.{L}.moe.{E}.linear_1.weight"},
});

// llama.cpp
constexpr std::array kGgufLlama = std::to_array<NameRow>({
    {kEmbeddings, "token_embd.weight"},
    {"out_embed/embeddings", "output.weight"},
    {"language_model/rms_norm/scale", "output_norm.weight"},
    {"rms_norm/scale", "blk.{L}.attn_norm.weight"},
    {"rms_norm_2/scale", "blk.{L}.ffn_norm.weight"},
    {"multi_head_attention/query/w", "blk.{L}.attn_q.weight"},
    {"multi_head_attention/key/w", "blk.{L}.attn_k.weight"},
    {"multi_head_attention/value/w", "blk.{L}.attn_v.weight"},
    {"multi_head_attention/linear/w", "blk.{L}.attn_output.weight"},
    {"moe/linear/w", "blk.{L}.ffn_gate.weight"},
    {"moe/linear_v/w", "blk.{L}.ffn_up.weight"},
    {"moe/linear_1/w", "blk.{L}.ffn_down.weight"},
});

constexpr std::array kGgufMixtral = std::to_array<NameRow>({
    {kEmbeddings, "token_embd.weight"},
    {"out_embed/embeddings", "output.weight"},
    {"language_model/rms_norm/scale", "output_norm.weight"},
    {"rms_norm/scale", "blk.{L}.attn_norm.weight"},
    {"rms_norm_2/scale", "blk.{L}.ffn_norm.weight"},
    {"multi_head_attention/query/w", "blk.{L}.attn_q.weight"},
    {"multi_head_attention/key/w", "blk.{L}.attn_k.weight"},
    {"multi_head_attention/value/w", "blk.{L}.attn_v.weight"},
    {"multi_head_attention/linear/w", "blk.{L}.attn_output.weight"},
    {"router/w", "blk.{L}.ffn_gate_inp.weight"},
    {"moe/linear/w", "blk.{L}.ffn_gate_exps.weight"},
    {"moe/linear_v/w", "blk.{L}.ffn_up_exps.weight"},
    {"moe/linear_1/w", "blk.{L}.ffn_down_exps.weight"},
});

constexpr std::array kGgufGrok = std::to_array<NameRow>({
    {kEmbeddings, "token_embd.weight"},
    {"out_embed/embeddings", "output.weight"},
    {"language_model/rms_norm/scale", "output_norm.weight"},
    {"rms_norm/scale", "blk.{L}.attn_norm.weight"},
    {"rms_norm_1/scale", "blk.{L}.attn_output_norm.weight"},
    {"rms_norm_2/scale", "blk.{L}.ffn_norm.weight"},
    {"rms_norm_3/scale", "blk.{L}.layer_output_norm.weight"},
    {"multi_head_attention/query/w", "blk.{L}.attn_q.weight"},
    {"multi_head_attention/key/w", "blk.{L}.attn_k.weight"},
    {"multi_head_attention/value/w", "blk.{L}.attn_v.weight"},
    {"multi_head_attention/linear/w", "blk.{L}.attn_output.weight"},
    {"router/w", "blk.{L}.ffn_gate_inp.weight"},
    {"moe/linear/w", "blk.{L}.ffn_gate_exps.weight"},
    {"moe/linear_v/w", "blk.{L}.ffn_up_exps.weight"},
    {"moe/linear_1/w", "blk.{L}.ffn_down_exps.weight"},
    {"dense/linear/w", "blk.{L}.ffn_gate.weight"},
    {"dense/linear_v/w", "blk.{L}.ffn_up.weight"},
    {"dense/linear_1/w", "blk.{L}.ffn_down.weight"},
});

constexpr std::array kGgufTables = std::to_array<NameTable>({
    {"llama mistral", kGgufLlama},
    {"mixtral", kGgufMixtral},
    {"grok-1 grok-2", kGgufGrok},
});

constexpr std::array kTables = std::to_array<NameTable>({
    {"llama mistral", kLlama},
    {"mixtral", kMixtral},
    {"grok-2", kGrok2},
    {"grok-1", kGrok1},
    {"grok-1", kGrok1Transformer},
});

bool lists(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

std::string replaced(std::string text, std::string_view mark, std::string_view value) {
  if (const std::size_t at = text.find(mark); at != text.npos) text.replace(at, mark.size(), value);
  return text;
}

}  // namespace

std::span<const NameTable> safetensors_names() { return kTables; }
std::span<const NameTable> gguf_names() { return kGgufTables; }

const NameTable* choose_names(std::span<const NameTable> tables, std::string_view model_type,
                              const std::function<bool(const std::string&)>& has) {
  const NameTable* first = nullptr;
  for (const NameTable& table : tables) {
    if (!lists(table.model_types, model_type)) continue;
    if (has(std::string(table.rows.front().stored))) return &table;
    if (first == nullptr) first = &table;
  }
  return first;
}

std::string stored_pattern(const NameTable& table, std::string_view path) {
  std::string_view end = path, layer;
  if (path.starts_with(kLayer)) {
    end.remove_prefix(kLayer.size());
    const std::size_t slash = end.find('/');
    layer = end.substr(0, slash);
    end.remove_prefix(slash + 1);
  } else if (path.ends_with("embeddings")) {
    end.remove_prefix(kModel.size());
  }
  for (const NameRow& row : table.rows) {
    if (row.path == end) return replaced(std::string(row.stored), "{L}", layer);
  }
  return {};
}

std::string stored_name(std::string pattern, int expert) {
  return replaced(std::move(pattern), "{E}", std::to_string(expert));
}

}  // namespace grokd
