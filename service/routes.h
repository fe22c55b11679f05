#pragma once
// Which handler answers which path: the one table of endpoints.

#include <boost/asio/awaitable.hpp>
#include <span>
#include <string>
#include <string_view>

#include "service/app.h"
#include "service/exchange.h"

namespace grokd {

using Handler = boost::asio::awaitable<void> (*)(Exchange& exchange, App& app);

enum class Key { needed, not_needed, needed_unless_load_is_open };

struct Route {
  std::string_view method;   // GET (answers HEAD too) or POST
  std::string_view pattern;  // a last "{id}" stands for the rest of the path; also the metrics' label
  Handler handler;
  Key key;
  bool generates = false;  // refused before its body is read where there is no room
};

std::span<const Route> routes();

struct RouteMatch {
  const Route* route = nullptr;  // of that path and method
  std::string allowed;           // methods of the path, as in `Allow`; empty: nothing lives there
};
RouteMatch match_route(const HttpRequest& request);

/// What "{id}" stands for in the request's path.
std::string path_parameter(std::string_view pattern, const HttpRequest& request);

}  // namespace grokd
