#pragma once
// One file in llama.cpp's GGUF format: key-value pairs, a list of tensors, their data.

#include <map>
#include <optional>
#include <variant>

#include "engine/checkpoint/stored_tensor.h"

namespace grokd {

/// Numbers, truth values and strings; arrays are passed over.
using GgufValue = std::variant<std::int64_t, double, bool, std::string>;

struct GgufFile {
  std::map<std::string, GgufValue> metadata;
  std::vector<StoredTensor> tensors;  // shapes as rows: the last dimension lies together
};

/// The views point into `file`. Throws FileFormatError, whatever the bytes are.
GgufFile read_gguf(std::span<const std::byte> file);

}  // namespace grokd
