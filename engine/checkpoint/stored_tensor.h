#pragma once
// One array of a file that holds many, by the name it has there.

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"

namespace grokd {

struct StoredTensor {
  std::string name;
  std::string type;  // as the file writes it
  bool usable = false;
  TensorView view = {};  // inside the file; only where the type is usable
  std::string file = {};
};

/// What is wrong with the bytes of a file; the message does not name the file.
class FileFormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace grokd
