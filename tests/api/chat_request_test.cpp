#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/api/refusal.h"

using namespace grokd::api;
using namespace grokd::api::test;

namespace {

ChatRequest parse(std::string_view body) { return parse_chat_request(body, small_limits()); }
ChatRequest parse_members(const std::string& members) { return parse(chat_body(members)); }

std::string refusal_of_messages(const std::string& messages) {
  return refusal_of_chat(R"({"messages":)" + messages + "}");
}

}  // namespace

TEST_CASE("an absent chat field has its default") {
  const ChatRequest request = parse(R"({"messages":[{"role":"user","content":"Hi"}]})");
  REQUIRE(request.messages.size() == 1);
  CHECK(request.messages[0].role == ChatRole::user);
  CHECK(request.messages[0].content == "Hi");
  CHECK(request.messages[0].name.empty());
  CHECK_FALSE(request.max_tokens.has_value());
  CHECK_FALSE(request.logprobs);
  CHECK(request.top_logprobs == 0);
  CHECK(request.add_generation_prompt);
  CHECK_FALSE(request.continue_final_message);
  CHECK(request.chat_template_kwargs.empty());
  CHECK(request.temperature == 1);
  CHECK(request.n == 1);
  CHECK(request.unknown_fields == 0);
}

TEST_CASE("every optional chat field may be null and is then as if absent") {
  const ChatRequest request = parse_members(
      R"("model":null,"max_tokens":null,"max_completion_tokens":null,"temperature":null,"top_p":null,"top_k":null,
         "min_p":null,"n":null,"stream":null,"stream_options":null,"stop":null,"logprobs":null,"top_logprobs":null,
         "presence_penalty":null,"frequency_penalty":null,"repetition_penalty":null,"logit_bias":null,"seed":null,
         "user":null,"ignore_eos":null,"min_tokens":null,"stop_token_ids":null,"skip_special_tokens":null,
         "return_token_ids":null,"priority":null,"timeout":null,"cache_salt":null,"grammar":null,"regex":null,
         "service_tier":null,"response_format":null,"tools":null,"tool_choice":null,"functions":null,
         "function_call":null,"parallel_tool_calls":null,"store":null,"metadata":null,"modalities":null,
         "reasoning_effort":null,"verbosity":null,"prediction":null,"safety_identifier":null,
         "prompt_cache_key":null,"audio":null,"add_generation_prompt":null,"continue_final_message":null,
         "chat_template_kwargs":null,"best_of":null,"echo":null,"suffix":null,"prompt":null)");
  CHECK_FALSE(request.max_tokens.has_value());
  CHECK(request.add_generation_prompt);
  CHECK(request.unknown_fields == 0);
}

TEST_CASE("the fields both routes share are read by chat too") {
  const ChatRequest request = parse_members(
      R"("model":"m","temperature":0.5,"top_k":3,"n":2,"stream":true,"stream_options":{"include_usage":true},
         "stop":"x","seed":7,"logit_bias":{"5":1},"min_tokens":2,"logprobs":true,"top_logprobs":20,
         "chat_template_kwargs":{"a":[1]},"add_generation_prompt":false)");
  CHECK(request.model == "m");
  CHECK(request.temperature == 0.5);
  CHECK(request.top_k == 3);
  CHECK(request.n == 2);
  CHECK(request.stream_options.include_usage);
  CHECK(request.stop == std::vector<std::string>{"x"});
  CHECK(request.seed == 7);
  CHECK(request.logit_bias.size() == 1);
  CHECK(request.min_tokens == 2);
  CHECK(request.logprobs);
  CHECK(request.top_logprobs == 20);
  CHECK(request.chat_template_kwargs == R"({"a":[1]})");
  CHECK_FALSE(request.add_generation_prompt);
}

TEST_CASE("each role is read, and developer is system") {
  const ChatRequest request = parse(
      R"({"messages":[{"role":"system","content":"a"},{"role":"developer","content":"b"},
          {"role":"user","content":"c","name":"Ann"},{"role":"assistant","content":null},{"role":"assistant"},
          {"role":"tool","content":"d","tool_call_id":"1"}]})");
  REQUIRE(request.messages.size() == 6);
  const std::vector<ChatRole> roles = {ChatRole::system,    ChatRole::system,    ChatRole::user,
                                       ChatRole::assistant, ChatRole::assistant, ChatRole::tool};
  for (std::size_t i = 0; i < roles.size(); ++i) CHECK(request.messages[i].role == roles[i]);
  CHECK(request.messages[2].name == "Ann");
  CHECK(request.messages[3].content.empty());
}

