// The element types of the safetensors format and how the two half-width floats widen.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fourfold {

enum class TensorDtype {
  boolean,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  f16,
  bf16,
  f32,
  f64,
  c64,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f6_e2m3,
  f6_e3m2,
  f4
};

std::string_view dtype_name(TensorDtype dtype);  // as in the file: "F32", "BF16" ...
std::optional<TensorDtype> parse_dtype(std::string_view name);
unsigned dtype_bits(TensorDtype dtype);
bool is_floating(TensorDtype dtype);  // complex numbers are not

// The float with the same value; NaN keeps its sign and payload.
float widen_f16(std::uint16_t bits);
float widen_bf16(std::uint16_t bits);

}  // namespace fourfold
