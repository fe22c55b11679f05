#include "engine/step_time.h"

#include <algorithm>
#include <cmath>

namespace grokd {
namespace {

constexpr double kForget = 0.997;       // weight left of the past at each step: some 300 steps count
constexpr double kErrorWeight = 0.05;   // of the newest step in the running means
constexpr double kOutlier = 3;          // errors beyond so many usual ones count less
constexpr double kLeastSpread = 0.03;   // relative error that is usual on any machine
constexpr double kShortestStep = 1e-6;  // seconds
constexpr double kLargestPart = 600;    // seconds: bound of a coefficient
constexpr int kSweeps = 12;             // of coordinate descent from the last solution
constexpr double kTokenUnit = 32, kPositionUnit = 4096, kLogitUnit = 16;  // bring features near 1

}  // namespace

StepTimeModel::StepTimeModel(int experts, int experts_per_token)
    : experts_(std::max(experts, 1)), chosen_share_(std::clamp(experts_per_token / experts_, 0.0, 1.0)) {}

/// The expected share of experts that T tokens meet when each chooses evenly is 1 - (1 - k/E)^T.
StepTimeModel::Vector StepTimeModel::features(const StepWork& work) const {
  return {1, work.tokens / kTokenUnit, 1 - std::pow(1 - chosen_share_, work.tokens),
          static_cast<double>(work.positions_read) / kPositionUnit, work.logit_rows / kLogitUnit};
}

double StepTimeModel::dot(const Vector& x) const {
  double sum = 0;
  for (int i = 0; i < kFeatures; ++i) sum += coefficients_[i] * x[i];
  return sum;
}

double StepTimeModel::predict(const StepWork& work) const {
  return observations_ == 0 ? 0 : dot(features(work));
}

double StepTimeModel::slowness() const {
  return predicted_seconds_ > 0 ? std::max(1.0, seconds_ / predicted_seconds_) : 1;
}

double StepTimeModel::outlier_weight(double relative_error) {
  const double size = std::abs(relative_error), bound = kOutlier * std::max(spread_, kLeastSpread);
  spread_ += kErrorWeight * (std::min(size, 1.0) - spread_);
  return size <= bound ? 1 : bound / size;
}

void StepTimeModel::observe(const StepWork& work, double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) return;
  const Vector x = features(work);
  const double predicted = observations_ == 0 ? seconds : dot(x);
  const double scale = std::max({predicted, seconds * 0.1, kShortestStep});
  const double weight = outlier_weight((seconds - predicted) / scale) / (scale * scale);
  if (observations_ > 0) {
    const double error = std::min(std::abs(predicted / std::max(seconds, kShortestStep) - 1), 1.0);
    error_ += std::max(kErrorWeight, 1.0 / observations_) * (error - error_);
  }
  if (ready()) {
    seconds_ = kForget * seconds_ + seconds;
    predicted_seconds_ = kForget * predicted_seconds_ + predicted;
  }
  for (int i = 0; i < kFeatures; ++i) {
    for (int j = 0; j < kFeatures; ++j) squares_[i][j] = kForget * squares_[i][j] + weight * x[i] * x[j];
    products_[i] = kForget * products_[i] + weight * x[i] * seconds;
  }
  ++observations_;
  most_tokens_ = std::max(most_tokens_, work.tokens);
  fit();
}

/// Coordinate descent: exact along each coordinate, so the bounds need no more than a clamp. What the data
/// leave open stays as it was.
void StepTimeModel::fit() {
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (int i = 0; i < kFeatures; ++i) {
      if (squares_[i][i] <= 0) continue;
      double slope = products_[i];
      for (int j = 0; j < kFeatures; ++j) slope -= squares_[i][j] * coefficients_[j];
      coefficients_[i] = std::clamp(coefficients_[i] + slope / squares_[i][i], 0.0, kLargestPart);
    }
  }
}

}  // namespace grokd
