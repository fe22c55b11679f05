// GET /metrics
#include "service/metrics.h"

#include <optional>

#include "service/app.h"
#include "service/exchange.h"
#include "service/handlers/handlers.h"

namespace grokd::handlers {

Answer metrics(Exchange& exchange, App& app) {
  std::optional<EngineStats> stats;
  if (const LoadedModel* model = app.host.loaded()) stats = model->engine->stats();
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = app.metrics.text(stats ? &*stats : nullptr);
  co_await exchange.reply(response);
}

}  // namespace grokd::handlers
