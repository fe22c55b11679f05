#include "service/convert.h"

#include <sys/random.h>

#include <algorithm>
#include <cmath>

#include "service/exchange.h"

namespace grokd {
namespace {

int tier_of(api::ServiceTier tier) {
  switch (tier) {
    case api::ServiceTier::priority:
      return 0;
    case api::ServiceTier::flex:
      return 2;
    case api::ServiceTier::automatic:
    case api::ServiceTier::standard:
      break;
  }
  return 1;
}

/// "auto" is answered with the tier it came to.
api::ServiceTier tier_used(api::ServiceTier asked) {
  return asked == api::ServiceTier::automatic ? api::ServiceTier::standard : asked;
}

std::int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string shown_bytes(const Tokenizer& tokenizer, TokenId id) {
  return std::string(tokenizer.is_control(id) ? tokenizer.piece(id) : tokenizer.bytes(id));
}

}  // namespace

int clamp_max_tokens(std::int64_t asked, std::size_t prompt_tokens, int context, const std::string& param) {
  const std::int64_t room = context - static_cast<std::int64_t>(prompt_tokens);
  if (room < 0 || (room == 0 && asked > 0)) {
    throw api::errors::context_length_exceeded(param, context, static_cast<std::int64_t>(prompt_tokens));
  }
  return static_cast<int>(std::min(asked, room));
}

void check_text_size(std::size_t bytes, const Tokenizer& tokenizer, int context, const std::string& param) {
  const auto longest = static_cast<std::size_t>(std::max(tokenizer.longest_piece_bytes(), 1));
  const std::size_t fewest_tokens = (bytes + longest - 1) / longest;
  if (fewest_tokens <= static_cast<std::size_t>(context)) return;
  throw api::errors::context_length_exceeded(param, context, static_cast<std::int64_t>(fewest_tokens));
}

void check_model(const std::string& model, const ModelHost& host) {
  if (model.empty() || host.is_served(model)) return;
  const std::vector<std::string> served = {host.id()};
  throw api::errors::model_not_found(model, served);
}

std::uint64_t seed_or_random(const std::optional<std::int64_t>& seed) {
  if (seed) return static_cast<std::uint64_t>(*seed);
  std::uint64_t bits = 0;
  [[maybe_unused]] const auto got = getrandom(&bits, sizeof(bits), 0);
  return bits;
}

Request to_engine_request(const api::GenerationFields& fields, std::uint64_t seed,
                          const Constraint& constraint) {
  Request request;
  SamplingParams& sampling = request.sampling;
  sampling.temperature = fields.temperature;
  sampling.top_p = fields.top_p;
  sampling.min_p = fields.min_p;
  sampling.top_k = fields.top_k;
  sampling.repetition_penalty = fields.repetition_penalty;
  sampling.presence_penalty = fields.presence_penalty;
  sampling.frequency_penalty = fields.frequency_penalty;
  for (const api::LogitBias& entry : fields.logit_bias) {
    sampling.logit_bias.push_back({entry.id, static_cast<float>(entry.bias)});
  }
  sampling.seed = seed;
  request.stop = fields.stop;
  request.stop_token_ids = fields.stop_token_ids;
  request.ignore_eos = fields.ignore_eos;
  request.skip_special_tokens = fields.skip_special_tokens;
  request.tier = tier_of(fields.service_tier);
  request.priority = fields.priority;
  request.cache_salt = fields.cache_salt;
  if (constraint) request.constraint = make_constraint(constraint);
  return request;
}

api::ResponseHead response_head(std::string_view id_prefix, const ModelHost& host, const LoadedModel& model,
                                const api::GenerationFields& fields, std::uint64_t seed) {
  api::ResponseHead head;
  head.id = std::string(id_prefix) + random_id();
  head.created = unix_seconds();
  head.model = host.id();
  head.system_fingerprint = model.fingerprint;
  head.service_tier = tier_used(fields.service_tier);
  head.seed_used = static_cast<std::int64_t>(seed);
  return head;
}

api::TokenLogprob to_api_logprob(const OutputToken& token, const Tokenizer& tokenizer, bool scored) {
  api::TokenLogprob out;
  out.bytes = token.bytes;
  if (!scored) return out;
  out.logprob = token.logprob;
  for (const TokenLogprob& candidate : token.top) {
    out.top.push_back({shown_bytes(tokenizer, candidate.id), candidate.logprob});
  }
  return out;
}

api::FinishReason to_api_finish(const RequestOutput& last) {
  return last.finish == FinishReason::stop ? api::FinishReason::stop : api::FinishReason::length;
}

api::StopReason to_api_stop(const RequestOutput& last) {
  if (last.timed_out) return std::string("timeout");
  if (!last.stop_string.empty()) return last.stop_string;
  if (last.stop_token >= 0) return last.stop_token;
  return std::monostate();
}

api::ApiError to_api_error(const RequestOutput& last) {
  if (last.finish == FinishReason::cancelled) return api::errors::shutting_down(1);
  return last.repeatable_error ? api::errors::numeric_error() : api::errors::internal_error(false);
}

api::ApiError to_api_error(const Refused& refused) {
  const int seconds = static_cast<int>(std::ceil(std::clamp(refused.retry_after_seconds, 1.0, 120.0)));
  switch (refused.reason) {
    case Rejection::queue_full:
    case Rejection::deadline:  // what waits would take longer than it has
      return api::errors::queue_full(seconds);
    case Rejection::draining:
      return api::errors::shutting_down(seconds);
    case Rejection::failed:
      break;
  }
  return api::errors::engine_unavailable(seconds);
}

}  // namespace grokd
