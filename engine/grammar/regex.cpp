#include "engine/grammar/regex.h"

#include "engine/grammar/pattern_reader.h"

namespace grokd::grammar {
namespace {

class RegexParser {
 public:
  explicit RegexParser(std::string_view text) : reader_(text) {}

  Grammar parse() {
    const RuleId root = grammar_.declare("the expression");
    reader_.take(U'^');  // matches are of the whole text anyway
    grammar_.define(root, alternatives());
    if (reader_.peek() != PatternReader::kEnd) reader_.fail("unexpected ')'");
    return std::move(grammar_);
  }

 private:
  ExprId alternatives() {
    const DepthGuard guard(depth_, reader_);
    std::vector<ExprId> options = {sequence()};
    while (reader_.take(U'|')) options.push_back(sequence());
    return options.size() == 1 ? options[0] : grammar_.choice(std::move(options));
  }

  ExprId sequence() {
    std::vector<ExprId> parts;
    while (!at_sequence_end()) parts.push_back(reader_.repeated(grammar_, atom()));
    return parts.size() == 1 ? parts[0] : grammar_.sequence(std::move(parts));
  }

  bool at_sequence_end() {
    if (reader_.peek() == U'$' && reader_.peek(1) == PatternReader::kEnd) reader_.next();
    const char32_t c = reader_.peek();
    return c == PatternReader::kEnd || c == U'|' || c == U')';
  }

  ExprId atom() {
    const char32_t c = reader_.next();
    switch (c) {
      case U'(':
        return group();
      case U'[':
        return grammar_.characters(reader_.bracket());
      case U'.':
        return grammar_.characters(complement({{U'\n', U'\n'}}));
      case U'\\':
        return grammar_.characters(reader_.escape());
      case U'^':
      case U'$':
        reader_.fail("anchors are implied at both ends and not supported elsewhere");
      case U'*':
      case U'+':
      case U'?':
      case U'{':
        reader_.fail("nothing to repeat, or a lazy or possessive repetition");
      default:
        return grammar_.characters({{c, c}});
    }
  }

  ExprId group() {
    if (reader_.take(U'?') && !reader_.take(U':'))
      reader_.fail("only plain and (?:...) groups are supported");
    const ExprId body = alternatives();
    reader_.expect(U')');
    return body;
  }

  PatternReader reader_;
  Grammar grammar_;
  int depth_ = 0;
};

}  // namespace

Grammar parse_regex(std::string_view text) { return RegexParser(text).parse(); }

}  // namespace grokd::grammar
