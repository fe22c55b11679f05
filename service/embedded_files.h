#pragma once
// Files that are compiled into the program (embed_file.cmake makes their sources).

#include <string_view>

namespace grokd::embedded {

std::string_view chat_page();     // service/web/index.html
std::string_view api_document();  // openapi.yaml

}  // namespace grokd::embedded
