#pragma once
// Serves one connection: request after request until one side ends it.

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "service/app.h"
#include "service/connection.h"

namespace grokd {

/// Never throws.
boost::asio::awaitable<void> serve_connection(std::shared_ptr<Connection> connection, App& app);

/// Answers 503 and closes: there are too many connections.
boost::asio::awaitable<void> turn_away(std::shared_ptr<Connection> connection, App& app);

}  // namespace grokd
