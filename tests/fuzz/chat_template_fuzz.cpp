// A template's JSON up to a NUL, then messages, one a line: refused, or rendered so that every message's text
// stands in segments of content and nothing of it in markup.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "api/chat_template.h"
#include "api/error.h"

namespace {

using namespace grokd::api;

constexpr ChatRole kRoles[] = {ChatRole::system, ChatRole::user, ChatRole::assistant, ChatRole::tool};
constexpr std::string_view kMark = "\x01\x02";  // stands in no template: inputs with it are skipped

std::vector<ChatMessage> messages_of(std::string_view text) {
  std::vector<ChatMessage> messages;
  for (std::size_t at = 0; at <= text.size() && messages.size() < 16;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    ChatMessage message;
    const std::string_view line = text.substr(at, end - at);
    message.role = kRoles[line.empty() ? 1 : static_cast<unsigned char>(line[0]) % 4];
    message.content = std::string(kMark) + std::string(line);
    messages.push_back(std::move(message));
    at = end + 1;
  }
  return messages;
}

void check(const ChatTemplate& format, const std::vector<ChatMessage>& messages,
           const ChatRendering& rendering) {
  std::string content;
  for (const PromptSegment& segment : render_chat(format, messages, rendering)) {
    if (segment.kind == PromptSegment::Kind::content) {
      content += segment.text;
    } else if (segment.text.find(kMark) != std::string::npos) {
      std::abort();  // a user's text among the template's
    }
  }
  for (std::size_t at = 0, i = 0; i < messages.size(); ++i, ++at) {
    at = content.find(kMark, at);
    if (at == std::string::npos) std::abort();  // a message is missing
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(std::min(end + 1, input.size()));
  if (input.find('\x01') != std::string_view::npos || input.find("\\u0001") != std::string_view::npos)
    return 0;
  const auto messages = messages_of(text);
  const ChatRendering rendering{size % 2 == 0, size % 2 == 1 && messages.back().role == ChatRole::assistant,
                                size % 3 == 0};
  try {
    check(parse_chat_template(input.substr(0, end), "fuzz"), messages, rendering);
  } catch (const ApiError& error) {
    if (error.status < 400 || error.status > 499) std::abort();
  }
  for (const ChatTemplate& format : built_in_chat_templates()) check(format, messages, rendering);
  return 0;
}
