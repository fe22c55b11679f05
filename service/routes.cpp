#include "service/routes.h"

#include "service/handlers/handlers.h"

namespace grokd {
namespace {

constexpr Route kRoutes[] = {
    {"POST", "/v1/completions", handlers::completions, Key::needed, true},
    {"POST", "/v1/chat/completions", handlers::chat_completions, Key::needed, true},
    {"POST", "/tokenize", handlers::tokenize, Key::needed},
    {"POST", "/detokenize", handlers::detokenize, Key::needed},
    {"GET", "/v1/models", handlers::list_models, Key::needed},
    {"GET", "/v1/models/{id}", handlers::get_model, Key::needed},
    {"GET", "/livez", handlers::livez, Key::not_needed},
    {"GET", "/readyz", handlers::readyz, Key::not_needed},
    {"GET", "/health", handlers::readyz, Key::not_needed},
    {"GET", "/v2/health/live", handlers::livez, Key::not_needed},
    {"GET", "/v2/health/ready", handlers::readyz, Key::not_needed},
    {"GET", "/load", handlers::load, Key::needed_unless_load_is_open},
    {"GET", "/metrics", handlers::metrics, Key::needed},
    {"GET", "/", handlers::page, Key::not_needed},
    {"GET", "/openapi.yaml", handlers::openapi, Key::not_needed},
};

std::string_view fixed_part(std::string_view pattern) { return pattern.substr(0, pattern.find('{')); }

bool matches(std::string_view pattern, std::string_view path) {
  const std::string_view fixed = fixed_part(pattern);
  if (fixed.size() == pattern.size()) return path == pattern;
  return path.size() > fixed.size() && path.starts_with(fixed);
}

std::string_view effective_method(const HttpRequest& request) {
  return request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

RouteMatch match_route(const HttpRequest& request) {
  RouteMatch match;
  if (request.method == "OPTIONS" && request.path == "*") match.allowed = "GET, HEAD, POST, OPTIONS";
  for (const Route& route : kRoutes) {
    if (!matches(route.pattern, request.path)) continue;
    if (route.method == effective_method(request)) match.route = &route;
    match.allowed = route.method == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  }
  return match;
}

std::string path_parameter(std::string_view pattern, const HttpRequest& request) {
  return request.path.substr(fixed_part(pattern).size());
}

}  // namespace grokd
