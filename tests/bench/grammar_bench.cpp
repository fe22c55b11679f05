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

void run(GrammarCompiler& compiler, const Tokenizer& tokenizer, const Sample& sample) {
  auto start = Clock::now();
  const auto compiled = (compiler.*sample.compile)(sample.grammar);
  const double compile_ms = since(start);
  const auto constraint = make_constraint(compiled);
  std::vector<double> times;
  long allowed = 0;
  for (const TokenId token : tokenizer.encode_plain(sample.text, false)) {
    start = Clock::now();
    const std::uint64_t* mask = constraint->allowed();
    times.push_back(since(start));
    if ((mask[token / 64] >> (token % 64) & 1) == 0) std::printf("  token %d is not allowed\n", token);
    for (int word = 0; word < (tokenizer.vocab_size() + 63) / 64; ++word)
      allowed += __builtin_popcountll(mask[word]);
    constraint->accept(token);
  }
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  const double worst = *std::max_element(times.begin(), times.end());
  std::printf("%-20s compile %7.2f ms   %3zu masks: mean %.3f ms, worst %.3f ms   allowed %6ld a step\n",
              sample.name.c_str(), compile_ms, times.size(), mean, worst,
              allowed / static_cast<long>(times.size()));
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
