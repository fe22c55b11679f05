#pragma once
// How long a step will take, learned from the steps that were run.

#include <array>
#include <cstdint>

namespace grokd {

/// What a step has to do.
struct StepWork {
  int tokens = 0;
  int logit_rows = 0;
  std::int64_t positions_read = 0;  // keys that the rows see, summed over the rows

  /// `rows` rows of one sequence, the first at `position`.
  void add_rows(int rows, int position, int logits) {
    tokens += rows;
    logit_rows += logits;
    positions_read += std::int64_t{rows} * position + std::int64_t{rows} * (rows + 1) / 2;
  }
};

/// seconds = constant + tokens + distinct experts expected + positions read + rows of logits, each with a
/// coefficient that is never negative. Fitted step by step by least squares on relative errors that forgets
/// old steps and gives outliers little weight. Nothing is allocated after construction.
class StepTimeModel {
 public:
  StepTimeModel(int experts, int experts_per_token);

  /// Seconds; 0 before the first observation. Rises with every part of the work.
  double predict(const StepWork& work) const;
  void observe(const StepWork& work, double seconds);
  /// Running mean of |predicted / measured - 1|.
  double relative_error() const { return error_; }
  /// How much longer steps took in all than was predicted, 1 at least. A prediction is of a step that nothing
  /// disturbs; promises need the mean with what disturbs.
  double slowness() const;
  bool ready() const { return observations_ >= kFirstTrusted; }
  /// A step of more tokens than this is beyond what was seen: its prediction is a guess.
  int trusted_tokens() const { return kTrustedGrowth * most_tokens_; }

 private:
  static constexpr int kFeatures = 5;
  static constexpr int kFirstTrusted = 4;
  static constexpr int kTrustedGrowth = 4;
  using Vector = std::array<double, kFeatures>;

  Vector features(const StepWork& work) const;
  double dot(const Vector& x) const;
  double outlier_weight(double relative_error);
  void fit();

  double experts_, chosen_share_;
  Vector coefficients_{};
  std::array<Vector, kFeatures> squares_{};  // weighted sum of x x^T
  Vector products_{};                        // weighted sum of x y
  int observations_ = 0, most_tokens_ = 0;
  double error_ = 0, spread_ = 1;
  double seconds_ = 0, predicted_seconds_ = 0;  // sums of late
};

}  // namespace grokd
