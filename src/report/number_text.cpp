// fmt without the L flag never looks at the locale.
#include "report/number_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace fourfold {
namespace {

// Puts commas into the digits before the decimal point.
std::string with_commas(std::string_view digits) {
  const std::size_t point = digits.find('.');
  const std::string_view whole = digits.substr(0, point);
  const std::size_t sign = !whole.empty() && whole.front() == '-' ? 1 : 0;
  std::string out(whole.substr(0, sign));
  for (std::size_t i = sign; i < whole.size(); ++i) {
    if (i > sign && (whole.size() - i) % 3 == 0) out += ',';
    out += whole[i];
  }
  if (point != std::string_view::npos) out += digits.substr(point);
  return out;
}

std::string not_finite(double number) {
  if (std::isnan(number)) return "NaN";
  return number > 0 ? "inf" : "-inf";
}

}  // namespace

std::string grouped(std::uint64_t number) { return with_commas(fmt::format("{}", number)); }

std::string counted(std::uint64_t number, const std::string& noun) {
  return grouped(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string fixed(double number, int decimals) {
  if (!std::isfinite(number)) return not_finite(number);
  if (std::abs(number) >= 1e15) return fmt::format("{:.3e}", number);
  const std::string digits = fmt::format("{:.{}f}", number, decimals);
  const bool zero = digits.find_first_of("123456789") == std::string::npos;
  return with_commas(zero && digits.front() == '-' ? std::string_view(digits).substr(1) : digits);
}

std::string short_number(double number) {
  if (!std::isfinite(number)) return not_finite(number);
  const double size = std::abs(number);
  if (size == 0) return "0";
  if (size < 1e-3 || size >= 1e6) return fmt::format("{:.2e}", number);
  if (size < 1) return fixed(number, 4);
  return fixed(number, decimals_for(size));
}

std::string percent_number(double share) {
  if (share > 0 && share < 0.00005) return "<0.01";
  return fixed(100 * share, 2);
}

std::string percent_number(std::optional<double> share) {
  return share ? percent_number(*share) : "-";
}

std::string percent_of(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return percent_number(static_cast<double>(part) / static_cast<double>(whole));
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (size >= 1024 && unit + 1 < kUnits.size()) {
    size /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", fixed(size, unit == 0 ? 0 : 1), kUnits[unit]);
}

int decimals_for(double largest) {
  if (!(largest >= 10)) return 3;
  if (largest < 100) return 2;
  return largest < 1000 ? 1 : 0;
}

}  // namespace fourfold
