#include "service/constraints.h"

#include <string>

#include "api/error.h"

namespace grokd {
namespace {

using Compiled = std::shared_ptr<const CompiledGrammar>;

Compiled compile_format(const api::ResponseFormat& format, GrammarCompiler& compiler) {
  switch (format.type) {
    case api::ResponseFormat::Type::json_object:
      return compiler.compile_json_object();
    case api::ResponseFormat::Type::json_schema:
      return format.schema.empty() ? compiler.compile_json_object()
                                   : compiler.compile_json_schema(format.schema);
    case api::ResponseFormat::Type::text:
      break;
  }
  return nullptr;
}

}  // namespace

Compiled compile_constraint(const api::GenerationFields& fields, GrammarCompiler& compiler) {
  const char* param = "response_format";
  try {
    if (!fields.grammar.empty()) {
      param = "grammar";
      return compiler.compile_grammar(fields.grammar);
    }
    if (!fields.regex.empty()) {
      param = "regex";
      return compiler.compile_regex(fields.regex);
    }
    return compile_format(fields.response_format, compiler);
  } catch (const GrammarError& error) {
    throw api::errors::invalid_value(param, std::string("'") + param + "' cannot be used: " + error.what());
  }
}

}  // namespace grokd
