// GET /livez, /readyz (and its other names), /load. They read what the engine published and never wait for
// it.
#include "api/health.h"

#include "kernels/backend.h"
#include "service/app.h"
#include "service/exchange.h"
#include "service/handlers/handlers.h"

namespace grokd::handlers {
namespace {

api::Readiness readiness_of(const App& app) {
  api::Readiness out;
  out.progress = app.host.progress();
  const LoadedModel* model = app.host.loaded();
  out.status = api::ReadyStatus::loading;
  if (model) {
    const EngineStats stats = model->engine->stats();
    out.running = stats.running;
    out.waiting = stats.waiting;
    out.status = app.alive() ? api::ReadyStatus::ready : api::ReadyStatus::stalled;
  }
  if (app.not_ready) out.status = api::ReadyStatus::draining;
  return out;
}

}  // namespace

Answer livez(Exchange& exchange, App& app) {
  const bool alive = app.alive();
  const HttpResponse response = json_response(api::liveness_json(alive), alive ? 200 : 503);
  co_await exchange.reply(response);
}

Answer readyz(Exchange& exchange, App& app) {
  const api::Readiness readiness = readiness_of(app);
  const bool ready = readiness.status == api::ReadyStatus::ready;
  HttpResponse response = json_response(api::to_json(readiness), ready ? 200 : 503);
  if (!ready) response.headers.push_back({"Retry-After", "1"});
  co_await exchange.reply(response);
}

Answer load(Exchange& exchange, App& app) {
  api::Load out;
  if (const LoadedModel* model = app.host.loaded()) {
    const EngineStats stats = model->engine->stats();
    out.running = stats.running;
    out.waiting = stats.waiting;
    out.waiting_tokens = stats.waiting_tokens;
    out.slots = stats.slots;
    out.kv_used = static_cast<std::int64_t>(stats.kv_pages_used) * kernels::kPagePositions;
    out.kv_total = static_cast<std::int64_t>(stats.kv_pages_total) * kernels::kPagePositions;
  }
  const HttpResponse response = json_response(api::to_json(out));
  co_await exchange.reply(response);
}

}  // namespace grokd::handlers
