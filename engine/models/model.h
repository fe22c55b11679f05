#pragma once
// A model on one device: weights that never change after loading, and the forward pass. The table of
// architectures stands in model.cpp.

#include <memory>
#include <span>
#include <string_view>

#include "engine/batch.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/config.h"
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

/// Which part of each matrix a rank of the tensor-parallel group owns.
struct Shard {
  int rank = 0, ranks = 1;
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

using LoadModel = std::unique_ptr<Model> (*)(const Checkpoint&, const ModelSetup&, const ProgressSink&);

/// Throws ConfigError naming the unknown model_type and the known ones.
LoadModel find_architecture(std::string_view model_type);

}  // namespace grokd
