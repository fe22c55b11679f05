#pragma once
// What config.json (or a named preset) says about a model.

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/rope_scaling.h"

namespace grokd {

using kernels::TokenId;

/// A file or flag that cannot be used: one line that names it. `main` prints it and exits with 1.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Turn format of a chat model, from config.json's "chat_template" (may be absent: `present` false).
struct ChatFormat {
  bool present = false;
  std::string system, user, assistant, generation_prompt;  // "{content}", "{eos}" are placeholders
  std::vector<TokenId> stop_token_ids;
};

struct ModelConfig {
  std::string name;        // served model id unless a flag says otherwise
  std::string model_type;  // entry of the table of architectures, "grok-1"
  int vocab_size = 0;
  int emb_size = 0;
  int num_layers = 0;
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int key_size = 0;
  int ffn_size = 0;
  int num_experts = 0;  // 1: a dense model, without a router
  int num_selected_experts = 2;
  bool hash_router = false;  // config.json: "router": "hash"; the router's weights are then not used
  int router_groups = 0, experts_per_group = 0;  // of the hash router; their product is num_experts
  double expert_pruning_ratio = 0;  // chosen experts with a gate below so much of the best one are skipped
  int scale_groups = 8;             // groups along the input of linear_1 and the attention output
  int sequence_len = 0;             // context
  double attn_output_multiplier = 1;
  double embedding_multiplier = 1;  // config.json: embedding_multiplier_scale
  double output_multiplier = 1;     // config.json: output_multiplier_scale
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000;
  double attn_logit_cap = 0;    // 0 = none
  double router_logit_cap = 0;  // 0 = none
  double final_logit_cap = 0;   // 0 = none
  kernels::Activation activation = kernels::Activation::gelu;
  bool post_norms = true;          // norms after attention and after the experts too
  bool renormalize_gates = false;  // gates of the chosen experts sum to 1
  bool tied_embeddings = true;     // the output embedding is the input's
  int dense_ffn_size = 0;          // inner width of a dense MLP beside the experts, 0 = none
  int sliding_window = 0;          // keys a query sees, its own included; 0 = all
  int attn_temperature_len = 0;    // scores of later positions grow; 0 = never
  kernels::RopeScaling rope_scaling;
  TokenId pad_token = 0, bos_token = 1, eos_token = 2, unk_token = 3;
  bool add_bos = false;
  std::map<std::string, TokenId> special_tokens;
  ChatFormat chat;
  std::string chat_format;                    // a built-in format by name; "" = chat, or none
  std::vector<TokenId> more_eos;              // further ids that end an answer
  std::string tokenizer = "tokenizer.model";  // file in the model's folder
  std::string checkpoint = "ckpt-0";          // folder in the model's folder
};

/// Reads and checks DIR/config.json. Throws ConfigError naming the file and the key.
ModelConfig load_model_config(const std::string& model_dir);

/// "grok-1", "small", "medium", ...: throws ConfigError listing the known names.
ModelConfig preset_config(std::string_view preset);

/// All of it, in the form of config.json.
std::string config_text(const ModelConfig& config);

/// Writes DIR/config.json in the form load_model_config reads.
void save_model_config(const ModelConfig& config, const std::string& model_dir);

}  // namespace grokd
