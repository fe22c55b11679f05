#pragma once
// A model on one device: weights that never change after loading, and the forward pass. The table of
// architectures stands in model.cpp.

#include <memory>
#include <span>
#include <string_view>

#include "engine/batch.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/block_source.h"
#include "engine/models/config.h"
#include "engine/models/weight_block.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace grokd {

/// Sees intermediate values of a forward pass; golden tests use it, a server has none.
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  virtual void after_attention(int layer, kernels::MatrixView<const float> h) = 0;
  virtual void after_layer(int layer, kernels::MatrixView<const float> h,
                           const kernels::ExpertChoice& choice) = 0;
};

/// What a model is loaded with.
struct ModelSetup {
  const ModelConfig& config;
  kernels::Backend& backend;
  kernels::Communicator& group;
  int max_batch_tokens = 0;
  int max_sequences = 0;
  int max_logit_rows = 0;
  int context = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  /// Runs the batch through all layers: keys and values go to `kv` (one entry a layer), logits of
  /// batch.logit_rows to `logits` [R, V].
  virtual void forward(const Batch& batch, std::span<const kernels::KvLayer> kv,
                       kernels::MatrixView<float> logits, ForwardObserver* observer) = 0;
};

struct Architecture {
  std::string_view model_type;
  /// All weights of one rank, the largest blocks that are only needed while others are made first.
  std::vector<WeightBlock> (*blocks)(const ModelConfig& config, Shard shard);
  std::unique_ptr<Model> (*load)(BlockSource& source, const ModelSetup& setup);
};

/// Throws ConfigError naming the unknown model_type and the known ones.
const Architecture& find_architecture(std::string_view model_type);

}  // namespace grokd
