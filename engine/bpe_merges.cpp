#include "engine/bpe_merges.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>

namespace grokd {
namespace {

constexpr std::size_t kShort = 48;  // beyond, looking at all neighbours for each merge is slower than a heap
constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Candidate {
  float score;
  std::size_t left, right;
  Symbol left_symbol, right_symbol, result;
  bool operator<(const Candidate& other) const {
    return score < other.score || (score == other.score && left > other.left);
  }
};

/// A list of symbols from which neighbours can be taken out.
struct Chain {
  static constexpr std::size_t kEnd = ~std::size_t{0};
  std::vector<Symbol> symbols;  // -1: taken out
  std::vector<std::size_t> before, after;

  explicit Chain(std::vector<Symbol> all)
      : symbols(std::move(all)), before(symbols.size()), after(symbols.size()) {
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      before[i] = i == 0 ? kEnd : i - 1;
      after[i] = i + 1 == symbols.size() ? kEnd : i + 1;
    }
  }
  void join(std::size_t left, std::size_t right, Symbol result) {
    symbols[left] = result;
    symbols[right] = -1;
    after[left] = after[right];
    if (after[right] != kEnd) before[after[right]] = left;
  }
};

}  // namespace

BpeMerges::BpeMerges(std::span<const Merge> merges)
    : table_(std::bit_ceil(std::max<std::size_t>(2 * merges.size(), 16))), mask_(table_.size() - 1) {
  for (const Merge& merge : merges) {
    Merge& entry = table_[slot(merge.left, merge.right)];
    if (entry.result < 0 || merge.score > entry.score) entry = merge;
  }
}

/// The pair's place, or the free one where it would be.
std::size_t BpeMerges::slot(Symbol left, Symbol right) const {
  const std::uint64_t key =
      (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  std::size_t at = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> 20) & mask_;
  while (table_[at].result >= 0 && (table_[at].left != left || table_[at].right != right))
    at = (at + 1) & mask_;
  return at;
}

const Merge* BpeMerges::find(Symbol left, Symbol right) const {
  const Merge& entry = table_[slot(left, right)];
  return entry.result >= 0 ? &entry : nullptr;
}

void BpeMerges::apply(std::vector<Symbol>& symbols) const {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kShort) {
    apply_short(symbols);
  } else {
    apply_long(symbols);
  }
}

void BpeMerges::apply_short(std::vector<Symbol>& symbols) const {
  float scores[kShort];
  Symbol results[kShort];
  const auto look = [&](std::size_t i) {
    const Merge* merge = find(symbols[i], symbols[i + 1]);
    scores[i] = merge ? merge->score : kNone;
    results[i] = merge ? merge->result : -1;
  };
  std::size_t pairs = symbols.size() - 1;
  for (std::size_t i = 0; i < pairs; ++i) look(i);
  while (pairs > 0) {
    const auto best =
        static_cast<std::size_t>(std::max_element(scores, scores + pairs) - scores);  // the first
    if (scores[best] == kNone) break;
    symbols[best] = results[best];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(scores + best + 1, scores + pairs, scores + best);
    std::copy(results + best + 1, results + pairs, results + best);
    --pairs;
    if (best < pairs) look(best);
    if (best > 0) look(best - 1);
  }
}

void BpeMerges::apply_long(std::vector<Symbol>& symbols) const {
  Chain chain(symbols);
  std::priority_queue<Candidate> candidates;
  const auto look = [&](std::size_t left, std::size_t right) {
    if (left == Chain::kEnd || right == Chain::kEnd) return;
    if (const Merge* merge = find(chain.symbols[left], chain.symbols[right]))
      candidates.push({merge->score, left, right, merge->left, merge->right, merge->result});
  };
  for (std::size_t i = 0; i + 1 < chain.symbols.size(); ++i) look(i, i + 1);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    if (chain.symbols[best.left] != best.left_symbol || chain.symbols[best.right] != best.right_symbol ||
        chain.after[best.left] != best.right)
      continue;  // one of the two is no longer what it was
    chain.join(best.left, best.right, best.result);
    look(chain.before[best.left], best.left);
    look(best.left, chain.after[best.left]);
  }
  symbols.clear();
  for (const Symbol symbol : chain.symbols) {
    if (symbol >= 0) symbols.push_back(symbol);
  }
}

}  // namespace grokd
