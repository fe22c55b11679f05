#pragma once
// The one-call API: a request in, its whole answer out; text can be watched as it comes. The same engine
// serves it that serves HTTP.

#include <functional>
#include <string_view>

#include "engine/engine.h"

namespace grokd {

using OnText = std::function<void(std::string_view)>;

struct Generated {
  std::string text;
  std::vector<TokenId> ids;  // every token sampled
  RequestOutput last;        // finish reason, counts, times
};

/// Waits for the answer. `on_text` (may be empty) sees each piece of text on the engine thread. A refused
/// request ends with FinishReason::error.
Generated generate(Engine& engine, Request request, const OnText& on_text = {});

}  // namespace grokd
