#pragma once
// POST /v1/chat/completions: the request, the answer, the events of a stream.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/common.h"
#include "api/logprobs.h"
#include "api/usage.h"

namespace grokd::api {

enum class ChatRole { system, user, assistant, tool };  // the wire's "developer" is system

struct ChatMessage {
  ChatRole role = ChatRole::user;
  std::string content{};  // text parts joined; "" for null
  std::string name{};     // "" = none
};

struct ChatRequest : GenerationFields {
  std::vector<ChatMessage> messages{};       // at least one
  std::optional<std::int64_t> max_tokens{};  // as asked, at least 1; may be more than the context
  bool logprobs = false;
  int top_logprobs = 0;  // 0..20
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the last message is the assistant's and stays open
  std::string chat_template_kwargs{};   // JSON text, "" = none
};

/// Throws ApiError (400) when the body is not a valid request.
ChatRequest parse_chat_request(std::string_view body, const RequestLimits& limits);

/// The field "messages" of a request that has one (chat, tokenize). Throws if it is absent or wrong.
std::vector<ChatMessage> read_messages(FieldReader& fields, const RequestLimits& limits);

/// "add_generation_prompt" and "continue_final_message", which exclude each other; the second needs a last
/// message of the assistant.
void read_turn_end(FieldReader& fields, const std::vector<ChatMessage>& messages, bool& add_generation_prompt,
                   bool& continue_final_message);

struct ChatChoice {
  int index = 0;
  std::string content{};
  std::optional<std::vector<TokenLogprob>> logprobs{};
  FinishReason finish_reason = FinishReason::stop;
  StopReason stop_reason{};
  std::optional<std::vector<TokenId>> token_ids{}, prompt_token_ids{};  // return_token_ids
};

struct ChatResponse {
  ResponseHead head{};
  std::vector<ChatChoice> choices{};  // by rising index
  Usage usage{};
};

std::string to_json(const ChatResponse& response);

/// One event of a choice. Nothing is copied; all lives until the call returns.
struct ChatDelta {
  int index = 0;
  std::string_view content{};  // "" in append_finish: the event has an empty delta
  const std::vector<TokenLogprob>* logprobs = nullptr;
  const std::vector<TokenId>* token_ids = nullptr;
  const std::vector<TokenId>* prompt_token_ids = nullptr;  // first event of a choice
};

/// Appends whole events ("data: {...}\n\n"); the part that is the same in all of them is made once.
class ChatChunkWriter {
 public:
  ChatChunkWriter(const ResponseHead& head, bool include_usage);
  /// The first event of a choice: the role and an empty content. `delta.content` is not used.
  void append_role(std::string& out, const ChatDelta& delta) const;
  void append_text(std::string& out, const ChatDelta& delta) const;
  /// The last event of a choice; its content may hold bytes held back before.
  void append_finish(std::string& out, const ChatDelta& delta, FinishReason finish,
                     const StopReason& stop) const;
  /// The event after the last choice ended, if include_usage was asked for.
  void append_usage(std::string& out, const Usage& usage) const;

 private:
  void begin(std::string& out, const ChatDelta& delta) const;
  void end(std::string& out, const ChatDelta& delta, std::string_view finish) const;

  std::string prefix_;  // up to `"choices":[`
  std::string suffix_;  // from behind the choice to the end of the event
};

/// Takes the one space off a choice's answer that SentencePiece puts after the template's last marker.
class LeadingSpace {
 public:
  /// Pieces of one choice, in order; `logprobs` may be null.
  void remove(std::string& text, std::vector<TokenLogprob>* logprobs);

 private:
  bool at_start_of_text_ = true, at_start_of_tokens_ = true;
};

}  // namespace grokd::api
