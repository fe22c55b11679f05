#pragma once
// The endpoints, one file each. A handler answers its exchange or throws ApiError.

#include <boost/asio/awaitable.hpp>

namespace grokd {
class Exchange;
struct App;
}  // namespace grokd

namespace grokd::handlers {

using Answer = boost::asio::awaitable<void>;

Answer completions(Exchange& exchange, App& app);
Answer chat_completions(Exchange& exchange, App& app);
Answer list_models(Exchange& exchange, App& app);
Answer get_model(Exchange& exchange, App& app);
Answer tokenize(Exchange& exchange, App& app);
Answer detokenize(Exchange& exchange, App& app);
Answer livez(Exchange& exchange, App& app);
Answer readyz(Exchange& exchange, App& app);
Answer load(Exchange& exchange, App& app);
Answer metrics(Exchange& exchange, App& app);
Answer page(Exchange& exchange, App& app);
Answer openapi(Exchange& exchange, App& app);

}  // namespace grokd::handlers
