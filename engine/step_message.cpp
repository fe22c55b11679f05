#include "engine/step_message.h"

#include <span>
#include <stdexcept>

namespace grokd {
namespace {

using kernels::Words;

constexpr std::size_t kHead = 4;           // order, tokens, sequences, rows of logits
constexpr std::size_t kSequenceWords = 4;  // first row, rows, position, pages

/// Takes words off the front.
class Reader {
 public:
  explicit Reader(std::span<const std::int32_t> words) : left_(words) {}
  std::span<const std::int32_t> take(std::int32_t count) {
    if (count < 0 || static_cast<std::size_t>(count) > left_.size()) {
      throw std::runtime_error("a step's message is too short");
    }
    const auto taken = left_.first(static_cast<std::size_t>(count));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  std::int32_t next() { return take(1).front(); }
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::int32_t> left_;
};

std::int32_t word(std::size_t count) { return static_cast<std::int32_t>(count); }

template <class Values>
void append(Words& message, const Values& values) {
  message.insert(message.end(), values.begin(), values.end());
}

}  // namespace

std::size_t longest_step_message(const RunnerLimits& limits) {
  const auto size = [](int n) { return static_cast<std::size_t>(n); };
  const std::size_t pages = size(limits.context) / kernels::kPagePositions + 1;
  return kHead + size(limits.max_batch_tokens) + size(limits.max_logit_rows) +
         size(limits.max_sequences) * (kSequenceWords + pages);
}

void write_order(Order order, Words& message) { message.assign(1, static_cast<std::int32_t>(order)); }

void write_step(const Batch& batch, Words& message) {
  write_order(Order::step, message);
  append(message, std::initializer_list{word(batch.ids.size()), word(batch.sequences.size()),
                                        word(batch.logit_rows.size())});
  append(message, batch.ids);
  append(message, batch.logit_rows);
  for (const kernels::SequenceRows& sequence : batch.sequences) {
    append(message, std::initializer_list{sequence.first_row, sequence.rows, sequence.position,
                                          word(sequence.pages.size())});
    append(message, sequence.pages);
  }
}

Order read_order(const Words& message) {
  if (message.empty() || message[0] < 0 || message[0] > static_cast<std::int32_t>(Order::step)) {
    throw std::runtime_error("rank 0 sent an unknown order");
  }
  return static_cast<Order>(message[0]);
}

void read_step(const Words& message, SteppedBatch& step) {
  Reader reader(message);
  reader.take(1);  // the order
  const auto counts = reader.take(3);
  step.batch.clear();
  step.pages.clear();
  step.pages.reserve(message.size());  // so that the spans below stay where they are
  append(step.batch.ids, reader.take(counts[0]));
  append(step.batch.logit_rows, reader.take(counts[2]));
  for (std::int32_t i = 0; i < counts[1]; ++i) {
    const auto rows = reader.take(3);
    const auto pages = reader.take(reader.next());
    const std::size_t first = step.pages.size();
    append(step.pages, pages);
    step.batch.sequences.push_back(
        {rows[0], rows[1], rows[2], std::span(step.pages).subspan(first, pages.size())});
  }
  if (!reader.at_end()) throw std::runtime_error("a step's message is too long");
}

}  // namespace grokd
