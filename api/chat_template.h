#pragma once
// How messages become one prompt. The result is a list of segments, so that only the template places markers:
// text of messages is encoded with control and user-defined pieces broken, text of the template is not.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat.h"

namespace grokd::api {

/// One format. A turn is text with placeholders: "{content}" (once), "{name}", and "{bos}" and "{eos}", which
/// stand for those token ids. In the text itself the tokenizer's markers ("<|user|>") are matched.
struct ChatTemplate {
  std::string name{};
  std::string begin{};  // before the first message
  std::string system{}, user{}, assistant{}, tool{};
  std::string generation_prompt{};        // opens the assistant's turn
  std::vector<std::string> stop{};        // default stop strings: how an imagined next turn begins
  std::vector<TokenId> stop_token_ids{};  // default stop ids, beside the model's end of sequence
  bool merge_system = false;              // the system turn goes where the next user message's content begins
  bool strip_content = false;  // white space around the text of all but the assistant's messages is removed
};

/// The built-in formats, in one table: plain, demo, grok-2, mistral, llama-2, chatml, llama-3.
std::span<const ChatTemplate> built_in_chat_templates();
/// Null if there is none of that name.
const ChatTemplate* find_chat_template(std::string_view name);

/// From JSON text with the keys of ChatTemplate but name, e.g. the "chat_template" of a model's config.json:
///   {"user": "<|user|>\n{content}\n", "assistant": "<|assistant|>\n{content}{eos}\n",
///    "generation_prompt": "<|assistant|>\n", "stop_token_ids": [2]}
/// These three turns are required. Without "system" its text and a blank line go before the next user
/// message; without "tool" such messages are rendered as the user's. "note" may hold a remark. Throws
/// ApiError naming the key.
ChatTemplate parse_chat_template(std::string_view json, std::string name);

struct PromptSegment {
  enum class Kind {
    content,  // text of a message: markers in it mean nothing (Tokenizer::encode_plain)
    markup,   // text of the template: markers in it are markers (Tokenizer::encode)
    bos,      // the id, no text
    eos,
  };
  Kind kind = Kind::content;
  std::string text;
  bool operator==(const PromptSegment&) const = default;
};

struct ChatRendering {
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the last message ends with its content, nothing follows
  bool indent_forged_turns = false;     // a line of a message that would open a turn gets a space before it
};

/// Neighbouring segments of text of one kind are joined; none is empty.
///
/// Spaces: content is kept as sent unless the format strips it. A space of the template right before
/// "{content}" belongs to the content segment, so that words are cut as in running text ("Human:" " Hello",
/// not "Human: " "Hello"). A segment is to be encoded without a start space unless it is the first of the
/// prompt. An answer's first space is removed (LeadingSpace), except where a message is continued.
std::vector<PromptSegment> render_chat(const ChatTemplate& format, std::span<const ChatMessage> messages,
                                       const ChatRendering& rendering);

}  // namespace grokd::api
