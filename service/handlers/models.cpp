// GET /v1/models, GET /v1/models/{id}
#include "api/models.h"

#include <span>
#include <vector>

#include "service/app.h"
#include "service/exchange.h"
#include "service/handlers/handlers.h"
#include "service/routes.h"

namespace grokd::handlers {
namespace {

/// Known before the model is loaded: clients ask for it at once.
api::ModelCard card_of(const App& app) {
  const LoadedModel* model = app.host.loaded();
  api::ModelCard card;
  card.id = app.host.id();
  card.created = app.host.created();
  card.max_model_len = model ? app.request_limits(*model).context : app.host.config().sequence_len;
  card.chat_template = app.host.chat_template().name;
  return card;
}

}  // namespace

Answer list_models(Exchange& exchange, App& app) {
  const std::vector<api::ModelCard> cards = {card_of(app)};
  const HttpResponse response = json_response(api::to_json(cards));
  co_await exchange.reply(response);
}

Answer get_model(Exchange& exchange, App& app) {
  const std::string id = path_parameter("/v1/models/{id}", exchange.request());
  if (!app.host.is_served(id))
    throw api::errors::model_not_found(id, std::vector<std::string>{app.host.id()});
  const HttpResponse response = json_response(api::to_json(card_of(app)));
  co_await exchange.reply(response);
}

}  // namespace grokd::handlers
