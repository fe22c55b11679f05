#include "service/generation.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "api/error.h"
#include "api/sse.h"
#include "service/access.h"
#include "service/convert.h"

namespace grokd {

namespace asio = boost::asio;

namespace {

[[noreturn]] void throw_gone() { throw boost::system::system_error(asio::error::connection_reset); }

Ending ending_of(const RequestOutput& last) {
  switch (last.finish) {
    case FinishReason::stop:
      return Ending::stop;
    case FinishReason::length:
      return last.timed_out ? Ending::timeout : Ending::length;
    case FinishReason::cancelled:
      return Ending::abort;
    case FinishReason::none:
    case FinishReason::error:
      break;
  }
  return Ending::error;
}

RejectionReason rejection_of(Rejection reason) {
  switch (reason) {
    case Rejection::queue_full:
      return RejectionReason::queue_full;
    case Rejection::deadline:
      return RejectionReason::deadline;
    case Rejection::draining:
      return RejectionReason::draining;
    case Rejection::failed:
      break;
  }
  return RejectionReason::failed;
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string hash_of(const std::string& user) {
  return user.empty() ? std::string() : std::to_string(std::hash<std::string>()(user));
}

/// Where the time went, in milliseconds, as in the header Server-Timing.
std::string server_timing(const RequestRecord& record) {
  const std::pair<const char*, double> spans[] = {{"tokenise", record.tokenise_seconds},
                                                  {"queue", record.queue_seconds},
                                                  {"prefill", record.prefill_seconds},
                                                  {"decode", record.decode_seconds},
                                                  {"write", record.write_seconds}};
  std::string text;
  for (const auto& [name, seconds] : spans) {
    char span[48];
    std::snprintf(span, sizeof(span), "%s%s;dur=%.3f", text.empty() ? "" : ", ", name, seconds * 1000);
    text += span;
  }
  return text;
}

KeyUse begin_use(const Exchange& exchange, App& app) {
  try {
    return KeyUse(exchange.account());
  } catch (const api::ApiError&) {
    app.metrics.count_rejection(RejectionReason::key_limit);
    throw;
  }
}

/// The sequences of one exchange, from submission to their ends.
class Generation {
 public:
  Generation(Exchange& exchange, App& app, GenerationPlan plan);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// Throws ApiError when one of them is refused; those before it end.
  void submit(Replicas& engine);
  /// Waits for pieces; keeps a stream alive meanwhile. Throws system_error when the client is gone and
  /// ApiError when a sequence failed or the server ends.
  asio::awaitable<void> next(std::vector<Piece>& pieces);
  /// The pieces' bytes are with the system now.
  void note_written(const std::vector<Piece>& pieces) const;
  bool finished() const { return unfinished_ == 0; }
  /// Where the time went until now, once all have finished.
  std::string timing();
  const api::Usage& usage() const { return usage_; }
  bool nothing_but_timeouts() const { return timeouts_ > 0 && usage_.completion_tokens == 0; }

 private:
  using SteadyTime = Connection::SteadyTime;

  std::string key_salt() const;
  std::int64_t prompt_tokens() const;
  void note(const Piece& piece);
  void note_end(int choice, const RequestOutput& last);
  void check_peer() const;
  bool pinging() const { return plan_.stream && exchange_.started(); }
  SteadyTime next_event() const;
  asio::awaitable<void> ping_if_due();

  struct Choice {
    RequestHandle handle;
    SteadyTime last_piece;
    int tokens = 0;
    bool ended = false;
  };

  Exchange& exchange_;
  App& app_;
  GenerationPlan plan_;
  KeyUse key_use_;
  std::shared_ptr<TokenStream> stream_;
  std::vector<Choice> choices_;
  int unfinished_ = 0;
  int timeouts_ = 0;
  api::Usage usage_;
  Clock::time_point last_end_;
  SteadyTime last_probe_;  // last comment line sent to find out whether the client is still there
};

Generation::Generation(Exchange& exchange, App& app, GenerationPlan plan)
    : exchange_(exchange), app_(app), plan_(std::move(plan)), key_use_(begin_use(exchange, app)) {
  TokenStream::Events events;
  events.wake = [connection = exchange_.shared_connection()] { connection->notify(); };
  events.too_much = [connection = exchange_.shared_connection()] { connection->cut_off_if_blocked(); };
  stream_ =
      std::make_shared<TokenStream>(std::move(events), plan_.keep_tokens, app_.config.http.max_output_bytes);
  exchange_.connection().watch_peer();
}

Generation::~Generation() {
  // Sequences that are cut off here end as aborted; the handles' destructors cancel them.
  for (const Choice& choice : choices_) {
    if (!choice.ended) app_.metrics.count_ending(Ending::abort);
  }
  if (unfinished_ > 0) exchange_.record().finish = "abort";
}

/// Keys do not share cached prompts: how fast an answer comes would tell one what another has asked.
std::string Generation::key_salt() const {
  if (!exchange_.account()) return {};
  return '\n' + std::string(presented_key(exchange_.request()));
}

std::int64_t Generation::prompt_tokens() const {
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < plan_.requests.size(); i += static_cast<std::size_t>(plan_.choices_per_prompt))
    tokens += static_cast<std::int64_t>(plan_.requests[i].prompt.size());
  return tokens;
}

void Generation::submit(Replicas& engine) {
  const std::int64_t tokens = prompt_tokens();
  exchange_.record().choices = static_cast<int>(plan_.requests.size());
  for (std::size_t i = 0; i < plan_.requests.size(); ++i) {
    const int choice = static_cast<int>(i);
    plan_.requests[i].id = exchange_.record().request_id;
    plan_.requests[i].deadline = plan_.deadline;
    plan_.requests[i].cache_salt += key_salt();
    auto sink = [stream = stream_, choice](RequestOutput&& output) {
      stream->push(choice, std::move(output));
    };
    auto outcome = engine.submit(std::move(plan_.requests[i]), std::move(sink));
    if (const auto* refused = std::get_if<Refused>(&outcome)) {
      app_.metrics.count_rejection(rejection_of(refused->reason));
      throw to_api_error(*refused);
    }
    choices_.push_back({std::move(std::get<RequestHandle>(outcome)), {}, 0, false});
    ++unfinished_;
  }
  key_use_.charge(tokens);
}

void Generation::note_end(int choice, const RequestOutput& last) {
  RequestRecord& record = exchange_.record();
  choices_[static_cast<std::size_t>(choice)].ended = true;
  --unfinished_;
  const Ending ending = ending_of(last);
  if (ending == Ending::timeout) ++timeouts_;
  app_.metrics.count_ending(ending);
  app_.metrics.observe_sequence(last);
  if (choice % plan_.choices_per_prompt == 0) {
    usage_.prompt_tokens += last.prompt_tokens;
    usage_.cached_tokens += last.cached_tokens;
  }
  usage_.completion_tokens += last.completion_tokens;
  record.finish = ending_name(ending);
  record.prompt_tokens = static_cast<int>(usage_.prompt_tokens);
  record.cached_tokens = static_cast<int>(usage_.cached_tokens);
  record.completion_tokens = static_cast<int>(usage_.completion_tokens);
  const RequestTimes& times = last.times;
  last_end_ = times.finished;
  if (times.first_token == Clock::time_point()) return;
  record.queue_seconds = seconds_between(times.submitted, times.admitted);
  record.prefill_seconds = seconds_between(times.admitted, times.first_token);
  record.decode_seconds = seconds_between(times.first_token, times.finished);
}

void Generation::note(const Piece& piece) {
  Choice& choice = choices_[static_cast<std::size_t>(piece.choice)];
  const int tokens = piece.output.completion_tokens;
  if (choice.tokens > 0 && tokens > choice.tokens) {
    app_.metrics.observe_inter_token(seconds_between(choice.last_piece, piece.made), tokens - choice.tokens);
  }
  key_use_.charge(tokens - choice.tokens);
  choice.tokens = tokens;
  choice.last_piece = piece.made;
  if (piece.output.finish != FinishReason::none) note_end(piece.choice, piece.output);
}

void Generation::note_written(const std::vector<Piece>& pieces) const {
  const auto now = Clock::now();
  for (const Piece& piece : pieces) app_.metrics.observe_delivery(seconds_between(piece.made, now));
}

std::string Generation::timing() {
  RequestRecord& record = exchange_.record();
  record.write_seconds = seconds_between(last_end_, Clock::now());
  return server_timing(record);
}

void Generation::check_peer() const {
  const Connection& connection = exchange_.connection();
  if (connection.must_end()) throw api::errors::shutting_down(1);
  if (connection.peer_gone()) throw_gone();
  if (plan_.stream || !connection.peer_finished()) return;
  const auto gone_at = connection.peer_finished_at() + app_.config.http.plain_close_grace;
  if (std::chrono::steady_clock::now() >= gone_at) throw_gone();
}

Generation::SteadyTime Generation::next_event() const {
  const Connection& connection = exchange_.connection();
  const HttpLimits& limits = app_.config.http;
  SteadyTime time = SteadyTime::max();
  if (pinging()) time = exchange_.last_write() + limits.ping_interval;
  if (connection.peer_finished()) {
    const auto probe = plan_.stream
                           ? std::max(connection.peer_finished_at(), last_probe_ + limits.probe_interval)
                           : connection.peer_finished_at() + limits.plain_close_grace;
    time = std::min(time, probe);
  }
  return time;
}

asio::awaitable<void> Generation::ping_if_due() {
  if (!pinging() || std::chrono::steady_clock::now() < next_event()) co_return;
  last_probe_ = std::chrono::steady_clock::now();
  co_await exchange_.write(api::kSsePing);
}

asio::awaitable<void> Generation::next(std::vector<Piece>& pieces) {
  while (true) {
    check_peer();
    stream_->take(pieces);
    if (!pieces.empty()) break;
    const auto until = next_event();
    co_await exchange_.connection().wait_until(until);
    check_peer();
    co_await ping_if_due();
  }
  for (const Piece& piece : pieces) note(piece);
}

void throw_if_failed(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    const FinishReason finish = piece.output.finish;
    if (finish == FinishReason::error || finish == FinishReason::cancelled) throw to_api_error(piece.output);
  }
}

/// The events of these pieces, in writes of a bounded size.
asio::awaitable<void> write_pieces(Exchange& exchange, AnswerFormat& format, std::vector<Piece>& pieces,
                                   std::string& out) {
  constexpr std::size_t kMostBytes = 64 << 10;
  out.clear();
  for (Piece& piece : pieces) {
    if (piece.output.finish == FinishReason::error || piece.output.finish == FinishReason::cancelled) break;
    format.append_piece(out, piece.choice, piece.output);
    if (out.size() < kMostBytes) continue;
    co_await exchange.write(out);
    out.clear();
  }
  co_await exchange.write(out);
}

asio::awaitable<void> stream_answer(Exchange& exchange, Generation& generation, AnswerFormat& format) {
  co_await exchange.start_stream();
  std::string out;
  format.open(out);
  co_await exchange.write(out);
  std::vector<Piece> pieces;
  while (!generation.finished()) {
    co_await generation.next(pieces);
    co_await write_pieces(exchange, format, pieces, out);
    generation.note_written(pieces);
    throw_if_failed(pieces);
  }
  out.clear();
  format.append_usage(out, generation.usage());
  out += ": server-timing " + generation.timing() + "\n\n";  // too late for a header: a comment
  out += api::kSseDone;
  co_await exchange.write(out);
  co_await exchange.finish_stream();
}

asio::awaitable<void> gather_answer(Exchange& exchange, Generation& generation, AnswerFormat& format) {
  std::vector<Piece> pieces;
  while (!generation.finished()) {
    co_await generation.next(pieces);
    throw_if_failed(pieces);
    for (Piece& piece : pieces) format.gather(piece.choice, piece.output);
  }
  if (generation.nothing_but_timeouts()) throw api::errors::deadline_exceeded();
  const HttpResponse response = json_response(format.plain(generation.usage()));
  exchange.add_header("Server-Timing", generation.timing());
  exchange.connection().stop_watching();
  co_await exchange.reply(response);
}

}  // namespace

asio::awaitable<void> prepare(Exchange& exchange, App& app, const std::function<void()>& work) {
  const auto begin = Clock::now();
  co_await app.workers.run(work);
  exchange.record().tokenise_seconds = seconds_between(begin, Clock::now());
}

asio::awaitable<void> generate_answer(Exchange& exchange, App& app, const LoadedModel& model,
                                      GenerationPlan plan, AnswerFormat& format) {
  const bool stream = plan.stream;
  if (plan.clamped) exchange.add_header("X-Max-Tokens-Clamped", std::to_string(*plan.clamped));
  exchange.record().user_hash = hash_of(plan.user);
  Generation generation(exchange, app, std::move(plan));
  generation.submit(*model.engine);
  if (stream) {
    co_await stream_answer(exchange, generation, format);
  } else {
    co_await gather_answer(exchange, generation, format);
  }
}

}  // namespace grokd
