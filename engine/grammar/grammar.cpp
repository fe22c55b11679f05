#include "engine/grammar/grammar.h"

#include <algorithm>

namespace grokd::grammar {
namespace {

constexpr std::int64_t kInlineRepeatStates = 10'000;
constexpr std::int64_t kStatesPerMultibyteRange = 6;

std::int64_t character_weight(const CharSet& set) {
  const auto multibyte = std::count_if(set.begin(), set.end(), [](CharRange r) { return r.last > 0x7F; });
  return 1 + kStatesPerMultibyteRange * multibyte;
}

}  // namespace

ExprId Grammar::add(Expr expr, std::int64_t weight) {
  if (exprs_.size() >= kMaxStates) throw GrammarError("the grammar is too large");
  exprs_.push_back({std::move(expr), std::min<std::int64_t>(weight, kMaxStates + 1), false});
  return static_cast<ExprId>(exprs_.size()) - 1;
}

std::int64_t Grammar::total_weight(const std::vector<ExprId>& ids) const {
  std::int64_t total = 1;
  for (ExprId id : ids) total += exprs_[id].weight;
  return total;
}

ExprId Grammar::characters(CharSet set) {
  const auto weight = character_weight(set);
  return add(Characters{std::move(set)}, weight);
}

ExprId Grammar::sequence(std::vector<ExprId> parts) {
  const auto weight = total_weight(parts);
  return add(Sequence{std::move(parts)}, weight);
}

ExprId Grammar::choice(std::vector<ExprId> options) {
  const auto weight = total_weight(options);
  return add(Choice{std::move(options)}, weight);
}

ExprId Grammar::repeat(ExprId body, int min, int max) {
  const std::int64_t count = std::max({min, max, 1});
  const std::int64_t inlined = exprs_[body].weight * count;
  const bool large = count > 1 && inlined > kInlineRepeatStates;
  const ExprId id = add(Repeat{body, min, max}, large ? count : inlined);
  exprs_[id].large_repeat = large;
  return id;
}

ExprId Grammar::ordered_list(std::vector<OrderedList::Item> items, ExprId separator, ExprId trailer) {
  std::int64_t weight = 2 + exprs_[trailer].weight;
  for (const auto& item : items) weight += 2 * exprs_[item.expr].weight + exprs_[separator].weight;
  return add(OrderedList{std::move(items), separator, trailer}, weight);
}

ExprId Grammar::other_word(CharSet set, std::vector<std::u32string> words) {
  std::int64_t weight = 2;
  for (const auto& word : words)
    weight += static_cast<std::int64_t>(word.size()) * 2 * kStatesPerMultibyteRange;
  return add(OtherWord{std::move(set), std::move(words)}, weight);
}

RuleId Grammar::declare(std::string name) {
  rules_.push_back({std::move(name), -1});
  return num_rules() - 1;
}

RuleId Grammar::rule(std::string name, ExprId body) {
  const RuleId id = declare(std::move(name));
  define(id, body);
  return id;
}

}  // namespace grokd::grammar
