// Numbers as people read them: thousands separators, decimals by size, never locale dependent. NaN
// and infinity are written as such, a missing value as "-".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fourfold {

std::string grouped(std::uint64_t number);                           // 1,234,567
std::string counted(std::uint64_t number, const std::string& noun);  // "1 layer", "1,024 layers"
std::string fixed(double number, int decimals);  // 1,234.50; above 1e15 in powers of ten
std::string short_number(double number);  // about four digits: 0.0123, 3.142, 48,210, 1.20e+09
std::string percent_number(
    double share);  // 0.1234 -> 12.34; a positive share that would read 0.00 -> <0.01
std::string percent_number(std::optional<double> share);
std::string bytes_text(std::uint64_t bytes);                      // 512 B, 87.5 MiB
std::string percent_of(std::uint64_t part, std::uint64_t whole);  // "-" of nothing

// Decimals that leave about four digits of the largest number in a column.
int decimals_for(double largest);

}  // namespace fourfold
