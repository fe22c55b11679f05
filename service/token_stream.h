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
  struct Events {
    std::function<void()> wake;      // once for all that waits until the next `take`
    std::function<void()> too_much;  // more than `most_bytes` wait or are being written; once between takes
  };

  /// The events happen on the engine thread and must not block. `keep_tokens`: the pieces' tokens are wanted,
  /// not only their text.
  TokenStream(Events events, bool keep_tokens, std::size_t most_bytes);

  /// From the engine thread.
  void push(int choice, RequestOutput&& output);
  /// Replaces `pieces` by all that waits; what was taken before counts as written, and its storage is lent to
  /// what comes: a stream that is read allocates nothing on the engine thread.
  void take(std::vector<Piece>& pieces);

 private:
  Piece* piece_to_extend(int choice);
  void lend_spare(RequestOutput& output);

  const Events events_;
  const bool keep_tokens_;
  const std::size_t most_bytes_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;
  std::vector<RequestOutput> spares_;  // empty, with storage
  std::size_t bytes_ = 0;              // waiting
  std::size_t taken_bytes_ = 0;
  bool notified_ = false, complained_ = false;
};

}  // namespace grokd
