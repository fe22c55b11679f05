#include "service/token_stream.h"

#include <iterator>
#include <utility>

namespace grokd {
namespace {

// A reader that is so far behind gets its text in larger pieces: memory then grows with the text alone.
constexpr std::size_t kMostSeparatePieces = 128;
constexpr std::size_t kMostSpares = 16;

std::size_t size_of(const RequestOutput& output) {
  std::size_t bytes = output.text.size() + output.new_ids.size() * sizeof(TokenId);
  for (const OutputToken& token : output.prompt_scores) bytes += sizeof(token) + token.bytes.size();
  for (const OutputToken& token : output.tokens) {
    bytes += sizeof(token) + token.bytes.size() + token.top.size() * sizeof(TokenLogprob);
  }
  return bytes;
}

template <typename T>
void move_onto(std::vector<T>& all, std::vector<T>& later) {
  all.insert(all.end(), std::make_move_iterator(later.begin()), std::make_move_iterator(later.end()));
  later = std::move(all);
}

/// Adds a later piece of the same choice. The later one's counts, times and end are the true ones.
void append(RequestOutput& piece, RequestOutput&& later) {
  piece.text += later.text;
  later.text = std::move(piece.text);
  move_onto(piece.tokens, later.tokens);
  move_onto(piece.new_ids, later.new_ids);
  if (later.prompt_scores.empty()) later.prompt_scores = std::move(piece.prompt_scores);
  piece = std::move(later);
}

void empty(RequestOutput& output) {
  output.text.clear();
  output.tokens.clear();
  output.new_ids.clear();
}

}  // namespace

TokenStream::TokenStream(Events events, bool keep_tokens, std::size_t most_bytes)
    : events_(std::move(events)), keep_tokens_(keep_tokens), most_bytes_(most_bytes) {}

Piece* TokenStream::piece_to_extend(int choice) {
  if (pieces_.size() < kMostSeparatePieces) return nullptr;
  for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
    if (piece->choice == choice) return &*piece;
  }
  return nullptr;
}

void TokenStream::push(int choice, RequestOutput&& output) {
  if (!keep_tokens_) output.tokens.clear();
  bool wake = false, too_much = false;
  {
    std::lock_guard lock(mutex_);
    bytes_ += size_of(output);
    if (Piece* piece = piece_to_extend(choice)) {
      append(piece->output, std::move(output));
    } else {
      pieces_.push_back({choice, std::move(output), Clock::now()});
      lend_spare(output);
    }
    wake = !std::exchange(notified_, true);
    too_much = bytes_ + taken_bytes_ > most_bytes_ && !std::exchange(complained_, true);
  }
  if (wake) events_.wake();
  if (too_much) events_.too_much();
}

void TokenStream::lend_spare(RequestOutput& output) {
  if (spares_.empty()) return;
  output.text.swap(spares_.back().text);
  output.tokens.swap(spares_.back().tokens);
  output.new_ids.swap(spares_.back().new_ids);
  spares_.pop_back();
}

void TokenStream::take(std::vector<Piece>& pieces) {
  for (Piece& piece : pieces) empty(piece.output);
  std::lock_guard lock(mutex_);
  for (Piece& piece : pieces) {
    if (spares_.size() < kMostSpares) spares_.push_back(std::move(piece.output));
  }
  pieces.clear();
  std::swap(pieces, pieces_);
  taken_bytes_ = std::exchange(bytes_, 0);
  notified_ = complained_ = false;
}

}  // namespace grokd
