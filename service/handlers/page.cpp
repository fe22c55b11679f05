// GET / (the chat page) and GET /openapi.yaml
#include <string>

#include "service/embedded_files.h"
#include "service/exchange.h"
#include "service/handlers/handlers.h"

namespace grokd::handlers {
namespace {

HttpResponse file(std::string_view bytes, std::string content_type) {
  HttpResponse response;
  response.content_type = std::move(content_type);
  response.body = bytes;
  response.headers = {{"Cache-Control", "no-cache"}, {"X-Content-Type-Options", "nosniff"}};
  return response;
}

}  // namespace

Answer page(Exchange& exchange, App&) {
  const HttpResponse response = file(embedded::chat_page(), "text/html; charset=utf-8");
  co_await exchange.reply(response);
}

Answer openapi(Exchange& exchange, App&) {
  const HttpResponse response = file(embedded::api_document(), "application/yaml");
  co_await exchange.reply(response);
}

}  // namespace grokd::handlers
