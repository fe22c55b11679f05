// The router (docs/numerics.md, section 5.7): one block a token.

#include <algorithm>

#include "kernels/cuda/block.h"
#include "kernels/cuda/cuda_backend.h"

namespace grokd::kernels::cuda {
namespace {

constexpr int kExpertsAtOnce = 8;  // each with 64 lanes

struct RouteJob {
  const float* x;
  std::ptrdiff_t x_stride;
  const float* w;  // [D, E]
  std::ptrdiff_t w_stride;
  int width, experts;
  SoftCap cap;
  bool renormalise;
  int per_token;
  std::int32_t* expert;
  float* gate;
};

/// The 64 lanes of up to 8 experts side by side: lane l of expert e is thread 8l + e.
__device__ void router_logits(const RouteJob& job, const SharedArray<float>& lanes,
                              const SharedArray<float>& z) {
  const float* x = job.x + static_cast<std::ptrdiff_t>(blockIdx.x) * job.x_stride;
  const int own = thread() % kExpertsAtOnce, first_lane = thread() / kExpertsAtOnce;
  const int step = threads() / kExpertsAtOnce;
  for (int first = 0; first < job.experts; first += kExpertsAtOnce) {
    const int e = first + own;
    for (int l = first_lane; l < kLanes && e < job.experts; l += step) {
      float sum = 0;
      for (int i = l; i < job.width; i += kLanes) sum = __fmaf_rn(x[i], job.w[i * job.w_stride + e], sum);
      lanes[l * kExpertsAtOnce + own] = sum;
    }
    for (int s = kLanes / 2; s >= 1; s /= 2) {
      __syncthreads();
      for (int l = first_lane; l < s && e < job.experts; l += step) {
        const float sum = lanes[l * kExpertsAtOnce + own] + lanes[(l + s) * kExpertsAtOnce + own];
        lanes[l * kExpertsAtOnce + own] = sum;
      }
    }
    if (first_lane == 0 && e < job.experts) z[e] = soft_cap(lanes[own], job.cap);
    __syncthreads();
  }
}

/// z becomes the probabilities; one thread, because the sum has an order.
__device__ void softmax(const SharedArray<float>& z, int experts) {
  float largest = z[0];
  for (int e = 1; e < experts; ++e) {
    if (largest < z[e]) largest = z[e];
  }
  float total = 0;
  for (int e = 0; e < experts; ++e) {
    const float x = exp_f32(z[e] - largest);
    z[e] = x;
    total = total + x;
  }
  for (int e = 0; e < experts; ++e) z[e] = isnan(total) ? not_a_number() : __fdiv_rn(z[e], total);
}

/// The largest in falling order, ties to the lower index; of NaNs the first ones. A chosen one becomes -1.
__device__ void choose(const RouteJob& job, const SharedArray<float>& p) {
  const std::ptrdiff_t entry = static_cast<std::ptrdiff_t>(blockIdx.x) * job.per_token;
  float sum = 0;
  for (int j = 0; j < job.per_token; ++j) {
    int best = -1;
    float best_p = 0;
    for (int e = 0; e < job.experts; ++e) {
      const float value = p[e];
      if (value == -1.0f || (best >= 0 && !(value > best_p))) continue;
      best = e;
      best_p = value;
    }
    p[best] = -1.0f;
    job.expert[entry + j] = best;
    job.gate[entry + j] = best_p;
    sum = sum + best_p;
  }
  if (!job.renormalise) return;
  for (int j = 0; j < job.per_token; ++j) job.gate[entry + j] = __fdiv_rn(job.gate[entry + j], sum);
}

__global__ void route_tokens(RouteJob job) {
  SharedMemory shared;
  const auto lanes = shared.take<float>(kLanes * kExpertsAtOnce);
  const auto z = shared.take<float>(static_cast<std::size_t>(job.experts));
  router_logits(job, lanes, z);
  if (thread() != 0) return;
  softmax(z, job.experts);
  choose(job, z);
}

constexpr int kPruneThreads = 128;

__global__ void prune_tokens(ExpertChoice choice, float ratio) {
  const int token = static_cast<int>(blockIdx.x) * threads() + thread();
  if (token >= choice.tokens) return;
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(token) * choice.per_token;
  for (int j = 1; j < choice.per_token; ++j) {
    if (choice.gate[first + j] < ratio * choice.gate[first]) choice.expert[first + j] = -1;
  }
}

}  // namespace

void CudaBackend::prune(const ExpertChoice& choice, float ratio) {
  launch(prune_tokens, static_cast<unsigned>(ceil_div(choice.tokens, kPruneThreads)), kPruneThreads, 0,
         stream(), choice, ratio);
}

void CudaBackend::route(MatrixView<const float> x, MatrixView<const float> w, float cap, bool renormalise,
                        const ExpertChoice& choice) {
  const int experts = static_cast<int>(w.cols);
  const RouteJob job{x.data,     x.stride,           w.data,      w.stride,         static_cast<int>(x.cols),
                     experts,    make_soft_cap(cap), renormalise, choice.per_token, choice.expert,
                     choice.gate};
  const std::size_t shared = sizeof(float) * (kLanes * kExpertsAtOnce + static_cast<std::size_t>(experts));
  launch(route_tokens, static_cast<unsigned>(choice.tokens), kLanes * kExpertsAtOnce, shared, stream(), job);
}

}  // namespace grokd::kernels::cuda
