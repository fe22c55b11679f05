#include "api/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/error.h"
#include "api/fields.h"

namespace grokd::api {
namespace {

using Kind = PromptSegment::Kind;

constexpr std::string_view kContent = "{content}";
constexpr std::string_view kName = "{name}";
constexpr std::string_view kWhiteSpace = " \t\n\r\f\v";

std::string_view stripped(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
}

class Renderer {
 public:
  Renderer(const ChatTemplate& format, const ChatRendering& rendering)
      : format_(format), rendering_(rendering) {}

  std::vector<PromptSegment> render(std::span<const ChatMessage> messages) {
    append_turn(format_.begin, {});
    for (const ChatMessage& message : messages) append_message(message, &message == &messages.back());
    if (!waiting_system_.empty()) append_user({});
    if (rendering_.add_generation_prompt) append_turn(format_.generation_prompt, {});
    return std::move(segments_);
  }

 private:
  void append_message(const ChatMessage& message, bool last) {
    switch (message.role) {
      case ChatRole::system:
        if (format_.merge_system) {
          waiting_system_.push_back(&message);
        } else {
          append_turn(format_.system, message);
        }
        break;
      case ChatRole::tool:
        if (format_.tool.empty()) {
          append_user(message);
        } else {
          append_turn(format_.tool, message);
        }
        break;
      case ChatRole::user:
        append_user(message);
        break;
      case ChatRole::assistant:
        append_assistant(message, last && rendering_.continue_final_message);
        break;
    }
  }

  void append_assistant(const ChatMessage& message, bool stays_open) {
    std::string_view turn = format_.assistant;
    if (stays_open) turn = turn.substr(0, turn.find(kContent) + kContent.size());
    append_turn(turn, message);
  }

  /// System texts that waited for this turn go where its content begins.
  void append_user(const ChatMessage& message) {
    const std::string_view turn = format_.user;
    const std::size_t content = turn.find(kContent);
    append_turn(turn.substr(0, content), message);
    for (const ChatMessage* system : waiting_system_) append_turn(format_.system, *system);
    waiting_system_.clear();
    append_turn(turn.substr(content), message);
  }

  void append_turn(std::string_view turn, const ChatMessage& message) {
    while (!turn.empty()) {
      const std::size_t brace = std::min(turn.find('{'), turn.size());
      append(Kind::markup, turn.substr(0, brace));
      turn.remove_prefix(brace);
      turn.remove_prefix(append_placeholder(turn, message));
    }
  }

  /// Returns how many bytes of the turn, which begins with a brace or is empty, were used.
  std::size_t append_placeholder(std::string_view turn, const ChatMessage& message) {
    if (turn.empty()) return 0;
    if (turn.starts_with(kContent)) {
      append(Kind::content, guarded(content_of(message)));
      return kContent.size();
    }
    if (turn.starts_with(kName)) return append(Kind::content, guarded(message.name)), kName.size();
    if (turn.starts_with("{bos}")) return segments_.push_back({Kind::bos, ""}), 5;
    if (turn.starts_with("{eos}")) return segments_.push_back({Kind::eos, ""}), 5;
    return append(Kind::markup, turn.substr(0, 1)), 1;
  }

  void append(Kind kind, std::string_view text) {
    if (text.empty()) return;
    bool take_space = false;
    if (kind == Kind::content && !segments_.empty()) {
      PromptSegment& before = segments_.back();
      if (before.kind == Kind::markup && before.text.back() == ' ') {
        before.text.pop_back();
        take_space = true;
        if (before.text.empty()) segments_.pop_back();
      }
    }
    if (segments_.empty() || segments_.back().kind != kind) segments_.push_back({kind, ""});
    if (take_space) segments_.back().text += ' ';
    segments_.back().text += text;
  }

  std::string_view content_of(const ChatMessage& message) const {
    const bool strip = format_.strip_content && message.role != ChatRole::assistant;
    return strip ? stripped(message.content) : std::string_view(message.content);
  }

  std::string guarded(std::string_view text) const;

