#include "engine/partition.h"

#include <array>

namespace grokd {
namespace {

struct Rule {
  std::string_view path_end;
  PartitionSpec spec;
};

// The reference program cuts weights over its data axis too and gathers them for every use; here that axis
// holds whole replicas. It cuts the embedding's width; here every rank looks tokens up by itself.
std::vector<Rule> rules() {
  constexpr Axis none = Axis::none, model = Axis::model;
  return {
      {"/in_out_embed/embeddings", {none, none}},
      {"/out_embed/embeddings", {none, none}},
      {"/multi_head_attention/query/w", {none, model}},
      {"/multi_head_attention/key/w", {none, model}},
      {"/multi_head_attention/value/w", {none, model}},
      {"/multi_head_attention/linear/w", {model, none}},
      {"/moe/linear/w", {none, none, model}},
      {"/moe/linear_v/w", {none, none, model}},
      {"/moe/linear_1/w", {none, model, none}},
      {"/dense/linear/w", {none, model}},
      {"/dense/linear_v/w", {none, model}},
      {"/dense/linear_1/w", {model, none}},
      {"/router/w", {none, none}},
      {"/rms_norm/scale", {none}},
      {"/rms_norm_1/scale", {none}},
      {"/rms_norm_2/scale", {none}},
      {"/rms_norm_3/scale", {none}},
  };
}

int size_of(Axis axis, const Mesh& mesh) {
  return axis == Axis::model ? mesh.model : axis == Axis::data ? mesh.data : 1;
}

}  // namespace

PartitionSpec partition_spec(std::string_view path) {
  for (const Rule& rule : rules()) {
    if (path.ends_with(rule.path_end)) return rule.spec;
  }
  throw ConfigError("no partition rule for the parameter " + std::string(path));
}

std::vector<std::int64_t> slice_shape(const std::vector<std::int64_t>& shape, const PartitionSpec& spec,
                                      const Mesh& mesh) {
  std::vector<std::int64_t> slice = shape;
  for (std::size_t i = 0; i < slice.size() && i < spec.size(); ++i) {
    const int parts = size_of(spec[i], mesh);
    slice[i] = slice[i] >= parts ? slice[i] / parts : 1;
  }
  return slice;
}

std::string spec_text(const PartitionSpec& spec) {
  constexpr std::array<std::string_view, 3> kNames = {"None", "data", "model"};
  std::string text = "P(";
  for (std::size_t i = 0; i < spec.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(kNames[static_cast<std::size_t>(spec[i])]);
  }
  return text + ")";
}

}  // namespace grokd
