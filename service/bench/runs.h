#pragma once
// Whole generations through the engine, timed.

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/models/config.h"
#include "engine/tokenizer.h"

namespace grokd::bench {

/// One figure of a bench, with the limit measured beside it.
struct Figure {
  std::string name;                    // "decode", "prefill", ...
  int size = 1;                        // sequences (decode, batch) or prompt tokens (prefill)
  double tokens_per_second = 0;        // median over the repeats
  double bytes_per_token = 0;          // weight bytes that a token must read
  double read_gb_per_second = 0;       // tokens_per_second * bytes_per_token
  double bandwidth_gb_per_second = 0;  // sweeps over as many bytes, between the runs
  double bandwidth_share = 0;
  double prefill_ratio = 0;  // of single steps only: rate of a prompt taken at once over theirs
};

/// A loaded model with its engine.
class Subject {
 public:
  Subject(const std::string& model_dir, const RunnerOptions& options);
  const ModelConfig& config() const { return config_; }

  /// `sequences` greedy answers of `tokens` tokens at once: tokens a second of all, after the first token.
  double decode_rate(int sequences, int tokens);
  /// A prompt of `tokens` tokens and one answer token: prompt tokens a second.
  double prefill_rate(int tokens);
  /// Seconds of one greedy answer of `tokens` tokens, from submit to end.
  double answer_seconds(int tokens);

 private:
  Request make_request(int prompt_tokens, int max_tokens);
  /// Runs all at once and waits; the last pieces, in order of the requests.
  std::vector<RequestOutput> run_all(std::vector<Request> requests);

  ModelConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  std::uint64_t prompts_made_ = 0;
};

}  // namespace grokd::bench
