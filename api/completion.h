#pragma once
// POST /v1/completions: the request, the answer, the events of a stream.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/common.h"
#include "api/logprobs.h"
#include "api/usage.h"

namespace grokd::api {

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest : GenerationFields {
  std::vector<Prompt> prompts{};  // at least one
  std::int64_t max_tokens = 16;   // as asked: may be more than the context; 0 only with echo
  int best_of = 1;                // >= n
  std::optional<int> logprobs{};  // 0..20 alternatives a token; none: not asked for
  bool echo = false;
};

/// Throws ApiError (400) when the body is not a valid request.
CompletionRequest parse_completion_request(std::string_view body, const RequestLimits& limits);

struct CompletionChoice {
  int index = 0;  // prompt_index * n + k
  std::string text{};
  std::optional<std::vector<TokenLogprob>> logprobs{};
  FinishReason finish_reason = FinishReason::stop;
  StopReason stop_reason{};
  std::optional<std::vector<TokenId>> token_ids{}, prompt_token_ids{};  // return_token_ids
};

struct CompletionResponse {
  ResponseHead head{};
  std::vector<CompletionChoice> choices{};  // by rising index
  Usage usage{};
};

std::string to_json(const CompletionResponse& response);

/// One event of a choice. Nothing is copied; all lives until the call returns.
struct CompletionDelta {
  int index = 0;
  std::string_view text{};
  const std::vector<TokenLogprob>* logprobs = nullptr;
  const std::vector<TokenId>* token_ids = nullptr;
  const std::vector<TokenId>* prompt_token_ids = nullptr;  // first event of a choice
};

/// Appends whole events ("data: {...}\n\n"); the part that is the same in all of them is made once.
class CompletionChunkWriter {
 public:
  CompletionChunkWriter(const ResponseHead& head, bool include_usage);
  void append_text(std::string& out, const CompletionDelta& delta) const;
  /// The last event of a choice; its text may hold bytes held back before.
  void append_finish(std::string& out, const CompletionDelta& delta, FinishReason finish,
                     const StopReason& stop) const;
  /// The event after the last choice ended, if include_usage was asked for.
  void append_usage(std::string& out, const Usage& usage) const;

 private:
  void begin(std::string& out, const CompletionDelta& delta) const;
  void end(std::string& out, const CompletionDelta& delta) const;

  std::string prefix_;  // up to `"choices":[`
  std::string suffix_;  // from behind the choice to the end of the event
};

}  // namespace grokd::api
