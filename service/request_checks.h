#pragma once
// What a request's header must be before its body is read. Pure functions over the fields as received: the
// parser below them lets some doubtful framings through (Beast before 361), so nothing is taken from it on
// trust.

#include "service/config.h"
#include "service/http_message.h"

namespace grokd {

/// Target length, Host, transfer codings, lengths. Throws ApiError; the connection must then be closed. Also
/// splits the target.
void check_framing(HttpRequest& request, const HttpLimits& limits);
/// A declared length within the limit, a known Expect value, JSON without a content coding. Throws ApiError.
void check_body_headers(const HttpRequest& request, const HttpLimits& limits);

bool has_body(const HttpRequest& request);
bool expects_continue(const HttpRequest& request);

}  // namespace grokd
