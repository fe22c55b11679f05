#include "engine/grammar/integer_range.h"

#include <algorithm>
#include <string>

namespace grokd::grammar {
namespace {

ExprId digit(Grammar& g, char first, char last) {
  return g.characters({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}

ExprId any_digits(Grammar& g, std::size_t count) {
  return g.repeat(digit(g, '0', '9'), static_cast<int>(count), static_cast<int>(count));
}

/// Digit strings from `low` to `high`, which are equally long: split by the first digit into those that start
/// as `low` does, those that start as `high` does, and the rest, whose further digits are free.
ExprId same_length(Grammar& g, const std::string& low, const std::string& high) {
  if (low.empty()) return g.sequence({});
  const std::size_t more = low.size() - 1;
  if (low == std::string(more + 1, '0') && high == std::string(more + 1, '9')) return any_digits(g, more + 1);
  char first = low[0], last = high[0];
  if (first == last)
    return g.sequence({digit(g, first, last), same_length(g, low.substr(1), high.substr(1))});
  std::vector<ExprId> options;
  if (low.substr(1) != std::string(more, '0')) {
    options.push_back(
        g.sequence({digit(g, first, first), same_length(g, low.substr(1), std::string(more, '9'))}));
    ++first;
  }
  if (high.substr(1) != std::string(more, '9')) {
    options.push_back(
        g.sequence({digit(g, last, last), same_length(g, std::string(more, '0'), high.substr(1))}));
    --last;
  }
  if (first <= last) options.push_back(g.sequence({digit(g, first, last), any_digits(g, more)}));
  return g.choice(std::move(options));
}

/// 0 <= low <= high.
ExprId not_negative(Grammar& g, std::int64_t low, std::int64_t high) {
  std::vector<ExprId> options;
  while (true) {
    const std::string first = std::to_string(low), last = std::to_string(high);
    if (first.size() == last.size()) {
      options.push_back(same_length(g, first, last));
      return g.choice(std::move(options));
    }
    const std::string nines(first.size(), '9');
    options.push_back(same_length(g, first, nines));
    low = std::stoll(nines) + 1;
  }
}

}  // namespace

ExprId integer_in_range(Grammar& grammar, std::int64_t min, std::int64_t max) {
  std::vector<ExprId> options;
  if (min < 0) {
    const ExprId magnitude = not_negative(grammar, std::max<std::int64_t>(-max, 1), -min);
    options.push_back(grammar.sequence({grammar.literal("-"), magnitude}));
  }
  if (max >= 0) options.push_back(not_negative(grammar, std::max<std::int64_t>(min, 0), max));
  return grammar.choice(std::move(options));
}

}  // namespace grokd::grammar
