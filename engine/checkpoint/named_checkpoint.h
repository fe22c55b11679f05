#pragma once
// A checkpoint whose files hold many tensors by the names of another project.

#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/load_rules.h"
#include "engine/checkpoint/stored_tensor.h"
#include "engine/checkpoint/tensor_names.h"

namespace grokd {

/// What the files of a checkpoint hold together.
struct StoredTensors {
  std::string folder;
  std::vector<MappedFile> files;
  std::vector<StoredTensor>
      tensors;           // views into `files`; of one name: several, when cut for several devices
  int paired_heads = 0;  // width of heads when rows of query and key stand in RoPE's pairs, else 0
};

/// Takes each of the model's tensors from what is stored; matrices are [out, in], or [experts, out, in] as a
/// whole. Throws ConfigError naming file and tensor: missing, of another shape or type, or of no use.
std::unique_ptr<Checkpoint> make_named_checkpoint(StoredTensors stored, const NameTable& names,
                                                  const ModelConfig& config, const LoadRules& rules);

}  // namespace grokd
