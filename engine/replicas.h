#pragma once
// The data axis: several engines, each with a whole model, that share out the requests.

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "engine/sip_hash.h"

namespace grokd {

/// Remembers which replica last had a prompt that began alike, by whole pages of its tokens. Any thread.
class PrefixAffinity {
 public:
  explicit PrefixAffinity(std::size_t most_pages) : most_pages_(most_pages) {}
  /// The replica that knows the longest beginning of the prompt; -1: none does.
  int find(const Request& request);
  void remember(const Request& request, int replica);

 private:
  struct Page {
    Digest digest;  // of the salt and all tokens so far
    int replica = 0;
  };
  struct DigestHash {
    std::size_t operator()(const Digest& digest) const { return static_cast<std::size_t>(digest.low); }
  };
  std::vector<Digest> pages_of(const Request& request) const;

  const HashKey key_ = random_hash_key();
  const std::size_t most_pages_;
  std::mutex mutex_;        // guards what follows
  std::list<Page> recent_;  // last used first
  std::unordered_map<Digest, std::list<Page>::iterator, DigestHash> pages_;
};

/// The same as one Engine to whoever submits.
class Replicas {
 public:
  explicit Replicas(std::vector<std::unique_ptr<Engine>> engines);
  explicit Replicas(std::unique_ptr<Engine> engine);

  /// To the replica that knows the prompt's beginning, or the least loaded one if that has less to do by more
  /// than a quarter of its slots; where one refuses, to the others. Refused when all do.
  std::variant<RequestHandle, Refused> submit(Request request, OutputSink sink);
  void drain();
  /// Sums; the worst of times, and failed if one has.
  EngineStats stats() const;
  const RunnerLimits& limits() const { return engines_[0]->limits(); }
  int size() const { return static_cast<int>(engines_.size()); }

 private:
  /// All replicas, the one to ask first in front.
  std::vector<int> order(const Request& request);

  std::vector<std::unique_ptr<Engine>> engines_;
  PrefixAffinity affinity_;
  std::atomic<unsigned> turn_{0};  // where equals begin
};

}  // namespace grokd
