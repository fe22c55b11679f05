#include "engine/grammar/stack_automaton.h"

#include <algorithm>
#include <limits>

namespace grokd::grammar {
namespace {

constexpr std::size_t kSmallestLarge = 40'000;  // about 5 MB
constexpr std::size_t kFewVisited = 32;         // as many are found faster by looking at each
constexpr StackId kBottom = 0;                  // holds one frame that returns to the end of the text

}  // namespace

StackAutomaton::StackAutomaton(const RuleAutomata& rules) : rules_(rules), large_(kSmallestLarge) {
  reset();
  start_ = closure({{rules_.start[0], kBottom}});
}

void StackAutomaton::reset() {
  stack_ids_.clear();
  config_ids_.clear();
  stacks_.clear();
  configs_.clear();
  intern_stack({{kEndOfText, kBottom}});
  intern_config({});
  configs_[kDead].next = std::make_unique<std::array<ConfigId, 256>>();
  configs_[kDead].next->fill(kDead);
}

void StackAutomaton::spend(std::int64_t steps) {
  budget_ -= steps;
  if (budget_ < 0) throw TooAmbiguous();
}

/// The configurations after each byte, found once for every stretch of bytes that no frame tells apart.
void StackAutomaton::expand(ConfigId config) {
  const Frames& frames = *configs_[config].frames;
  std::vector<int> cuts;
  std::int64_t edges = 0;
  for (const Frame& frame : frames) {
    for (const ByteEdge& edge : rules_.states[frame.state].bytes) {
      cuts.push_back(edge.first);
      cuts.push_back(edge.last + 1);
      ++edges;
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  spend(edges * static_cast<std::int64_t>(cuts.size()) / 32);
  auto next = std::make_unique<std::array<ConfigId, 256>>();
  next->fill(kDead);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Frames after;
    for (const Frame& frame : frames) {
      for (const ByteEdge& edge : rules_.states[frame.state].bytes) {
        if (edge.first <= cuts[i] && cuts[i] <= edge.last) after.push_back({edge.target, frame.stack});
      }
    }
    if (!after.empty())
      std::fill(next->begin() + cuts[i], next->begin() + cuts[i + 1], closure(std::move(after)));
  }
  configs_[config].next = std::move(next);
}

/// All that can be read next from `frames`, through any calls and returns. The callers of a rule are gathered
/// first and share one new stack, which keeps the number of stacks small however ambiguous the grammar is.
/// (Without left recursion rules can be visited in an order that makes this possible.)
ConfigId StackAutomaton::closure(Frames frames) {
  if (frames.size() == 1 && rules_.states[frames[0].state].only_reads())
    return intern_config(std::move(frames));
  todo_ = std::move(frames);
  visited_.clear();
  many_visited_.clear();
  reading_.clear();
  calls_.clear();
  while (true) {
    while (!todo_.empty()) {
      const Frame frame = todo_.back();
      todo_.pop_back();
      visit(frame);
    }
    if (calls_.empty()) break;
    auto [rule, callers] = std::move(calls_.begin()->second);
    calls_.erase(calls_.begin());
    todo_.push_back({rules_.start[rule], intern_stack(std::move(callers))});
  }
  return intern_config(reading_);
}

void StackAutomaton::visit(Frame frame) {
  spend(1);
  if (!is_first_visit(frame)) return;
  const State& state = rules_.states[frame.state];
  if (frame.state == kEndOfText) return reading_.push_back(frame);
  if (!state.bytes.empty()) reading_.push_back(frame);
  for (const CallEdge& edge : state.calls) call(edge, frame.stack);
  if (state.accepts) todo_.insert(todo_.end(), stacks_[frame.stack]->begin(), stacks_[frame.stack]->end());
}

bool StackAutomaton::is_first_visit(Frame frame) {
  if (visited_.size() == kFewVisited) {
    many_visited_.insert(visited_.begin(), visited_.end());
    visited_.push_back(frame);
  }
  if (visited_.size() > kFewVisited) return many_visited_.insert(frame).second;
  if (std::find(visited_.begin(), visited_.end(), frame) != visited_.end()) return false;
  visited_.push_back(frame);
  return true;
}

void StackAutomaton::call(const CallEdge& edge, StackId stack) {
  auto& [rule, callers] = calls_[rules_.order[edge.rule]];
  rule = edge.rule;
  if (rules_.states[edge.target].only_returns()) {  // a tail call: right recursion does not grow the stack
    callers.insert(callers.end(), stacks_[stack]->begin(), stacks_[stack]->end());
  } else {
    callers.push_back({edge.target, stack});
  }
  if (rules_.nullable[edge.rule]) todo_.push_back({edge.target, stack});
}

StackId StackAutomaton::intern_stack(Frames frames) {
  std::sort(frames.begin(), frames.end());
  frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
  spend(static_cast<std::int64_t>(frames.size()));
  const auto [it, is_new] = stack_ids_.try_emplace(std::move(frames), static_cast<int>(stacks_.size()));
  if (is_new) stacks_.push_back(&it->first);
  return it->second;
}

ConfigId StackAutomaton::intern_config(Frames frames) {
  std::sort(frames.begin(), frames.end());
  spend(static_cast<std::int64_t>(frames.size()));
  const auto [it, is_new] = config_ids_.try_emplace(std::move(frames), static_cast<int>(configs_.size()));
  if (is_new) {
    const Frames& stored_frames = it->first;
    const bool may_end = !stored_frames.empty() && stored_frames.front().state == kEndOfText;
    configs_.push_back({&stored_frames, may_end, nullptr, nullptr, nullptr});
  }
  return it->second;
}

std::size_t StackAutomaton::FramesHash::operator()(const Frames& frames) const {
  std::uint64_t hash = frames.size();
  for (const Frame& frame : frames) {
    hash ^= (static_cast<std::uint64_t>(frame.state) << 32) ^ static_cast<std::uint64_t>(frame.stack);
    hash *= 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

/// A stack's frames refer to stacks with lower ids only: one pass down finds what is needed, one pass up
/// stores it.
ConfigId StackAutomaton::forget_all_but(ConfigId live) {
  const std::vector<const Frames*> old_stacks = std::move(stacks_);
  const Interned old_stack_ids = std::move(stack_ids_);  // owns what old_stacks points to
  Frames live_frames = *configs_[live].frames;
  std::vector<bool> needed(old_stacks.size(), false);
  for (const Frame& frame : live_frames) needed[frame.stack] = true;
  for (StackId id = static_cast<StackId>(old_stacks.size()) - 1; id > kBottom; --id) {
    if (!needed[id]) continue;
    for (const Frame& frame : *old_stacks[id]) needed[frame.stack] = true;
  }
  set_budget(std::numeric_limits<std::int64_t>::max());
  reset();
  std::vector<StackId> new_ids(old_stacks.size(), kBottom);
  const auto renamed = [&](Frames frames) {
    for (Frame& frame : frames) frame.stack = new_ids[frame.stack];
    return frames;
  };
  for (std::size_t id = kBottom + 1; id < old_stacks.size(); ++id) {
    if (needed[id]) new_ids[id] = intern_stack(renamed(*old_stacks[id]));
  }
  start_ = closure({{rules_.start[0], kBottom}});
  const ConfigId config = intern_config(renamed(std::move(live_frames)));
  large_ = std::max(kSmallestLarge, 2 * stored());
  return config;
}

}  // namespace grokd::grammar