  const ChatTemplate& format_;
  const ChatRendering& rendering_;
  std::vector<PromptSegment> segments_;
  std::vector<const ChatMessage*> waiting_system_;
};

/// How the turns of a format begin, without space around it: "Human:", "<|user|>".
std::vector<std::string_view> turn_openers(const ChatTemplate& format) {
  std::vector<std::string_view> openers;
  for (const std::string_view turn :
       {std::string_view(format.system), std::string_view(format.user), std::string_view(format.assistant),
        std::string_view(format.tool), std::string_view(format.generation_prompt)}) {
    std::string_view opener = turn.substr(0, turn.find('{'));
    const std::size_t begin = opener.find_first_not_of(" \n");
    if (begin == std::string_view::npos) continue;
    opener = opener.substr(begin, opener.find_last_not_of(" \n") + 1 - begin);
    openers.push_back(opener);
  }
  return openers;
}

std::string Renderer::guarded(std::string_view text) const {
  if (!rendering_.indent_forged_turns) return std::string(text);
  const std::vector<std::string_view> openers = turn_openers(format_);
  std::string out;
  std::string_view rest = text;
  while (!rest.empty()) {
    const bool forged = std::ranges::any_of(openers, [&](auto opener) { return rest.starts_with(opener); });
    if (forged) out += ' ';
    const std::size_t newline = rest.find('\n');
    const std::size_t line = newline == std::string_view::npos ? rest.size() : newline + 1;
    out += rest.substr(0, line);
    rest.remove_prefix(line);
  }
  return out;
}

std::string read_turn(FieldReader& fields, std::string_view name) {
  const std::string* turn = fields.string(name);
  if (!turn) throw errors::missing_required_parameter(std::string(name));
  const std::size_t content = turn->find(kContent);
  if (content != std::string::npos && turn->find(kContent, content + 1) == std::string::npos) return *turn;
  throw errors::invalid_value(std::string(name),
                              "'" + std::string(name) + "' must hold {content} exactly once.");
}

std::string read_text(FieldReader& fields, std::string_view name) {
  const std::string* text = fields.string(name);
  return text ? *text : std::string();
}

}  // namespace

std::span<const ChatTemplate> built_in_chat_templates() {
  static const std::array kTemplates = {
      // For models without a chat format of their own.
      ChatTemplate{.name = "plain",
                   .begin = "",
                   .system = "{content}\n\n",
                   .user = "Human: {content}\n\n",
                   .assistant = "Assistant: {content}\n\n",
                   .tool = "Tool: {content}\n\n",
                   .generation_prompt = "Assistant:",
                   .stop = {"\n\nHuman:"},
                   .stop_token_ids = {}},
      // The model in deploy/demo-model.
      ChatTemplate{.name = "demo",
                   .begin = "",
                   .system = "<|system|>\n{content}\n",
                   .user = "<|user|>\n{content}\n",
                   .assistant = "<|assistant|>\n{content}{eos}\n",
                   .tool = "",
                   .generation_prompt = "<|assistant|>\n",
                   .stop = {},
                   .stop_token_ids = {2}},
      ChatTemplate{.name = "grok-2",
                   .begin = "",
                   .system = "System: {content}<|separator|>\n\n",
                   .user = "Human: {content}<|separator|>\n\n",
                   .assistant = "Assistant: {content}<|separator|>\n\n",
                   .tool = "",
                   .generation_prompt = "Assistant:",
                   .stop = {"<|separator|>", "\n\nHuman:"},
                   .stop_token_ids = {},
                   .strip_content = true},
      ChatTemplate{.name = "mistral",
                   .begin = "{bos}",
                   .system = "{content}\n\n",
                   .user = "[INST] {content} [/INST]",
                   .assistant = " {content}{eos}",
                   .tool = "",
                   .generation_prompt = "",
                   .stop = {"[INST]"},
                   .stop_token_ids = {},
                   .merge_system = true},
      ChatTemplate{.name = "llama-2",
                   .begin = "",
                   .system = "<<SYS>>\n{content}\n<</SYS>>\n\n",
                   .user = "{bos}[INST] {content} [/INST]",
                   .assistant = " {content} {eos}",
                   .tool = "",
                   .generation_prompt = "",
                   .stop = {"[INST]"},
                   .stop_token_ids = {},
                   .merge_system = true},
      ChatTemplate{.name = "chatml",
                   .begin = "",
                   .system = "<|im_start|>system\n{content}<|im_end|>\n",
                   .user = "<|im_start|>user\n{content}<|im_end|>\n",
                   .assistant = "<|im_start|>assistant\n{content}<|im_end|>\n",
                   .tool = "<|im_start|>tool\n{content}<|im_end|>\n",
                   .generation_prompt = "<|im_start|>assistant\n",
                   .stop = {"<|im_end|>", "<|im_start|>"},
                   .stop_token_ids = {}},
      ChatTemplate{.name = "llama-3",
                   .begin = "{bos}",
                   .system = "<|start_header_id|>system<|end_header_id|>\n\n{content}<|eot_id|>",
                   .user = "<|start_header_id|>user<|end_header_id|>\n\n{content}<|eot_id|>",
                   .assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n{content}<|eot_id|>",
                   .tool = "<|start_header_id|>ipython<|end_header_id|>\n\n{content}<|eot_id|>",
                   .generation_prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n",
                   .stop = {"<|eot_id|>", "<|start_header_id|>"},
                   .stop_token_ids = {},
                   .strip_content = true},
  };
  return kTemplates;
}

const ChatTemplate* find_chat_template(std::string_view name) {
  const auto templates = built_in_chat_templates();
  const auto found = std::ranges::find(templates, name, &ChatTemplate::name);
  return found == templates.end() ? nullptr : &*found;
}

ChatTemplate parse_chat_template(std::string_view json, std::string name) {
  const JsonValue value = parse_json_object(json);
  FieldReader fields(*value.object());
  ChatTemplate format;
  format.name = std::move(name);
  format.begin = read_text(fields, "begin");
  format.merge_system = fields.boolean("merge_system").value_or(false) || !fields.find("system");
  format.strip_content = fields.boolean("strip_content").value_or(false);
  format.system = fields.find("system") ? read_turn(fields, "system") : "{content}\n\n";
  format.user = read_turn(fields, "user");
  format.assistant = read_turn(fields, "assistant");
  if (fields.find("tool")) format.tool = read_turn(fields, "tool");
  if (!fields.find("generation_prompt")) throw errors::missing_required_parameter("generation_prompt");
  format.generation_prompt = read_text(fields, "generation_prompt");
  if (const JsonArray* stops = fields.array("stop")) {
    for (const JsonValue& stop : *stops) format.stop.push_back(read_string(stop, "stop", 1));
  }
  if (const JsonArray* ids = fields.array("stop_token_ids")) {
    for (const JsonValue& id : *ids) {
      format.stop_token_ids.push_back(static_cast<TokenId>(read_integer(id, "stop_token_ids", 0, INT32_MAX)));
    }
  }
  fields.find("note");
  if (const std::string* unknown = fields.first_unknown_field()) {
    throw errors::invalid_value(*unknown,
                                "The key " + quote_bytes(*unknown) + " is not one of a chat template.");
  }
  return format;
}

std::vector<PromptSegment> render_chat(const ChatTemplate& format, std::span<const ChatMessage> messages,
                                       const ChatRendering& rendering) {
  return Renderer(format, rendering).render(messages);
}

}  // namespace grokd::api
