#pragma once
// From the wire's values to the engine's and back. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/common.h"
#include "api/error.h"
#include "api/logprobs.h"
#include "api/usage.h"
#include "engine/request.h"
#include "engine/tokenizer.h"
#include "service/model_host.h"

namespace grokd {

/// How many tokens an answer to `prompt_tokens` may have; throws context_length_exceeded when there is no
/// room for one. `asked` 0 (a score of the prompt alone) needs none.
int clamp_max_tokens(std::int64_t asked, std::size_t prompt_tokens, int context, const std::string& param);

/// Throws context_length_exceeded for a text that cannot fit, so that it need not be encoded to find out.
void check_text_size(std::size_t bytes, const Tokenizer& tokenizer, int context, const std::string& param);

/// Throws model_not_found unless `model` is "" or served.
void check_model(const std::string& model, const ModelHost& host);

/// The seed as given (two's complement), else 64 random bits.
std::uint64_t seed_or_random(const std::optional<std::int64_t>& seed);

using Constraint = std::shared_ptr<const CompiledGrammar>;  // null: the answer is free

/// Everything of an engine request that comes from the common fields, except prompt, lengths and choice.
Request to_engine_request(const api::GenerationFields& fields, std::uint64_t seed,
                          const Constraint& constraint);

api::ResponseHead response_head(std::string_view id_prefix, const ModelHost& host, const LoadedModel& model,
                                const api::GenerationFields& fields, std::uint64_t seed);

api::TokenLogprob to_api_logprob(const OutputToken& token, const Tokenizer& tokenizer, bool scored);

/// For a piece whose finish is stop or length.
api::FinishReason to_api_finish(const RequestOutput& last);
api::StopReason to_api_stop(const RequestOutput& last);

/// For a piece whose finish is error or cancelled.
api::ApiError to_api_error(const RequestOutput& last);
api::ApiError to_api_error(const Refused& refused);

}  // namespace grokd
