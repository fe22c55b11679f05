#pragma once
// When a request that comes now would be served, and whether that is soon enough.

#include <array>
#include <cstdint>
#include <optional>

#include "engine/request.h"

namespace grokd {

inline constexpr int kTiers = 3;

/// What waits in one tier.
struct QueuedWork {
  int requests = 0;
  std::int64_t prompt_tokens = 0;
  double answer_tokens = 0;  // expected
};

/// What steps cost in the mean while the slots that are in use decode; all 0 until the step-time model knows.
struct StepForecast {
  double decode_seconds = 0;         // a step of the decodes alone
  double prompt_token_seconds = 0;   // by which a row of a prompt lengthens it
  double prompt_token_interval = 0;  // how long a row of a prompt takes beside the decodes
};

/// What the engine has to do, as its thread last saw it.
struct EngineLoad {
  int running = 0, waiting = 0;
  std::int64_t waiting_tokens = 0;
  int slots = 1;
  std::array<QueuedWork, kTiers> queue{};
  std::array<double, kTiers> first_slot_seconds{};  // until a request of the tier could have a slot
  StepForecast step;
  double answer_share = 1;     // of max_tokens that answers came to
  double service_seconds = 1;  // how long a request held its slot
};

/// Tokens an answer is expected to have.
double expected_answer(const Request& request, double answer_share);

/// Seconds until a request of this tier that comes now has a slot.
double predict_wait(const EngineLoad& load, int tier);

/// Seconds from its slot to its last token.
double predict_service(const EngineLoad& load, const Request& request);

/// Nothing if the request is expected to end before its deadline. Else the seconds after which a request like
/// it would be. A request that could not make it on an idle engine either only has to start in time.
std::optional<double> seconds_too_late(const EngineLoad& load, const Request& request, Clock::time_point now);

}  // namespace grokd