TEST_CASE("text parts are joined with nothing between") {
  const ChatRequest request = parse(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a "},{"type":"text","text":"b"}]}]})");
  CHECK(request.messages[0].content == "a b");
}

TEST_CASE("messages that are wrong are refused by the path of what is wrong") {
  CHECK(refusal_of_chat("{}") == "400 missing_required_parameter messages");
  CHECK(refusal_of_messages("null") == "400 missing_required_parameter messages");
  CHECK(refusal_of_messages("[]") == "400 invalid_value messages");
  CHECK(refusal_of_messages("\"Hi\"") == "400 invalid_type messages");
  CHECK(refusal_of_messages("[\"Hi\"]") == "400 invalid_type messages[0]");
  CHECK(refusal_of_messages(R"([{"content":"x"}])") == "400 missing_required_parameter messages[0].role");
  CHECK(refusal_of_messages(R"([{"role":"bot","content":"x"}])") == "400 invalid_value messages[0].role");
  CHECK(refusal_of_messages(R"([{"role":5,"content":"x"}])") == "400 invalid_type messages[0].role");
  CHECK(refusal_of_messages(R"([{"role":"assistant"},{"role":"user"}])") ==
        "400 missing_required_parameter messages[1].content");
  CHECK(refusal_of_messages(R"([{"role":"user","content":null}])") ==
        "400 missing_required_parameter messages[0].content");
  CHECK(refusal_of_messages(R"([{"role":"user","content":5}])") == "400 invalid_type messages[0].content");
  CHECK(refusal_of_messages(R"([{"role":"user","content":[]}])") == "400 invalid_value messages[0].content");
  CHECK(refusal_of_messages(R"([{"role":"user","content":["x"]}])") ==
        "400 invalid_type messages[0].content[0]");
  CHECK(refusal_of_messages(R"([{"role":"user","content":[{"type":"text"}]}])") ==
        "400 missing_required_parameter messages[0].content[0].text");
  CHECK(refusal_of_messages(R"([{"role":"user","content":[{"text":"x"}]}])") ==
        "400 missing_required_parameter messages[0].content[0].type");
  CHECK(refusal_of_messages(R"([{"role":"user","content":[{"type":"poem","text":"x"}]}])") ==
        "400 invalid_value messages[0].content[0].type");
  for (const char* type : {"image_url", "input_audio", "file"}) {
    CHECK(refusal_of_messages(R"([{"role":"user","content":[{"type":"text","text":"x"},{"type":")" +
                              std::string(type) + R"("}]}])") ==
          "400 unsupported_parameter messages[0].content[1]");
  }
  CHECK(refusal_of_messages(R"([{"role":"user","content":"x","name":")" + std::string(65, 'a') + R"("}])") ==
        "400 invalid_value messages[0].name");
  CHECK(refusal_of_messages(R"([{"role":"assistant","tool_calls":[{"id":"1"}]}])") ==
        "400 unsupported_parameter messages[0].tool_calls");
}

TEST_CASE("1024 messages are accepted and 1025 are not") {
  const auto messages = [](int count) {
    std::string list = R"([{"role":"user","content":"x"})";
    for (int i = 1; i < count; ++i) list += R"(,{"role":"user","content":"x"})";
    return list + "]";
  };
  CHECK(refusal_of_messages(messages(1024)) == "accepted");
  CHECK(refusal_of_messages(messages(1025)) == "400 invalid_value messages");
}

TEST_CASE("max_completion_tokens and max_tokens are one setting and may not differ") {
  CHECK(parse_members(R"("max_tokens":5)").max_tokens == 5);
  CHECK(parse_members(R"("max_completion_tokens":6)").max_tokens == 6);
  CHECK(parse_members(R"("max_completion_tokens":6,"max_tokens":6)").max_tokens == 6);
  CHECK(parse_members(R"("max_completion_tokens":9223372036854775807)").max_tokens == INT64_MAX);
  CHECK(refusal_of_chat(chat_body(R"("max_completion_tokens":6,"max_tokens":5)")) ==
        "400 invalid_value max_tokens");
  CHECK(refusal_of_chat(chat_body(R"("max_completion_tokens":0)")) ==
        "400 invalid_value max_completion_tokens");
  CHECK(refusal_of_chat(chat_body(R"("max_tokens":0)")) == "400 invalid_value max_tokens");
  CHECK(refusal_of_chat(chat_body(R"("max_tokens":5,"min_tokens":6)")) == "400 invalid_value min_tokens");
}

