#pragma once
// Constrained output: what a client asks for (JSON, a schema, a grammar, a regular expression) becomes the
// set of tokens that may come next at each step. What is supported: docs/constrained-output.md.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/rule_automata.h"
#include "engine/grammar/token_trie.h"
#include "engine/request.h"

namespace grokd {

using grammar::GrammarError;

/// Immutable; shared by all requests that ask for the same.
struct CompiledGrammar {
  std::shared_ptr<const grammar::TokenTrie> trie;
  grammar::RuleAutomata rules;
  std::vector<TokenId> end_ids;
  int vocab_size = 0;
};

/// Any thread. Keeps the grammars compiled last.
class GrammarCompiler {
 public:
  /// `vocab_size`: number of logits, the width of the masks. `end_ids`: the tokens that end an answer,
  /// allowed exactly where the text may end.
  GrammarCompiler(const Tokenizer& tokenizer, int vocab_size, std::vector<TokenId> end_ids);

  // All throw GrammarError if the text cannot be used. Compiling takes up to some 100 ms: not on the io
  // threads.
  std::shared_ptr<const CompiledGrammar> compile_json_object();
  std::shared_ptr<const CompiledGrammar> compile_json_schema(std::string_view schema);
  std::shared_ptr<const CompiledGrammar> compile_grammar(std::string_view text);
  std::shared_ptr<const CompiledGrammar> compile_regex(std::string_view text);

 private:
  using Parser = std::function<grammar::Grammar(std::string_view)>;
  struct CacheEntry {
    std::string key;
    std::shared_ptr<const CompiledGrammar> compiled;
  };
  std::shared_ptr<const CompiledGrammar> compile(char kind, std::string_view text, const Parser& parse);
  std::shared_ptr<const CompiledGrammar> find_cached(const std::string& key);
  void cache(std::string key, std::shared_ptr<const CompiledGrammar> compiled);

  std::shared_ptr<const grammar::TokenTrie> trie_;
  int vocab_size_;
  std::vector<TokenId> end_ids_;

  std::mutex mutex_;
  std::list<CacheEntry> cache_;  // used last first
  std::unordered_map<std::string, std::list<CacheEntry>::iterator> by_key_;
  std::size_t cached_states_ = 0;
};

/// The state of one answer. Where no token may follow, because the grammar turned out too ambiguous to follow
/// or because a token was accepted that was not allowed, `allowed` has no bit set: the request has to end.
std::unique_ptr<TokenConstraint> make_constraint(std::shared_ptr<const CompiledGrammar> compiled);

}  // namespace grokd
