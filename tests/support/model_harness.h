#pragma once
// A model on one backend, driven step by step without scheduler or engine.

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/kv_ranges.h"
#include "engine/model_files.h"
#include "kernels/backend.h"

namespace grokd::test {

/// "reference", "scalar", "avx2" or "avx512" (the latter three with `threads`).
inline std::unique_ptr<kernels::Backend> make_backend(const std::string& name, int threads = 1) {
  if (name == "reference") return kernels::make_reference_backend();
  return kernels::make_cpu_backend({.threads = threads, .isa = name, .force_threads = true});
}

/// The CPU variants that this machine can run.
inline std::vector<std::string> runnable_isas() {
  std::vector<std::string> names{"scalar"};
  if (__builtin_cpu_supports("avx2")) names.push_back("avx2");
  if (__builtin_cpu_supports("avx512vnni")) names.push_back("avx512");
  return names;
}

class ModelHarness {
 public:
  struct Sequence {
    std::vector<std::int32_t> pages;
    int length = 0;
  };
  /// Tokens to append to a sequence in one step.
  struct Piece {
    Sequence* sequence;
    std::vector<TokenId> ids;
  };

  /// `ranges`: the cache is int8; null: int16.
  ModelHarness(const std::string& dir, std::unique_ptr<kernels::Backend> backend, int extra_positions = 64,
               int max_tokens = 600, int pages = 256, const KvRangeTable* ranges = nullptr)
      : config_(load_model_config(dir)),
        positions_(config_.sequence_len + extra_positions),
        backend_(std::move(backend)) {
    const auto type = ranges ? kernels::KvType::int8 : kernels::KvType::int16;
    if (ranges) ranges_ = DeviceKvRanges(*backend_, *ranges, 0, 1);
    const std::size_t page = backend_->kv_page_bytes(config_.num_kv_heads, config_.key_size, type);
    kv_memory_ = backend_->allocate(page * pages * config_.num_layers);
    for (int i = 0; i < config_.num_layers; ++i) {
      kv_.push_back({kv_memory_.data() + page * pages * i, page, config_.num_kv_heads, config_.key_size, type,
                     ranges_.layer(i)});
    }
    logits_ = backend_->allocate(sizeof(float) * kMaxRows * config_.vocab_size);
    model_ = load_weights(
        *open_model_files(dir, config_),
        {config_, *backend_, group_, max_tokens, kMaxRows, kMaxRows, config_.sequence_len + extra_positions},
        {});
    for (int i = pages - 1; i >= 0; --i) free_.push_back(i);
  }

  const ModelConfig& config() const { return config_; }
  kernels::Backend& backend() { return *backend_; }
  const kernels::KvLayer& kv(int layer) const { return kv_[layer]; }

  Sequence new_sequence(int positions) {
    if (positions > positions_) throw std::logic_error("a sequence longer than the model's positions");
    Sequence s;
    for (int p = 0; p < positions; p += kernels::kPagePositions) {
      s.pages.push_back(free_.back());
      free_.pop_back();
    }
    return s;
  }
  void release(Sequence& s) {
    free_.insert(free_.end(), s.pages.begin(), s.pages.end());
    s = {};
  }

  /// Logits [V] of the last row of each piece.
  std::vector<std::vector<float>> step(const std::vector<Piece>& pieces,
                                       ForwardObserver* observer = nullptr) {
    Batch batch;
    for (const Piece& p : pieces) {
      const int rows = static_cast<int>(p.ids.size());
      batch.sequences.push_back({batch.tokens(), rows, p.sequence->length, p.sequence->pages});
      batch.ids.insert(batch.ids.end(), p.ids.begin(), p.ids.end());
      batch.logit_rows.push_back(batch.tokens() - 1);
      p.sequence->length += rows;
    }
    const int wanted = static_cast<int>(pieces.size());
    const kernels::MatrixView<float> view(logits_.as<float>(), wanted, config_.vocab_size);
    model_->forward(batch, kv_, view, observer);
    std::vector<std::vector<float>> logits(wanted, std::vector<float>(config_.vocab_size));
    for (int i = 0; i < wanted; ++i) {
      backend_->download(logits[i].data(), view.row(i), sizeof(float) * config_.vocab_size);
    }
    return logits;
  }

  std::vector<float> feed(Sequence& s, const std::vector<TokenId>& ids, ForwardObserver* observer = nullptr) {
    return step({{&s, ids}}, observer)[0];
  }

  kernels::SampledToken sample(const std::vector<float>& logits, const kernels::SamplingRow& row,
                               std::span<kernels::TokenLogprob> top = {}) {
    backend_->upload(logits_.data(), logits.data(), sizeof(float) * logits.size());
    kernels::SampledToken token;
    token.top = top;
    const auto columns = static_cast<std::ptrdiff_t>(logits.size());
    backend_->sample({logits_.as<float>(), 1, columns, columns}, {&row, 1}, {&token, 1});
    return token;
  }

 private:
  static constexpr int kMaxRows = 64;
  ModelConfig config_;
  int positions_;  // the golden prompts of tiny-c run past its sequence_len
  std::unique_ptr<kernels::Backend> backend_;
  kernels::SingleRank group_;
  kernels::Buffer kv_memory_, logits_;
  DeviceKvRanges ranges_;
  std::vector<kernels::KvLayer> kv_;
  std::unique_ptr<Model> model_;
  std::vector<std::int32_t> free_;
};

}  // namespace grokd::test
