#pragma once
// The mailbox between the engine thread and one exchange: pieces of its choices, in order.

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "engine/request.h"

namespace grokd {

/// A piece of one choice's answer.
struct Piece {
  int choice = 0;
  RequestOutput output;
  Clock::time_point made;
};

class TokenStream {
 public:
  /// `wake` is called on the engine thread, once for all that waits until the next `take`; must not block.
  /// `keep_tokens`: the pieces' tokens are wanted, not only their text.
  TokenStream(std::function<void()> wake, bool keep_tokens);

  /// From the engine thread.
  void push(int choice, RequestOutput&& output);
  /// Replaces `pieces` by all that waits.
  void take(std::vector<Piece>& pieces);
  /// What waits, in bytes.
  std::size_t waiting_bytes() const;

 private:
  Piece* piece_to_extend(int choice);

  const std::function<void()> wake_;
  const bool keep_tokens_;
  mutable std::mutex mutex_;
  std::vector<Piece> pieces_;
  std::size_t bytes_ = 0;
  bool notified_ = false;
};

}  // namespace grokd
