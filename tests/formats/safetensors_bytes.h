// Safetensors files as bytes, put together from the format's description and not by our own writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace fourfold::testing {

// Eight bytes, least significant first.
inline std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) bytes += static_cast<char>((length >> (8 * i)) & 0xFFU);
  return bytes;
}

inline std::string safetensors_bytes(std::string_view header, std::string_view data = {}) {
  return length_bytes(header.size()) + std::string(header) + std::string(data);
}

// One entry of the header without its name.
inline std::string entry(std::string_view dtype, std::string_view shape, std::uint64_t begin,
                         std::uint64_t end) {
  return "{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

template <class T>
std::string bytes_of(const T& value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

}  // namespace fourfold::testing
