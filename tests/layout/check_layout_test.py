"""The checker itself: each rule must be able to fail."""
import pathlib
import tempfile
import unittest

import check_layout


def breaches_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_layout.check(folder)[0]


class Rules(unittest.TestCase):
    def assert_breach(self, files, words):
        found = breaches_of(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_what_is_allowed_passes(self):
        self.assertEqual(breaches_of({
            "kernels/a.h": "#pragma once\n#include <vector>\n",
            "engine/b.cpp": '#include <nlohmann/json.hpp>\n#include <sys/mman.h>\n#include "kernels/a.h"\n',
            "service/c.cpp": '#include <boost/beast/http.hpp>\n#include <CLI/CLI.hpp>\n#include "kernels/a.h"\n',
            "README.md": "[a](kernels/a.h) [b](https://example.com/) `[c](d)`\n",
        }), [])

    def test_kernels_know_only_the_standard_library(self):
        self.assert_breach({"kernels/a.cpp": "#include <nlohmann/json.hpp>\n"}, "kernels may not use nlohmann")

    def test_api_does_not_know_the_engine(self):
        self.assert_breach({"api/a.cpp": '#include "engine/b.h"\n', "engine/b.h": "#pragma once\n"},
                           "api may not include engine")

    def test_engine_does_not_know_sockets(self):
        self.assert_breach({"engine/a.cpp": "#include <boost/asio.hpp>\n"}, "engine may not use boost")

    def test_heavy_headers_stay_out_of_headers(self):
        self.assert_breach({"engine/a.h": "#pragma once\n#include <sentencepiece_processor.h>\n"}, "heavy")
        self.assert_breach({"service/a.h": "#pragma once\n#include <boost/beast/http.hpp>\n"}, "heavy")

    def test_headers_of_cuda_are_its_own(self):
        header = {"kernels/cuda/a.h": "#pragma once\n#include <cuda_runtime.h>\n"}
        self.assertEqual(breaches_of(header | {"kernels/cuda/b.cu": '#include "kernels/cuda/a.h"\n'}), [])
        self.assert_breach(header | {"kernels/b.cpp": '#include "kernels/cuda/a.h"\n'}, "only kernels/cuda")

    def test_an_unknown_library_is_named(self):
        self.assert_breach({"service/a.cpp": "#include <curl/curl.h>\n"}, "on no list")

    def test_includes_start_at_the_root(self):
        self.assert_breach({"engine/a.cpp": '#include "kernels/gone.h"\n'}, "not a path from the root")

    def test_headers_are_guarded(self):
        self.assert_breach({"api/a.h": "#include <string>\n"}, "no #pragma once")

    def test_long_files_are_named(self):
        self.assert_breach({"api/a.cpp": "\n" * (check_layout.MAX_SOURCE_LINES + 1)}, "over")

    def test_a_route_without_description_is_named(self):
        table = 'constexpr Route kRoutes[] = {\n    {"GET", "/a", handlers::a},\n    {"POST", "/b/{id}", handlers::b},\n'
        described = "openapi: 3.1.0\npaths:\n  /a:\n    get:\n      x: y\n%scomponents:\n"
        more = "  /b/{id}:\n    post:\n      x: y\n"
        self.assertEqual(breaches_of({"service/routes.cpp": table, "openapi.yaml": described % more}), [])
        self.assert_breach({"service/routes.cpp": table, "openapi.yaml": described % ""}, "POST /b/{id} is not in openapi.yaml")
        self.assert_breach({"service/routes.cpp": table[:-40], "openapi.yaml": described % more}, "is no route")

    def test_dead_links_are_named(self):
        self.assert_breach({"docs/a.md": "[b](../gone.md)\n"}, "link to ../gone.md")


if __name__ == "__main__":
    unittest.main()
