#pragma once
// What crosses the border between a session and the engine: Request in, RequestOutput out. Values, moved.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/sampling.h"

namespace grokd {

using kernels::LogitBias;
using kernels::TokenId;
using kernels::TokenLogprob;
using Clock = std::chrono::steady_clock;

/// State of a constrained answer: which tokens may come next. One per sequence, used on the engine thread.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// Bits of the tokens that may follow, [ceil(V/64)], valid until the next call of `accept`. End-of-sequence
  /// is among them exactly where the text may end.
  virtual const std::uint64_t* allowed() = 0;
  virtual void accept(TokenId token) = 0;
};

struct SamplingParams {
  double temperature = 1;  // below 1e-5: greedy
  double top_p = 1;
  double min_p = 0;
  int top_k = 0;  // 0 = off
  double repetition_penalty = 1;
  double presence_penalty = 0, frequency_penalty = 0;
  std::vector<LogitBias> logit_bias;
  std::uint64_t seed = 0;    // the reply depends on (seed, choice, position), never on its neighbours
  std::uint32_t choice = 0;  // prompt_index * n + k
  int top_logprobs = -1;     // -1: no log-probabilities wanted
};

/// One sequence; n > 1 is n requests, the service's affair.
struct Request {
  std::string id;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  int max_tokens = 0;  // prompt + max_tokens <= context
  int min_tokens = 0;  // end-of-sequence, stop ids and stop strings are held off until then
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool score_prompt = false;  // log-probabilities of the prompt's tokens (echo)
  std::unique_ptr<TokenConstraint> constraint;
  int tier = 1;      // 0 priority, 1 default, 2 flex
  int priority = 0;  // lower first within a tier
  std::string cache_salt;
  std::optional<Clock::time_point> deadline;
};

enum class FinishReason { none, stop, length, cancelled, error };

/// One token with the text it is accountable for.
struct OutputToken {
  TokenId id = 0;
  std::string bytes;              // exactly what it adds to the text; may be part of a character
  float logprob = 0;              // of the raw logits; set if log-probabilities were asked for
  std::vector<TokenLogprob> top;  // best first
};

struct RequestTimes {
  Clock::time_point submitted, admitted, first_token, finished;
};

/// A piece of an answer. `tokens` are those whose text is complete in `text` (or was before); they ride on
/// the piece that carries their last byte. Tokens cut off by a stop string are counted but not listed.
struct RequestOutput {
  std::string text;  // whole UTF-8 characters only
  std::vector<OutputToken> tokens;
  std::vector<TokenId> new_ids;  // every token sampled since the last piece, swallowed ones included
  int prompt_tokens = 0;
  int cached_tokens = 0;      // of the prompt, found in the prefix cache
  int completion_tokens = 0;  // sampled so far
  std::vector<OutputToken>
      prompt_scores;  // once, when score_prompt: one a prompt token, the first without scores
  FinishReason finish = FinishReason::none;
  std::string stop_string;        // set when a stop string ended it
  TokenId stop_token = -1;        // set when a stop token id ended it (not for end-of-sequence)
  bool timed_out = false;         // finish == length because of the deadline
  std::string error;              // set when finish == error
  bool repeatable_error = false;  // the same input will fail again (non-finite logits)
  RequestTimes times;             // set on the last piece
};

/// Runs on the engine thread: must not block or throw.
using OutputSink = std::function<void(RequestOutput&&)>;

}  // namespace grokd
