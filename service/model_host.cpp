#include "service/model_host.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace grokd {
namespace {

std::int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

ModelHost::ModelHost(ModelConfig config, api::ChatTemplate chat_template, std::string id,
                     std::vector<std::string> aliases)
    : config_(std::move(config)),
      chat_template_(std::move(chat_template)),
      id_(id.empty() ? config_.name : std::move(id)),
      aliases_(std::move(aliases)),
      created_(unix_seconds()) {}

bool ModelHost::is_served(const std::string& name) const {
  return name == id_ || std::find(aliases_.begin(), aliases_.end(), name) != aliases_.end();
}

int ModelHost::seconds_to_load() const {
  constexpr double kGuess = 5, kLongest = 120;
  const double done = progress();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started_;
  const double left = done > 0.01 ? elapsed.count() * (1 - done) / done : kGuess;
  return static_cast<int>(std::ceil(std::clamp(left, 1.0, kLongest)));
}

void ModelHost::set_loaded(std::unique_ptr<LoadedModel> model) {
  owned_ = std::move(model);
  set_progress(1);
  loaded_.store(owned_.get(), std::memory_order_release);
}

void ModelHost::unload() {
  loaded_.store(nullptr, std::memory_order_release);
  owned_.reset();
}

}  // namespace grokd