TEST_CASE("top_logprobs need logprobs and are at most 20") {
  CHECK(refusal_of_chat(chat_body(R"("top_logprobs":1)")) == "400 invalid_value top_logprobs");
  CHECK(refusal_of_chat(chat_body(R"("logprobs":false,"top_logprobs":1)")) ==
        "400 invalid_value top_logprobs");
  CHECK(refusal_of_chat(chat_body(R"("logprobs":true,"top_logprobs":21)")) ==
        "400 invalid_value top_logprobs");
  CHECK(refusal_of_chat(chat_body(R"("logprobs":true,"top_logprobs":1000000000)")) ==
        "400 invalid_value top_logprobs");
  CHECK(refusal_of_chat(chat_body(R"("logprobs":1)")) == "400 invalid_type logprobs");
  CHECK(refusal_of_chat(chat_body(R"("top_logprobs":0)")) == "accepted");
  CHECK(parse_members(R"("logprobs":true)").logprobs);
}

TEST_CASE("what belongs to completions is refused by chat") {
  for (const char* member : {R"("prompt":"x")", R"("best_of":1)", R"("echo":true)", R"("suffix":"x")"}) {
    CAPTURE(member);
    const std::string text = member;
    const std::string field = text.substr(1, text.find('"', 1) - 1);
    CHECK(refusal_of_chat(chat_body(member)) == "400 unsupported_parameter " + field);
  }
}

TEST_CASE("tools and audio are refused when they ask for something") {
  for (const char* member :
       {R"("tools":[{"type":"function"}])", R"("tool_choice":"auto")", R"("tool_choice":{"a":1})",
        R"("functions":[{}])", R"("function_call":"auto")", R"("audio":{"voice":"x"})",
        R"("prediction":{"type":"content"})", R"("modalities":["text","audio"])"}) {
    CAPTURE(member);
    const std::string text = member;
    const std::string field = text.substr(1, text.find('"', 1) - 1);
    CHECK(refusal_of_chat(chat_body(member)) == "400 unsupported_parameter " + field);
  }
  CHECK(refusal_of_chat(chat_body(
            R"("tools":[],"tool_choice":"none","functions":[],"function_call":"none")")) == "accepted");
}

TEST_CASE("fields that change nothing here are accepted and are not unknown") {
  const ChatRequest request = parse_members(
      R"("parallel_tool_calls":true,"store":true,"metadata":{"a":"b"},"modalities":["text"],"reasoning_effort":"low",
         "verbosity":"low","safety_identifier":"x","prompt_cache_key":"x","what":1)");
  CHECK(request.unknown_fields == 1);
}

TEST_CASE("a message is continued only if it is the assistant's last and no new turn is opened") {
  const auto body = [](const std::string& role, const std::string& members) {
    return R"({"messages":[{"role":")" + role + R"(","content":"x"}],)" + members + "}";
  };
  const ChatRequest request = parse(body("assistant", R"("continue_final_message":true)"));
  CHECK(request.continue_final_message);
  CHECK_FALSE(request.add_generation_prompt);
  CHECK(refusal_of_chat(body("assistant", R"("continue_final_message":true,"add_generation_prompt":true)")) ==
        "400 invalid_value continue_final_message");
  CHECK(refusal_of_chat(body("user", R"("continue_final_message":true)")) ==
        "400 invalid_value continue_final_message");
  CHECK(refusal_of_chat(body("user", R"("add_generation_prompt":1)")) ==
        "400 invalid_type add_generation_prompt");
}

TEST_CASE("chat_template_kwargs may have 4 KiB") {
  const auto body = [](std::size_t bytes) {
    return chat_body(R"("chat_template_kwargs":{"a":")" + std::string(bytes, 'a') + R"("})");
  };
  CHECK(refusal_of_chat(body(4000)) == "accepted");
  CHECK(refusal_of_chat(body(4096)) == "400 invalid_value chat_template_kwargs");
  CHECK(refusal_of_chat(chat_body(R"("chat_template_kwargs":[])")) ==
        "400 invalid_type chat_template_kwargs");
}
