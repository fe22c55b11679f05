#pragma once
// How other projects name the tensors of a model, in tables: one row a parameter.

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "engine/models/config.h"

namespace grokd {

/// `path`: the end of our path, after the layer's or model's part. `stored`: the name in the file, with {L}
/// for the layer and, where each expert has a tensor of its own, {E}.
struct NameRow {
  std::string_view path, stored;
};

struct NameTable {
  std::string_view model_types;  // those it is for, separated by spaces
  std::span<const NameRow> rows;
};

std::span<const NameTable> safetensors_names();
std::span<const NameTable> gguf_names();

/// The first table for the model whose name of the embeddings `has` says is there; null if none.
const NameTable* choose_names(std::span<const NameTable> tables, std::string_view model_type,
                              const std::function<bool(const std::string&)>& has);

/// The stored pattern of our path, {L} filled in, "" if the table has none.
std::string stored_pattern(const NameTable& table, std::string_view path);
/// The pattern with the expert filled in.
std::string stored_name(std::string pattern, int expert);

}  // namespace grokd
