// The part of StackAutomaton that finds out where stretches of text are read alike, as inside a string.

#include <algorithm>
#include <bit>

#include "engine/grammar/stack_automaton.h"

namespace grokd::grammar {
namespace {

constexpr int kLookahead = 32;  // characters; longer tokens are rare and can be read byte by byte
constexpr int kEndless = 1 << 20;

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

bool same_set(const UniformRun& a, const UniformRun& b) {
  return a.ascii == b.ascii && a.non_ascii == b.non_ascii;
}

}  // namespace

const UniformRun& StackAutomaton::uniform_run(ConfigId config) {
  UniformRun& first = uniform_set(config);
  if (first.length >= 0) return first;
  first.length = 0;
  for (ConfigId at = config; at != kDead && first.length < kLookahead; ++first.length) {
    const UniformRun& here = uniform_set(at);
    if (!same_set(here, first)) break;
    if (here.next == at) {
      first.length = kEndless;
      break;
    }
    at = here.next;
  }
  return first;
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
  constexpr ByteRange kContinuation = {0x80, 0xBF};
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

}  // namespace grokd::grammar
