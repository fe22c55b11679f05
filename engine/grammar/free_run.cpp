// The part of StackAutomaton that finds out where any text of certain characters can be read, as in a string.

#include <algorithm>
#include <bit>

#include "engine/grammar/stack_automaton.h"

namespace grokd::grammar {
namespace {

constexpr int kLookahead = 32;  // characters; longer tokens are rare and can be read byte by byte
constexpr int kEndless = 1 << 20;
constexpr std::size_t kMostAtOnce = 8;  // configurations a wide run may be in

struct LeadBytes {
  std::uint8_t first, last;
  ByteRange second;  // of the byte after it
  int length;        // of the character, in bytes
};
constexpr LeadBytes kLeadBytes[] = {
    {0xC2, 0xDF, {0x80, 0xBF}, 2}, {0xE0, 0xE0, {0xA0, 0xBF}, 3}, {0xE1, 0xEC, {0x80, 0xBF}, 3},
    {0xED, 0xED, {0x80, 0x9F}, 3}, {0xEE, 0xEF, {0x80, 0xBF}, 3}, {0xF0, 0xF0, {0x90, 0xBF}, 4},
    {0xF1, 0xF3, {0x80, 0xBF}, 4}, {0xF4, 0xF4, {0x80, 0x8F}, 4},
};

constexpr ByteRange kContinuation = {0x80, 0xBF};

bool same_set(const FreeRun& a, const FreeRun& b) { return a.ascii == b.ascii && a.non_ascii == b.non_ascii; }

bool has_all_of(const FreeRun& set, const FreeRun& wanted) {
  return (wanted.ascii[0] & ~set.ascii[0]) == 0 && (wanted.ascii[1] & ~set.ascii[1]) == 0 &&
         (set.non_ascii || !wanted.non_ascii);
}

void add_once(std::vector<ConfigId>& configs, ConfigId config) {
  if (std::find(configs.begin(), configs.end(), config) == configs.end()) configs.push_back(config);
}

}  // namespace

const UniformRun& StackAutomaton::uniform_run(ConfigId config) {
  UniformRun& first = uniform_set(config);
  if (first.length >= 0) return first;
  first.length = 0;
  ConfigId at = config;
  for (; at != kDead && first.length < kLookahead; ++first.length) {
    const UniformRun& here = uniform_set(at);
    if (!same_set(here, first)) break;
    if (here.next == at) {
      first.length = kEndless;
      break;
    }
    at = here.next;
  }
  first.ends = first.length < kEndless && !first.non_ascii && reads_none_of(at, first);
  return first;
}

bool StackAutomaton::reads_none_of(ConfigId config, const FreeRun& set) {
  if (config == kDead) return true;
  for (int c = 0; c < 128; ++c) {
    if ((set.ascii[c / 64] >> (c % 64) & 1) != 0 && step(config, static_cast<std::uint8_t>(c)) != kDead)
      return false;
  }
  return true;
}

/// The set for one character, its `length` not yet counted.
UniformRun& StackAutomaton::uniform_set(ConfigId config) {
  if (configs_[config].uniform) return *configs_[config].uniform;
  UniformRun uniform;
  if (config != kDead) step(config, 0);  // makes `next`
  const auto& next = *configs_[config].next;
  std::vector<ConfigId> targets(next.begin(), next.begin() + 128);
  std::sort(targets.begin(), targets.end());
  std::ptrdiff_t most = 0;
  for (auto it = targets.begin(); it != targets.end();) {
    const auto end = std::upper_bound(it, targets.end(), *it);
    if (*it != kDead && end - it > most) {
      most = end - it;
      uniform.next = *it;
    }
    it = end;
  }
  if (uniform.next != kDead) {
    for (int c = 0; c < 128; ++c) {
      if (next[c] == uniform.next) uniform.ascii[c / 64] |= std::uint64_t{1} << (c % 64);
    }
    uniform.non_ascii = non_ascii_leads_to(config, uniform.next);
  }
  configs_[config].uniform = std::make_unique<UniformRun>(uniform);
  return *configs_[config].uniform;
}

bool StackAutomaton::non_ascii_leads_to(ConfigId config, ConfigId target) {
  const auto all_lead_to = [&](ConfigId from, ByteRange bytes, ConfigId to) {
    for (int byte = bytes.first; byte <= bytes.last; ++byte) {
      if (step(from, static_cast<std::uint8_t>(byte)) != to) return false;
    }
    return true;
  };
  for (const LeadBytes& lead : kLeadBytes) {
    ConfigId at = step(config, lead.first);
    if (at == kDead || !all_lead_to(config, {lead.first, lead.last}, at)) return false;
    for (int i = 1; i < lead.length; ++i) {
      const ByteRange range = i == 1 ? lead.second : kContinuation;
      const ConfigId next = i == lead.length - 1 ? target : step(at, range.first);
      if (next == kDead || !all_lead_to(at, range, next)) return false;
      at = next;
    }
  }
  return true;
}

/// Follows all ways at once, from each configuration reached to those after it, until one of them reads less.
const FreeRun& StackAutomaton::wide_run(ConfigId config) {
  if (configs_[config].wide) return *configs_[config].wide;
  FreeRun run = readable(config);
  std::vector<ConfigId> reached = {config};  // by one way or another, the last ones not followed yet
  std::size_t followed = 0;
  for (run.length = 0; run.length < kLookahead; ++run.length) {
    const std::size_t level_end = reached.size();
    bool goes_on = level_end <= kMostAtOnce;
    for (; goes_on && followed < level_end; ++followed)
      goes_on = add_next_of_run(reached[followed], run, reached);
    if (!goes_on) break;
    if (reached.size() > level_end) continue;
    run.length = kEndless;  // nothing new: it can go on so for ever
    break;
  }
  configs_[config].wide = std::make_unique<FreeRun>(run);
  return *configs_[config].wide;
}

/// All characters that can be read next.
FreeRun StackAutomaton::readable(ConfigId config) {
  FreeRun set;
  for (int c = 0; c < 128; ++c) {
    if (step(config, static_cast<std::uint8_t>(c)) != kDead)
      set.ascii[c / 64] |= std::uint64_t{1} << (c % 64);
  }
  std::vector<ConfigId> ignored;
  set.non_ascii = add_next_of_non_ascii(config, ignored);
  return set;
}

/// Adds the configurations after each character of `run`. False: not all of them can be read.
bool StackAutomaton::add_next_of_run(ConfigId config, const FreeRun& run, std::vector<ConfigId>& next) {
  if (!has_all_of(readable(config), run)) return false;
  for (int c = 0; c < 128; ++c) {
    const bool in_set = (run.ascii[c / 64] >> (c % 64) & 1) != 0;
    if (in_set) add_once(next, step(config, static_cast<std::uint8_t>(c)));
  }
  return !run.non_ascii || add_next_of_non_ascii(config, next);
}

/// The same for all characters beyond ASCII.
bool StackAutomaton::add_next_of_non_ascii(ConfigId config, std::vector<ConfigId>& next) {
  for (const LeadBytes& lead : kLeadBytes) {
    std::vector<ConfigId> at = {config};
    for (int i = 0; i < lead.length; ++i) {
      const ByteRange range =
          i == 0 ? ByteRange{lead.first, lead.last} : (i == 1 ? lead.second : kContinuation);
      std::vector<ConfigId> after;
      for (const ConfigId from : at) {
        for (int byte = range.first; byte <= range.last; ++byte) {
          const ConfigId to = step(from, static_cast<std::uint8_t>(byte));
          if (to == kDead) return false;
          add_once(after, to);
        }
        if (after.size() > kMostAtOnce) return false;
      }
      at = std::move(after);
    }
    for (const ConfigId to : at) add_once(next, to);
  }
  return true;
}

}  // namespace grokd::grammar
