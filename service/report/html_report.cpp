#include "service/report/html_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include <spdlog/fmt/fmt.h>

namespace grokd::report {

namespace {

constexpr double kWidth = 720, kHeight = 300, kLeft = 64, kRight = 16, kTop = 16, kBottom = 44;
constexpr const char* kColours[] = {"#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2"};

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem;color:#1f2937;"
    "background:#fff}h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;"
    "width:100%;font-variant-numeric:tabular-nums}th,td{padding:.3rem "
    ".6rem;text-align:right;border-bottom:1px "
    "solid #e5e7eb}th:first-child,td:first-child{text-align:left}svg{width:100%;height:auto}text{font:12px "
    "system-ui,sans-serif;fill:currentColor}.grid{stroke:currentColor;opacity:.12}@media(prefers-color-"
    "scheme:dark)"
    "{body{background:#111827;color:#e5e7eb}th,td{border-color:#374151}}";

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

/// Maps values of one axis to pixels.
struct Axis {
  double low, high, from, to;
  bool logarithmic = false;

  double operator()(double v) const {
    const double a = logarithmic ? std::log(v) : v;
    const double lo = logarithmic ? std::log(low) : low, hi = logarithmic ? std::log(high) : high;
    return from + (to - from) * (hi > lo ? (a - lo) / (hi - lo) : 0.5);
  }
};

/// Round steps: 1, 2 or 5 times a power of ten, about five of them.
std::vector<double> ticks(double low, double high) {
  const double raw = std::max(high - low, 1e-12) / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double step = power * (raw / power < 1.5 ? 1 : raw / power < 3.5 ? 2 : raw / power < 7.5 ? 5 : 10);
  std::vector<double> values;
  for (double v = std::ceil(low / step) * step; v <= high + step * 1e-9; v += step) values.push_back(v);
  return values;
}

std::vector<double> log_ticks(const Plot& plot) {
  std::vector<double> values;
  for (const Series& s : plot.series) values.insert(values.end(), s.x.begin(), s.x.end());
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() > 10) values = {values.front(), values[values.size() / 2], values.back()};
  return values;
}

struct Range {
  double low = 1e300, high = -1e300;
  void take(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
};

std::string grid(const Plot& plot, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double v : ticks(y.low, y.high)) {
    svg += fmt::format(
        "<line class=grid x1={} x2={} y1={:.1f} y2={:.1f} /><text x={} y={:.1f} text-anchor=end>{}</text>",
        kLeft, kWidth - kRight, y(v), y(v), kLeft - 6, y(v) + 4, number(v));
  }
  for (const double v : plot.log_x ? log_ticks(plot) : ticks(x.low, x.high)) {
    svg += fmt::format("<text x={:.1f} y={} text-anchor=middle>{}</text>", x(v), kHeight - kBottom + 16,
                       number(v));
  }
  svg += fmt::format("<text x={} y={} text-anchor=middle>{}</text>", (kLeft + kWidth - kRight) / 2,
                     kHeight - 6, escape(plot.x_label));
  return svg + fmt::format("<text x=12 y={} text-anchor=middle transform='rotate(-90 12 {})'>{}</text>",
                           kHeight / 2, kHeight / 2, escape(plot.y_label));
}

std::string line(const Series& series, std::size_t index, const Axis& x, const Axis& y) {
  const char* colour = kColours[index % std::size(kColours)];
  std::string points, dots;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    points += fmt::format("{:.1f},{:.1f} ", x(series.x[i]), y(series.y[i]));
    if (series.x.size() <= 40) {
      dots +=
          fmt::format("<circle cx={:.1f} cy={:.1f} r=3 fill='{}' />", x(series.x[i]), y(series.y[i]), colour);
    }
  }
  const double label_y = kTop + 14 + 16 * static_cast<double>(index);
  return fmt::format(
      "<polyline fill=none stroke='{}' stroke-width=2 points='{}' />{}<text x={} y={} "
      "style='fill:{}'>{}</text>",
      colour, points, dots, kLeft + 10, label_y, colour, escape(series.name));
}

}  // namespace

std::string number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e6) return fmt::format("{:.0f}", value);
  const int digits = value == 0 ? 0 : 2 - static_cast<int>(std::floor(std::log10(std::abs(value))));
  return fmt::format("{:.{}f}", value, std::clamp(digits, 0, 6));
}

void HtmlReport::add_text(const std::string& paragraph) { body_ += "<p>" + escape(paragraph) + "</p>\n"; }

void HtmlReport::add(const Table& table) {
  body_ += "<h2>" + escape(table.title) + "</h2>\n<table><tr>";
  for (const auto& column : table.columns) body_ += "<th>" + escape(column) + "</th>";
  body_ += "</tr>\n";
  for (const auto& row : table.rows) {
    body_ += "<tr>";
    for (const auto& cell : row) body_ += "<td>" + escape(cell) + "</td>";
    body_ += "</tr>\n";
  }
  body_ += "</table>\n";
}

void HtmlReport::add(const Plot& plot) {
  Range xs, ys;
  ys.take(0);
  for (const Series& s : plot.series) {
    for (const double v : s.x) xs.take(v);
    for (const double v : s.y) ys.take(v);
  }
  if (xs.low > xs.high) return;  // nothing to draw
  const Axis x{xs.low, xs.high, kLeft, kWidth - kRight, plot.log_x && xs.low > 0};
  const Axis y{ys.low, ys.high > ys.low ? ys.high : ys.low + 1, kHeight - kBottom, kTop};
  body_ += fmt::format("<h2>{}</h2>\n<svg viewBox='0 0 {} {}' role=img>{}", escape(plot.title), kWidth,
                       kHeight, grid(plot, x, y));
  for (std::size_t i = 0; i < plot.series.size(); ++i) body_ += line(plot.series[i], i, x, y);
  body_ += "</svg>\n";
}

std::string HtmlReport::html() const {
  return fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
      "content='width=device-width'><title>{0}</title><style>{1}</style>\n<h1>{0}</h1>\n{2}</html>\n",
      escape(title_), kStyle, body_);
}

void HtmlReport::write(const std::string& file) const {
  std::ofstream out(file);
  out << html();
  out.close();
  if (!out) throw std::runtime_error(file + ": cannot be written");
}

}  // namespace grokd::report
