// grokd inspect: what a model's folder holds, after every check that loading makes.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/tensor_table.h"
#include "service/cli/commands.h"

namespace grokd::cli {
namespace {

using nlohmann::ordered_json;

struct InspectFlags {
  std::string model, preset;
  bool json = false;
};

struct Totals {
  std::size_t parameters = 0, bytes = 0;
};

Totals totals_of(const Checkpoint& checkpoint) {
  Totals totals;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    totals.parameters += tensor.parameters();
    totals.bytes += tensor.bytes();
  }
  return totals;
}

/// What the text and the JSON form say about the configuration, in this order.
ordered_json config_summary(const ModelConfig& c) {
  return {{"name", c.name},
          {"model_type", c.model_type},
          {"vocab_size", c.vocab_size},
          {"emb_size", c.emb_size},
          {"num_layers", c.num_layers},
          {"num_q_heads", c.num_q_heads},
          {"num_kv_heads", c.num_kv_heads},
          {"key_size", c.key_size},
          {"num_experts", c.num_experts},
          {"num_selected_experts", c.num_selected_experts},
          {"ffn_size", c.ffn_size},
          {"scale_groups", c.scale_groups},
          {"sequence_len", c.sequence_len},
          {"embedding_multiplier_scale", c.embedding_multiplier},
          {"attn_output_multiplier", c.attn_output_multiplier},
          {"output_multiplier_scale", c.output_multiplier},
          {"attn_logit_cap", c.attn_logit_cap},
          {"rms_norm_eps", c.rms_norm_eps},
          {"rope_theta", c.rope_theta},
          {"tokenizer", c.tokenizer},
          {"checkpoint", c.checkpoint},
          {"chat_template", c.chat.present}};
}

ordered_json array_json(const TensorView& view) {
  return {{"dtype", dtype_name(view.dtype)}, {"shape", view.shape}, {"bytes", view.bytes()}};
}

/// A float matrix that is cut or has experts is summed up as if it lay in one piece.
TensorView whole(const CheckpointTensor& tensor) {
  if (tensor.matrices.empty()) return tensor.weight;
  TensorView view = tensor.matrices.front().pieces.front();
  view.shape = {tensor.matrices.front().out(), tensor.matrices.front().in()};
  if (tensor.matrices.size() > 1)
    view.shape.insert(view.shape.begin(), static_cast<std::int64_t>(tensor.matrices.size()));
  return view;
}

ordered_json weight_json(const CheckpointTensor& tensor) { return array_json(whole(tensor)); }

void print_json(const ModelConfig& config, const Checkpoint& checkpoint) {
  ordered_json tensors = ordered_json::array();
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    ordered_json row = {{"path", tensor.path}, {"file", tensor.file}, {"weight", weight_json(tensor)}};
    if (tensor.scales.present()) row["scales"] = array_json(tensor.scales);
    tensors.push_back(std::move(row));
  }
  const Totals totals = totals_of(checkpoint);
  const ordered_json out = {{"config", config_summary(config)},
                            {"tensors", std::move(tensors)},
                            {"totals",
                             {{"tensors", checkpoint.tensors().size()},
                              {"parameters", totals.parameters},
                              {"bytes", totals.bytes}}}};
  std::printf("%s\n", out.dump(1, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

std::string array_text(const TensorView& view) {
  return std::string(dtype_name(view.dtype)) + shape_text(view.shape);
}

void print_text(const ModelConfig& config, const Checkpoint& checkpoint) {
  const ordered_json summary = config_summary(config);
  for (const auto& [key, value] : summary.items()) {
    std::printf("%-28s %s\n", key.c_str(),
                value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
  }
  std::printf("\n");
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    std::printf("%-60s %-24s %-20s %14zu bytes\n", tensor.path.c_str(), array_text(whole(tensor)).c_str(),
                tensor.scales.present() ? array_text(tensor.scales).c_str() : "", tensor.bytes());
  }
  const Totals totals = totals_of(checkpoint);
  std::printf("\n%zu tensors, %zu parameters, %zu bytes\n", checkpoint.tensors().size(), totals.parameters,
              totals.bytes);
}

int run_inspect(const InspectFlags& flags) {
  const ModelConfig config =
      flags.preset.empty() ? load_model_config(flags.model) : preset_config(flags.preset);
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(flags.model, config);
  if (flags.json) {
    print_json(config, *checkpoint);
  } else {
    print_text(config, *checkpoint);
  }
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand("inspect", "Check a model's files and list its tensors");
  command->add_option("dir", flags->model, "Folder with config.json and checkpoint")->required();
  command->add_option("--preset", flags->preset,
                      "Configuration for a folder without config.json, e.g. grok-1");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &exit_code] { exit_code = run_inspect(*flags); });
}

}  // namespace grokd::cli
