#pragma once
// Runs compiled rules over bytes. A configuration is everything the grammar may be in the middle of: a set of
// (state, stack), where a stack says where to go on after the rules being read. Stacks share their lower
// parts and equal ones are stored once, so equal configurations have equal ids, whatever text led to them.

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "engine/grammar/rule_automata.h"

namespace grokd::grammar {

using ConfigId = int;
using StackId = int;
inline constexpr ConfigId kDead = 0;  // the configuration after a text that nothing can complete

/// One mask or token took too much work: the grammar is too ambiguous to follow.
class TooAmbiguous : public std::runtime_error {
 public:
  TooAmbiguous() : std::runtime_error("the grammar is too ambiguous to follow") {}
};

/// Characters any text over which a configuration can read, up to a length.
struct FreeRun {
  std::array<std::uint64_t, 2> ascii = {};  // the set: bit c is ASCII character c
  bool non_ascii = false;                   // all other characters are in it
  int length = -1;  // so many characters of the set may follow at least; -1: not known yet
};

/// A free run of characters that the configuration does not tell apart, as inside a string.
struct UniformRun : FreeRun {
  ConfigId next = kDead;  // after any character of the set; kDead if there is no such set
  bool ends = false;      // the set is ASCII, and none of it can be read after `length` characters of it
};

class StackAutomaton {
 public:
  explicit StackAutomaton(const RuleAutomata& rules);

  ConfigId start() const { return start_; }
  /// kDead if no text of the grammar goes on with this byte. Throws TooAmbiguous.
  ConfigId step(ConfigId config, std::uint8_t byte) { return next_of(config)[byte]; }
  /// The configurations after each byte, [256], until the next `forget_all_but`. Throws TooAmbiguous.
  const ConfigId* next_of(ConfigId config) {
    if (!configs_[config].next) expand(config);
    return configs_[config].next->data();
  }
  bool may_end(ConfigId config) const { return configs_[config].may_end; }
  /// Throws TooAmbiguous.
  const UniformRun& uniform_run(ConfigId config);
  /// Of all characters that can be read, whichever way they lead. Throws TooAmbiguous.
  const FreeRun& wide_run(ConfigId config);

  /// Sets the work allowed until the next call, in steps of about 50 ns; unlimited at first.
  void set_budget(std::int64_t steps) { budget_ = steps; }
  /// True when so much has been stored that `forget_all_but` is worth its time.
  bool is_large() const { return stored() > large_; }
  /// Drops all configurations and stacks that `live` does not need. Returns its new id; all others are void.
  ConfigId forget_all_but(ConfigId live);

 private:
  /// As a part of a configuration: reading `state` on top of `stack`. As a part of a stack: return to
  /// `state`.
  struct Frame {
    StateId state = 0;
    StackId stack = 0;
    auto operator<=>(const Frame&) const = default;
  };
  using Frames = std::vector<Frame>;
  struct FramesHash {
    std::size_t operator()(const Frames& frames) const;
  };
  using Interned = std::unordered_map<Frames, int, FramesHash>;
  struct Config {
    const Frames* frames = nullptr;
    bool may_end = false;
    std::unique_ptr<std::array<ConfigId, 256>> next;  // null until it is first stepped from
    std::unique_ptr<UniformRun> uniform;              // null until it is first asked for
    std::unique_ptr<FreeRun> wide;                    // likewise
  };

  void reset();
  void expand(ConfigId config);
  ConfigId closure(Frames todo);
  void visit(Frame frame);
  bool is_first_visit(Frame frame);
  void call(const CallEdge& edge, StackId stack);
  StackId intern_stack(Frames frames);
  ConfigId intern_config(Frames frames);
  void spend(std::int64_t steps);
  std::size_t stored() const { return stacks_.size() + 8 * configs_.size(); }
  bool reads_none_of(ConfigId config, const FreeRun& set);
  UniformRun& uniform_set(ConfigId config);
  bool non_ascii_leads_to(ConfigId config, ConfigId next);
  FreeRun readable(ConfigId config);
  bool add_next_of_run(ConfigId config, const FreeRun& run, std::vector<ConfigId>& next);
  bool add_next_of_non_ascii(ConfigId config, std::vector<ConfigId>& next);

  const RuleAutomata& rules_;
  Interned stack_ids_, config_ids_;
  std::vector<const Frames*> stacks_;  // by id; a frame's own stack has a lower id
  std::vector<Config> configs_;
  ConfigId start_ = kDead;
  std::int64_t budget_ = std::numeric_limits<std::int64_t>::max();
  std::size_t large_ = 0;

  // Of `closure`, kept for their storage.
  Frames todo_, visited_, reading_;
  std::set<Frame> many_visited_;                    // the same as visited_ once that is long
  std::map<int, std::pair<RuleId, Frames>> calls_;  // by the rule's order: its callers' return frames
};

}  // namespace grokd::grammar
