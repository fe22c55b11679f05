#include "engine/generate.h"

#include <future>

namespace grokd {

Generated generate(Engine& engine, Request request, const OnText& on_text) {
  Generated answer;
  std::promise<void> ended;
  auto sink = [&](RequestOutput&& out) {
    answer.text += out.text;
    answer.ids.insert(answer.ids.end(), out.new_ids.begin(), out.new_ids.end());
    if (on_text && !out.text.empty()) on_text(out.text);
    if (out.finish == FinishReason::none) return;
    answer.last = std::move(out);
    ended.set_value();
  };
  auto submitted = engine.submit(std::move(request), sink);
  if (std::holds_alternative<Refused>(submitted)) {
    answer.last.finish = FinishReason::error;
    answer.last.error = "the engine takes no more requests";
    return answer;
  }
  ended.get_future().wait();
  return answer;
}

}  // namespace grokd
