#pragma once
// One self-contained HTML page of tables and plots (inline SVG): what bench and loadtest write.

#include <string>
#include <vector>

namespace grokd::report {

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct Series {
  std::string name;
  std::vector<double> x, y;
};

/// A line plot; `log_x` for percentiles and sizes.
struct Plot {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  bool log_x = false;
};

class HtmlReport {
 public:
  explicit HtmlReport(std::string title) : title_(std::move(title)) {}
  void add_text(const std::string& paragraph);
  void add(const Table& table);
  void add(const Plot& plot);
  std::string html() const;
  /// Throws std::runtime_error naming the file.
  void write(const std::string& file) const;

 private:
  std::string title_, body_;
};

/// "12.3", "0.012": three significant digits.
std::string number(double value);

}  // namespace grokd::report
