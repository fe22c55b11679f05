#pragma once
// What a request cost, and how an answer's choices ended.

#include <cstdint>
#include <string>
#include <variant>

namespace grokd::api {

struct Usage {
  std::int64_t prompt_tokens = 0;      // fed to the model, summed over prompts; n does not multiply it
  std::int64_t completion_tokens = 0;  // sampled, over all choices
  std::int64_t cached_tokens = 0;      // of the prompt tokens, found in the prefix cache
};

void append_usage(std::string& out, const Usage& usage);

enum class FinishReason { stop, length };

/// Null: end of sequence, or length. Else the stop string ("timeout" after a deadline) or the stop token id.
using StopReason = std::variant<std::monostate, std::string, std::int32_t>;

/// `"finish_reason":...,"stop_reason":...`
void append_finish(std::string& out, FinishReason finish, const StopReason& stop);

}  // namespace grokd::api
