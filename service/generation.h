#pragma once
// The path of an answer that both generating endpoints share: sequences are submitted, their pieces gathered
// or streamed, and everything that can end them early is watched.

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/usage.h"
#include "engine/request.h"
#include "service/app.h"
#include "service/exchange.h"
#include "service/token_stream.h"

namespace grokd {

/// How an endpoint writes its answer. Choices are numbered by their place in the list of requests.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  /// Events that go before any token.
  virtual void open(std::string& out) = 0;
  /// Events for a piece, its end included.
  virtual void append_piece(std::string& out, int choice, RequestOutput& piece) = 0;
  /// The event after the last choice has ended, if there is one.
  virtual void append_usage(std::string& out, const api::Usage& usage) = 0;
  /// A piece of a plain answer.
  virtual void gather(int choice, RequestOutput& piece) = 0;
  /// The plain answer, when every choice has ended.
  virtual std::string plain(const api::Usage& usage) = 0;
};

struct GenerationPlan {
  std::vector<Request> requests;  // one a choice
  int choices_per_prompt = 1;     // requests of one prompt follow each other
  bool stream = false;
  bool keep_tokens = false;                   // log-probabilities are wanted
  std::optional<Clock::time_point> deadline;  // of all of them
  std::optional<int> clamped;                 // max_tokens, where less than asked for fitted
  std::string user;                           // of the request; logged as a hash
};

/// Runs work that comes before an answer (encoding) on a worker, and notes how long it took.
boost::asio::awaitable<void> prepare(Exchange& exchange, App& app, const std::function<void()>& work);

/// Answers the exchange. Throws ApiError: before a stream has begun it becomes the answer, afterwards its
/// last event.
boost::asio::awaitable<void> generate_answer(Exchange& exchange, App& app, const LoadedModel& model,
                                             GenerationPlan plan, AnswerFormat& format);

}  // namespace grokd
