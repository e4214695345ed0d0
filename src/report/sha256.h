// SHA-256 (FIPS 180-4), for the content security policy of reports: a browser applies only the
// style with this hash.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace fourfold {

std::array<std::uint8_t, 32> sha256(std::string_view text);

// The hash in base64, as a policy wants it after "sha256-".
std::string sha256_base64(std::string_view text);

}  // namespace fourfold
