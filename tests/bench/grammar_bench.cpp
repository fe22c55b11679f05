// Time of the token masks of constrained output, step by step along sample texts.
//   grokd_grammar_bench TOKENIZER.MODEL
// Each answer starts with a fresh constraint, so most states are met for the first time; a state met again
// costs only a look-up.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "engine/grammar/constraint.h"

namespace {

using namespace grokd;
using Milliseconds = std::chrono::duration<double, std::milli>;

struct Sample {
  std::string name;
  std::shared_ptr<const CompiledGrammar> (GrammarCompiler::*compile)(std::string_view);
  std::string grammar, text;
};

std::string wide_schema() {
  std::string schema = R"({"type":"object","properties":{)";
  for (int i = 0; i < 100; ++i) {
    schema +=
        (i > 0 ? "," : "") + ("\"field_" + std::to_string(i)) + R"(":{"type":["string","integer","null"]})";
  }
  return schema + "}}";
}

const char* kPerson = R"({"type":"object","properties":{
  "name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
  "bio":{"type":"string","maxLength":200},"kind":{"enum":["human","robot"]},
  "tags":{"type":"array","items":{"type":"string","minLength":1,"maxLength":20},"maxItems":5}},
  "required":["name","age","bio","kind","tags"]})";
const char* kPersonText =
    R"({"name": "Zo\u00eb — Çelik", "age": 42, "bio": "Writes about trains, 写真 and the sea; )"
    R"(lives in two towns.", "kind": "human", "tags": ["rail", "photo", "море"]})";
const char* kAny =
    R"({"a": [1, 2.5e3, {"deep": [[["x y z", null], true]]}], "text": "It was a \"dark\" night.\n"})";
const char* kArithmetic = R"g(root ::= term ([-+] term)*
term ::= factor ([*/] factor)*
factor ::= [0-9]+ | "(" root ")")g";

std::vector<Sample> samples() {
  return {
      {"any JSON", &GrammarCompiler::compile_json_schema, "true", kAny},
      {"person schema", &GrammarCompiler::compile_json_schema, kPerson, kPersonText},
      {"100 optional fields", &GrammarCompiler::compile_json_schema, wide_schema(),
       R"({"field_3": "some text", "field_40": 12, "field_99": null})"},
      {"string of 5000", &GrammarCompiler::compile_json_schema, R"({"type":"string","maxLength":5000})",
       R"("The quick brown fox jumps over the lazy dog, again and again.")"},
      {"arithmetic", &GrammarCompiler::compile_grammar, kArithmetic, "12*(3+4)-5/(6-7*(8))"},
      {"date", &GrammarCompiler::compile_regex, R"(\d{4}-\d{2}-\d{2})", "2024-02-29"},
      {"any text", &GrammarCompiler::compile_regex, R"((.|\n)*)", "Nothing in particular is asked for here."},
      {"text with a vowel", &GrammarCompiler::compile_regex, R"(.*[aeiou].*)", "Rhythm, then a vowel."},
      {"short words", &GrammarCompiler::compile_regex, R"(([a-z]{1,8}[ ,.])*)",
       "some words,none of them long."},
  };
}

double since(Clock::time_point start) { return Milliseconds(Clock::now() - start).count(); }

/// Milliseconds of each step's mask in one answer from a fresh constraint.
std::vector<double> mask_times(const std::shared_ptr<const CompiledGrammar>& compiled,
                               const std::vector<TokenId>& tokens) {
  std::vector<double> times;
  const auto constraint = make_constraint(compiled);
  for (const TokenId token : tokens) {
    const auto start = Clock::now();
    const std::uint64_t* mask = constraint->allowed();
    times.push_back(since(start));
    if ((mask[token / 64] >> (token % 64) & 1) == 0) std::printf("  token %d is not allowed\n", token);
    constraint->accept(token);
  }
  return times;
}

void run(GrammarCompiler& compiler, const Tokenizer& tokenizer, const Sample& sample) {
  constexpr int kAnswers = 7;  // each step counts with its best time, to be rid of interruptions
  const auto start = Clock::now();
  const auto compiled = (compiler.*sample.compile)(sample.grammar);
  const double compile_ms = since(start);
  const std::vector<TokenId> tokens = tokenizer.encode_plain(sample.text, false);
  std::vector<double> best = mask_times(compiled, tokens);
  for (int answer = 1; answer < kAnswers; ++answer) {
    const std::vector<double> times = mask_times(compiled, tokens);
    for (std::size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], times[i]);
  }
  const double mean = std::accumulate(best.begin(), best.end(), 0.0) / static_cast<double>(best.size());
  const auto worst = std::max_element(best.begin(), best.end());
  const std::string before(tokenizer.bytes(tokens[static_cast<std::size_t>(worst - best.begin())]));
  std::printf("%-20s compile %6.2f ms, %3zu masks: mean %.3f ms, worst %.3f ms (before '%s')\n",
              sample.name.c_str(), compile_ms, best.size(), mean, *worst, before.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: grokd_grammar_bench TOKENIZER.MODEL\n");
    return 1;
  }
  try {
    const auto tokenizer = load_tokenizer(argv[1]);
    const auto start = Clock::now();
    GrammarCompiler compiler(*tokenizer, tokenizer->vocab_size(), {2});
    std::printf("%d pieces, trie in %.0f ms\n", tokenizer->vocab_size(), since(start));
    for (const Sample& sample : samples()) run(compiler, *tokenizer, sample);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
