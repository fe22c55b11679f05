#include "engine/grammar/constraint.h"

#include <algorithm>

#include "engine/grammar/allowed_tokens.h"
#include "engine/grammar/grammar_text.h"
#include "engine/grammar/json_schema.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/stack_automaton.h"

namespace grokd {
namespace {

using grammar::ConfigId;
using grammar::kDead;

constexpr std::int64_t kWorkPerStep = 250'000;  // about 10 ms; a usual mask takes a hundredth of it
constexpr std::size_t kMaxMasks = 64;           // 16 KiB each for 131,072 tokens
constexpr std::size_t kMaxCachedGrammars = 64;
constexpr std::size_t kMaxCachedStates = 500'000;  // about 100 MB

class GrammarConstraint final : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<const CompiledGrammar> compiled)
      : compiled_(std::move(compiled)), automaton_(compiled_->rules), config_(automaton_.start()) {}

  const std::uint64_t* allowed() override {
    if (const auto found = masks_.find(config_); found != masks_.end()) return found->second.data();
    if (masks_.size() >= kMaxMasks) masks_.clear();
    auto& mask = masks_[config_];
    mask.assign((static_cast<std::size_t>(compiled_->vocab_size) + 63) / 64, 0);
    try {
      automaton_.set_budget(kWorkPerStep);
      add_allowed_tokens(*compiled_->trie, automaton_, config_, mask);
      if (automaton_.may_end(config_)) add_end_ids(mask);
    } catch (const grammar::TooAmbiguous&) {
      std::fill(mask.begin(), mask.end(), 0);
    }
    return mask.data();
  }

  void accept(TokenId token) override {
    const auto& ends = compiled_->end_ids;
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) return;
    try {
      automaton_.set_budget(kWorkPerStep);
      const std::string_view bytes = compiled_->trie->bytes(token);
      if (bytes.empty()) config_ = kDead;
      for (const char c : bytes) config_ = automaton_.step(config_, static_cast<std::uint8_t>(c));
    } catch (const grammar::TooAmbiguous&) {
      config_ = kDead;
    }
    if (automaton_.is_large()) {
      config_ = automaton_.forget_all_but(config_);
      masks_.clear();
    }
  }

 private:
  void add_end_ids(std::vector<std::uint64_t>& mask) const {
    for (TokenId id : compiled_->end_ids)
      mask[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (id % 64);
  }

  std::shared_ptr<const CompiledGrammar> compiled_;
  grammar::StackAutomaton automaton_;
  ConfigId config_;
  std::unordered_map<ConfigId, std::vector<std::uint64_t>> masks_;
};

}  // namespace

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, int vocab_size, std::vector<TokenId> end_ids)
    : trie_(std::make_shared<grammar::TokenTrie>(tokenizer, vocab_size, end_ids)),
      vocab_size_(vocab_size),
      end_ids_(std::move(end_ids)) {
  std::erase_if(end_ids_, [&](TokenId id) { return id < 0 || id >= vocab_size; });
}

std::shared_ptr<const CompiledGrammar> GrammarCompiler::compile_json_object() {
  return compile('o', "", [](std::string_view) { return grammar::json_object_grammar(); });
}

std::shared_ptr<const CompiledGrammar> GrammarCompiler::compile_json_schema(std::string_view schema) {
  return compile('s', schema, grammar::parse_json_schema);
}

std::shared_ptr<const CompiledGrammar> GrammarCompiler::compile_grammar(std::string_view text) {
  return compile('g', text, grammar::parse_grammar_text);
}

std::shared_ptr<const CompiledGrammar> GrammarCompiler::compile_regex(std::string_view text) {
  return compile('r', text, grammar::parse_regex);
}

std::shared_ptr<const CompiledGrammar> GrammarCompiler::compile(char kind, std::string_view text,
                                                                const Parser& parse) {
  if (text.size() > grammar::kMaxTextBytes) throw GrammarError("longer than 65536 bytes");
  std::string key = kind + std::string(text);
  if (auto cached = find_cached(key)) return cached;
  const grammar::Grammar parsed = parse(text);
  auto compiled = std::make_shared<const CompiledGrammar>(
      CompiledGrammar{trie_, grammar::compile_rules(parsed, trie_->single_bytes()), end_ids_, vocab_size_});
  cache(std::move(key), compiled);
  return compiled;
}

std::shared_ptr<const CompiledGrammar> GrammarCompiler::find_cached(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  cache_.splice(cache_.begin(), cache_, found->second);
  return found->second->compiled;
}

void GrammarCompiler::cache(std::string key, std::shared_ptr<const CompiledGrammar> compiled) {
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return;  // another thread was faster
  cached_states_ += compiled->rules.states.size();
  cache_.push_front({key, std::move(compiled)});
  by_key_[std::move(key)] = cache_.begin();
  while (cache_.size() > kMaxCachedGrammars || (cache_.size() > 1 && cached_states_ > kMaxCachedStates)) {
    cached_states_ -= cache_.back().compiled->rules.states.size();
    by_key_.erase(cache_.back().key);
    cache_.pop_back();
  }
}

std::unique_ptr<TokenConstraint> make_constraint(std::shared_ptr<const CompiledGrammar> compiled) {
  return std::make_unique<GrammarConstraint>(std::move(compiled));
}

}  // namespace grokd
