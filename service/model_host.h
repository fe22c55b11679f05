#pragma once
// The model the server answers with: its name at once, the rest when it is loaded.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/chat_template.h"
#include "engine/replicas.h"
#include "engine/grammar/constraint.h"
#include "engine/models/config.h"
#include "engine/tokenizer.h"

namespace grokd {

/// All that a request needs of a model. The engine is last: it stops before what it uses is gone.
struct LoadedModel {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<GrammarCompiler> grammars;
  std::string fingerprint;  // system_fingerprint: changes whenever weights or numerics do
  std::unique_ptr<Replicas> engine;
};

class ModelHost {
 public:
  ModelHost(ModelConfig config, api::ChatTemplate chat_template, std::string id,
            std::vector<std::string> aliases);

  const ModelConfig& config() const { return config_; }
  const api::ChatTemplate& chat_template() const { return chat_template_; }
  const std::string& id() const { return id_; }
  std::int64_t created() const { return created_; }
  bool is_served(const std::string& name) const;

  /// Null until `set_loaded`; then the same until the host is gone. Any thread.
  const LoadedModel* loaded() const { return loaded_.load(std::memory_order_acquire); }
  /// 0..1 while loading.
  double progress() const { return progress_.load(std::memory_order_relaxed); }
  /// How long loading will take yet, judged by how long it took so far.
  int seconds_to_load() const;

  void set_progress(double progress) { progress_.store(progress, std::memory_order_relaxed); }
  void set_loaded(std::unique_ptr<LoadedModel> model);
  /// Ends the engine and what it runs. No request may be in work any more.
  void unload();

 private:
  const ModelConfig config_;
  const api::ChatTemplate chat_template_;
  const std::string id_;
  const std::vector<std::string> aliases_;
  const std::int64_t created_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::atomic<double> progress_ = 0;
  std::atomic<const LoadedModel*> loaded_ = nullptr;
  std::unique_ptr<LoadedModel> owned_;
};

}  // namespace grokd
