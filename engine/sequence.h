#pragma once
// One request while it runs: what it feeds next, how its next token is drawn, when its answer ends.

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "engine/answer_text.h"
#include "engine/batch.h"
#include "engine/prefix_cache.h"
#include "engine/request.h"
#include "engine/speculation.h"
#include "engine/token_counts.h"
#include "engine/token_mask.h"
#include "engine/tokenizer.h"

namespace grokd {

/// The smaller place goes first.
struct QueuePlace {
  int tier = 1, priority = 0;
  Clock::time_point due;
  std::uint64_t arrival = 0;
  auto operator<=>(const QueuePlace&) const = default;
};

/// A request on its way to a slot.
struct Pending {
  Request request;
  OutputSink sink;
  std::shared_ptr<std::atomic<bool>> cancelled;
  Clock::time_point submitted;
  QueuePlace place = {};       // given by the scheduler
  double expected_answer = 1;  // tokens; the same

  bool is_cancelled() const { return cancelled->load(std::memory_order_acquire); }
  bool is_late(Clock::time_point now) const { return request.deadline && now >= *request.deadline; }
};

/// What all answers of an engine have in common.
struct AnswerRules {
  const Tokenizer& tokenizer;
  SpecialTokens special;
  AnswerMasks masks;
};

/// How a request ended before its answer was complete.
struct Abort {
  FinishReason finish = FinishReason::cancelled;
  bool timed_out = false;
  std::string error;
  bool repeatable = false;
};

/// Tells the sink of a request that never ran.
void refuse(Pending&& pending, const Abort& abort, Clock::time_point now);

class Sequence {
 public:
  Sequence(Pending&& pending, const AnswerRules& rules, Clock::time_point now);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  /// Positions that a request puts into the cache.
  static int positions(const Request& request);
  int positions() const;

  // The cache manager's notes.
  std::vector<std::int32_t> pages;  // of its positions
  PrefixChain chain;                // its pages that are known to the prefix cache
  bool waits_for_prefix = false;    // another sequence computes the page it would feed next

  const Pending& pending() const { return pending_; }
  /// The prompt and what was sampled.
  std::span<const TokenId> tokens() const { return tokens_; }
  int prompt_size() const { return prompt_size_; }
  /// Position of the next row: so many are in the cache.
  int next_position() const { return fed_; }
  /// Its first `positions` positions are in the cache, and no others.
  void start_from(int positions);
  /// True once it has fed rows that it was not given.
  bool has_begun() const { return fed_ > chain.pages * kernels::kPagePositions; }
  /// True if all it has fed led to finite logits.
  bool is_sound() const { return output_.completion_tokens > 0 && output_.finish != FinishReason::error; }
  /// Rows to feed before the next token can be sampled; 0: the next row is the last sampled token.
  int prompt_rows_left() const;
  /// The most rows, at most `rows`, that ask for at most `logit_rows` rows of logits. 0 if there are none.
  int rows_within(int rows, int logit_rows) const;
  /// Guesses up to `most` of the tokens after the next one, if its sampling does not depend on more than the
  /// tokens before. The number guessed; so many rows more may be fed than the next one.
  int propose(int most);
  const ProposalRecord& proposals() const { return record_; }
  /// Appends the next `rows` rows to the batch.
  void feed(int rows, Batch& batch);
  /// Log-probabilities wanted for each row of logits.
  int top_logprobs() const { return std::max(pending_.request.sampling.top_logprobs, 0); }

  /// The results of the rows of logits that the last feed asked for; the answer may end. Rows after the first
  /// proposal that does not hold are dropped, and the next feed overwrites them.
  void accept(std::span<const kernels::SampledToken> sampled, Clock::time_point now);
  void abort(const Abort& abort, Clock::time_point now);
  bool finished() const { return output_.finish != FinishReason::none; }
  /// Neither cancelled nor failed nor timed out.
  bool ended_by_itself() const {
    return (output_.finish == FinishReason::stop || output_.finish == FinishReason::length) &&
           !output_.timed_out;
  }
  /// Hands the sink what may be shown; nothing if there is no new text and no end.
  void deliver();

  int completion_tokens() const { return output_.completion_tokens; }
  double expected_tokens_left() const {
    return std::max(1.0, pending_.expected_answer - output_.completion_tokens);
  }
  double seconds_running() const;  // once finished

 private:
  int size() const { return static_cast<int>(tokens_.size()); }
  bool wants_logits(int position) const;
  kernels::SamplingRow sampling_row(int position);
  const TokenMask* choose_mask(int index);
  const TokenMask* own_mask(int index);
  TokenId token_to_feed(int position) const;
  bool has_own_mask(int index) const;
  void judge_proposals(int known, int appended);
  void score(int position, const kernels::SampledToken& sampled);
  void append(const kernels::SampledToken& sampled, Clock::time_point now);
  bool ends_by_eos(TokenId id) const;
  void finish(FinishReason reason, Clock::time_point now);

  Pending pending_;
  const AnswerRules& rules_;
  bool penalised_ = false;
  AnswerText text_;
  std::vector<TokenId> tokens_;  // the prompt, then what was sampled
  const int prompt_size_;
  TokenCounts counts_;    // only of penalised sequences
  TokenMask mask_;        // only of sequences with stop ids to hold off or a constraint
  int fed_ = 0;           // positions in the cache
  int first_logits_ = 0;  // first position of the last feed that asked for logits
  int scored_ = 0;        // tokens of the prompt that have their score
  std::array<TokenId, kMaxProposals> proposed_{};  // after the tokens known
  int proposals_ = 0, proposals_fed_ = 0;
  ProposalRecord record_;
  bool dead_end_ = false;  // the constraint lets nothing follow
  RequestOutput output_;   // the next piece
};

}  // namespace grokd
