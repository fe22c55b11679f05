#include "engine/sequence.h"

#include <algorithm>

namespace grokd {
namespace {

constexpr std::size_t kUsualPieceBytes = 64, kUsualPieceTokens = 8;  // room from the start

bool is_penalised(const SamplingParams& sampling) {
  return sampling.repetition_penalty != 1 || sampling.presence_penalty != 0 ||
         sampling.frequency_penalty != 0;
}

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void describe(const Abort& abort, RequestOutput& output) {
  output.finish = abort.finish;
  output.timed_out = abort.timed_out;
  output.error = abort.error;
  output.repeatable_error = abort.repeatable;
}

OutputToken output_token(TokenId id, std::string_view bytes, const kernels::SampledToken& sampled) {
  return {id, std::string(bytes), sampled.logprob, {sampled.top.begin(), sampled.top.end()}};
}

}  // namespace

void refuse(Pending&& pending, const Abort& abort, Clock::time_point now) {
  RequestOutput output;
  output.prompt_tokens = static_cast<int>(pending.request.prompt.size());
  describe(abort, output);
  output.times.submitted = pending.submitted;
  output.times.finished = now;
  pending.sink(std::move(output));
}

Sequence::Sequence(Pending&& pending, const AnswerRules& rules, Clock::time_point now)
    : pending_(std::move(pending)),
      rules_(rules),
      penalised_(is_penalised(pending_.request.sampling)),
      text_(pending_.request.stop, !pending_.request.skip_special_tokens),
      tokens_(std::move(pending_.request.prompt)),
      prompt_size_(size()) {
  const Request& request = pending_.request;
  tokens_.reserve(tokens_.size() + static_cast<std::size_t>(request.max_tokens));
  output_.text.reserve(kUsualPieceBytes);
  output_.tokens.reserve(kUsualPieceTokens);
  output_.new_ids.reserve(kUsualPieceTokens);
  if (penalised_) counts_.start(tokens_, request.max_tokens);
  output_.prompt_tokens = prompt_size_;
  output_.times.submitted = pending_.submitted;
  output_.times.admitted = now;
  if (request.score_prompt) {
    output_.prompt_scores.reserve(tokens_.size());
    output_.prompt_scores.push_back(output_token(tokens_[0], rules_.tokenizer.bytes(tokens_[0]), {}));
    scored_ = 1;
  }
  if (prompt_rows_left() == 0) finish(FinishReason::length, now);  // nothing to score and nothing to say
}

/// The token sampled last is never fed.
int Sequence::positions(const Request& request) {
  return static_cast<int>(request.prompt.size()) + std::max(request.max_tokens - 1, 0);
}

int Sequence::positions() const { return prompt_size_ + std::max(pending_.request.max_tokens - 1, 0); }

void Sequence::start_from(int positions) {
  fed_ = positions;
  if (output_.completion_tokens == 0) output_.cached_tokens = positions;
}

int Sequence::prompt_rows_left() const {
  const Request& request = pending_.request;
  if (request.max_tokens == 0) return request.score_prompt ? prompt_size_ - 1 - fed_ : 0;
  const bool decoding = output_.completion_tokens > 0 && size() - fed_ == 1;
  return decoding ? 0 : size() - fed_;
}

bool Sequence::wants_logits(int position) const {
  if (position + 1 < prompt_size_) return pending_.request.score_prompt && position + 1 >= scored_;
  return pending_.request.max_tokens > 0 && position + 1 >= size();
}

int Sequence::rows_within(int rows, int logit_rows) const {
  const int left = prompt_rows_left();
  rows = std::min(rows, left > 0 ? left : 1 + proposals_);
  int within = 0;
  while (within < rows) {
    if (wants_logits(fed_ + within) && --logit_rows < 0) break;
    ++within;
  }
  return within;
}

int Sequence::propose(int most) {
  const Request& request = pending_.request;
  most = std::min({most, kMaxProposals, request.max_tokens - output_.completion_tokens - 1});
  const bool possible = most > 0 && !penalised_ && !has_own_mask(output_.completion_tokens);
  proposals_ =
      possible ? grokd::propose(tokens_, std::span(proposed_).first(static_cast<std::size_t>(most))) : 0;
  return proposals_;
}

TokenId Sequence::token_to_feed(int position) const {
  return position < size() ? tokens_[static_cast<std::size_t>(position)]
                           : proposed_[static_cast<std::size_t>(position - size())];
}

void Sequence::feed(int rows, Batch& batch) {
  const int first_row = batch.tokens();
  batch.sequences.push_back({first_row, rows, fed_, pages});
  first_logits_ = -1;
  for (int row = 0; row < rows; ++row, ++fed_) {
    batch.ids.push_back(token_to_feed(fed_));
    if (!wants_logits(fed_)) continue;
    if (first_logits_ < 0) first_logits_ = fed_;
    batch.logit_rows.push_back(first_row + row);
    batch.sampling.push_back(sampling_row(fed_));
  }
  proposals_fed_ = std::max(fed_ - size(), 0);
}

kernels::SamplingRow Sequence::sampling_row(int position) {
  const Request& request = pending_.request;
  const SamplingParams& from = request.sampling;
  kernels::SamplingRow row;
  if (position + 1 < prompt_size_) {
    row.forced = tokens_[static_cast<std::size_t>(position) + 1];
    return row;
  }
  row.temperature = from.temperature;
  row.top_p = from.top_p;
  row.min_p = from.min_p;
  row.top_k = from.top_k;
  row.repetition_penalty = from.repetition_penalty;
  row.presence_penalty = from.presence_penalty;
  row.frequency_penalty = from.frequency_penalty;
  row.counts = counts_.all();
  row.biases = from.logit_bias;
  const int index = position + 1 - prompt_size_;
  row.mask = choose_mask(index)->words();
  row.seed = from.seed;
  row.draw = static_cast<std::uint32_t>(index);
  row.choice = from.choice;
  return row;
}

bool Sequence::has_own_mask(int index) const {
  const Request& request = pending_.request;
  return request.constraint || (index < request.min_tokens && !request.stop_token_ids.empty());
}

/// For the token of this index in the answer.
const TokenMask* Sequence::choose_mask(int index) {
  if (has_own_mask(index)) return own_mask(index);
  const Request& request = pending_.request;
  const bool early = index < request.min_tokens;
  return early && !request.ignore_eos ? &rules_.masks.no_end : &rules_.masks.any;
}

const TokenMask* Sequence::own_mask(int index) {
  const Request& request = pending_.request;
  const bool early = index < request.min_tokens;
  mask_ = rules_.masks.any;
  if (early && !request.ignore_eos) mask_.forbid(rules_.special.eos);
  if (early)
    std::for_each(request.stop_token_ids.begin(), request.stop_token_ids.end(),
                  [this](TokenId id) { mask_.forbid(id); });
  if (!request.constraint) return &mask_;
  const std::uint64_t* allowed = request.constraint->allowed();
  mask_.keep(allowed);
  if (!mask_.empty()) return &mask_;
  mask_ = rules_.masks.any;  // where the constraint lets the text only end, it goes before min_tokens
  mask_.keep(allowed);
  dead_end_ = mask_.empty();
  if (dead_end_) mask_ = rules_.masks.any;  // the row is drawn all the same, and not used
  return &mask_;
}

void Sequence::accept(std::span<const kernels::SampledToken> sampled, Clock::time_point now) {
  const int known = size();
  for (std::size_t i = 0; i < sampled.size() && !finished(); ++i) {
    const int position = first_logits_ + static_cast<int>(i);
    if (position >= known && tokens_.back() != proposed_[static_cast<std::size_t>(position - known)]) break;
    if (!sampled[i].finite) {
      abort({FinishReason::error, false, "the model gave logits that are not finite", true}, now);
    } else if (position + 1 < prompt_size_) {
      score(position, sampled[i]);
    } else {
      append(sampled[i], now);
    }
  }
  judge_proposals(known, size() - known);
  fed_ = std::min(fed_, size() - 1);
  if (!finished() && pending_.request.max_tokens == 0 && prompt_rows_left() == 0) {
    finish(FinishReason::length, now);
  }
}

/// Proposals that were not fed are judged too, by the one token that was drawn: a text that begins to repeat
/// itself is noticed.
void Sequence::judge_proposals(int known, int appended) {
  if (proposals_ > 0 && appended > 0) {
    const bool first_held = tokens_[static_cast<std::size_t>(known)] == proposed_[0];
    record_.learn(std::max(proposals_fed_, 1), proposals_fed_ > 0 ? appended - 1 : int{first_held});
  }
  proposals_ = proposals_fed_ = 0;
}

void Sequence::score(int position, const kernels::SampledToken& sampled) {
  const TokenId id = tokens_[static_cast<std::size_t>(position) + 1];
  output_.prompt_scores.push_back(output_token(id, rules_.tokenizer.bytes(id), sampled));
  scored_ = position + 2;
}

bool Sequence::ends_by_eos(TokenId id) const {
  return id == rules_.special.eos && (!pending_.request.ignore_eos || pending_.request.constraint);
}

void Sequence::append(const kernels::SampledToken& sampled, Clock::time_point now) {
  if (dead_end_) return abort({FinishReason::error, false, "the constraint lets no token follow", true}, now);
  const Request& request = pending_.request;
  const TokenId id = sampled.id;
  const int index = output_.completion_tokens++;
  if (index == 0) output_.times.first_token = now;
  output_.new_ids.push_back(id);
  tokens_.push_back(id);
  if (penalised_) counts_.add(id);
  if (ends_by_eos(id) || contains(request.stop_token_ids, id)) {
    if (!ends_by_eos(id)) output_.stop_token = id;
    text_.push(output_token(id, {}, sampled), false);
    return finish(FinishReason::stop, now);
  }
  if (request.constraint) request.constraint->accept(id);
  text_.push(output_token(id, rules_.tokenizer.bytes(id), sampled), index >= request.min_tokens);
  if (text_.stop() >= 0) {
    output_.stop_string = request.stop[static_cast<std::size_t>(text_.stop())];
    finish(FinishReason::stop, now);
  } else if (output_.completion_tokens == request.max_tokens) {
    finish(FinishReason::length, now);
  }
}

void Sequence::finish(FinishReason reason, Clock::time_point now) { abort({reason, false, {}, false}, now); }

void Sequence::abort(const Abort& abort, Clock::time_point now) {
  text_.finish();
  describe(abort, output_);
  output_.times.finished = now;
}

void Sequence::deliver() {
  const bool has_text = text_.take(output_.text, output_.tokens);
  if (!has_text && !finished()) return;
  pending_.sink(std::move(output_));  // what storage the sink leaves in it, the next piece takes
  output_.text.clear();
  output_.tokens.clear();
  output_.new_ids.clear();
  output_.prompt_scores.clear();
}

double Sequence::seconds_running() const {
  return std::chrono::duration<double>(output_.times.finished - output_.times.admitted).count();
}

}  // namespace grokd
