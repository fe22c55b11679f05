#include "engine/grammar/grammar_text.h"

#include <map>

#include "engine/grammar/pattern_reader.h"

namespace grokd::grammar {
namespace {

bool is_name_character(char32_t c) {
  return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9') || c == U'_' ||
         c == U'-';
}

class GrammarTextParser {
 public:
  explicit GrammarTextParser(std::string_view text) : reader_(text) {}

  Grammar parse() {
    rule_named("root");
    skip_space();
    while (reader_.peek() != PatternReader::kEnd) parse_rule();
    check_all_defined();
    return std::move(grammar_);
  }

 private:
  void parse_rule() {
    if (!at_rule()) reader_.fail("expected a rule, 'name ::= ...'");
    const RuleId rule = rule_named(name());
    if (grammar_.body(rule) >= 0) reader_.fail("rule '" + grammar_.name(rule) + "' is defined twice");
    skip_space();
    for (const char32_t c : U"::=") {
      if (c != U'\0') reader_.expect(c);
    }
    skip_space();
    grammar_.define(rule, alternatives());
  }

  ExprId alternatives() {
    const DepthGuard guard(depth_, reader_);
    std::vector<ExprId> options = {sequence()};
    while (reader_.take(U'|')) {
      skip_space();
      options.push_back(sequence());
    }
    return options.size() == 1 ? options[0] : grammar_.choice(std::move(options));
  }

  ExprId sequence() {
    std::vector<ExprId> parts;
    while (!at_sequence_end()) {
      const ExprId part = atom();
      parts.push_back(reader_.repeated(grammar_, part));
      skip_space();
    }
    return parts.size() == 1 ? parts[0] : grammar_.sequence(std::move(parts));
  }

  bool at_sequence_end() {
    const char32_t c = reader_.peek();
    return c == PatternReader::kEnd || c == U'|' || c == U')' || at_rule();
  }

  ExprId atom() {
    if (is_name_character(reader_.peek())) return grammar_.call(rule_named(name()));
    if (reader_.take(U'"')) return literal();
    if (reader_.take(U'[')) return grammar_.characters(reader_.bracket());
    if (reader_.take(U'.')) return grammar_.characters(complement({}));
    if (!reader_.take(U'(')) reader_.fail("expected a rule name, a literal, a set or a group");
    skip_space();
    const ExprId body = alternatives();
    reader_.expect(U')');
    return body;
  }

  ExprId literal() {
    std::string bytes;
    while (!reader_.take(U'"')) {
      const char32_t c = reader_.next();
      append_utf8(bytes, c == U'\\' ? reader_.escaped_character() : c);
    }
    return grammar_.literal(bytes);
  }

  std::string name() {
    std::string out;
    while (is_name_character(reader_.peek())) append_utf8(out, reader_.next());
    return out;
  }

  /// Line ends mean nothing: a rule goes on until the next 'name ::='.
  bool at_rule() {
    const std::size_t start = reader_.position();
    const bool has_name = !name().empty();
    skip_space();
    const bool found =
        has_name && reader_.peek() == U':' && reader_.peek(1) == U':' && reader_.peek(2) == U'=';
    reader_.rewind(start);
    return found;
  }

  void skip_space() {
    while (true) {
      const char32_t c = reader_.peek();
      if (c == U'#') {
        while (reader_.peek() != U'\n' && reader_.peek() != PatternReader::kEnd) reader_.next();
      } else if (c == U' ' || c == U'\t' || c == U'\r' || c == U'\n') {
        reader_.next();
      } else {
        return;
      }
    }
  }

  RuleId rule_named(const std::string& name) {
    const auto [it, is_new] = rules_.try_emplace(name, 0);
    if (is_new) it->second = grammar_.declare(name);
    return it->second;
  }

  void check_all_defined() const {
    for (RuleId rule = 0; rule < grammar_.num_rules(); ++rule) {
      if (grammar_.body(rule) < 0) throw GrammarError("rule '" + grammar_.name(rule) + "' is not defined");
    }
  }

  PatternReader reader_;
  Grammar grammar_;
  std::map<std::string, RuleId> rules_;
  int depth_ = 0;
};

}  // namespace

Grammar parse_grammar_text(std::string_view text) { return GrammarTextParser(text).parse(); }

}  // namespace grokd::grammar
