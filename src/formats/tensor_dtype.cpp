// One table row per element type, in the order of the enumerators.
#include "formats/tensor_dtype.h"

#include <array>
#include <bit>
#include <cstddef>

namespace fourfold {
namespace {

struct DtypeRow {
  TensorDtype dtype;
  std::string_view name;
  unsigned bits;
  bool floating;
};

constexpr std::array<DtypeRow, 22> kDtypes{{
    {TensorDtype::boolean, "BOOL", 8, false},
    {TensorDtype::u8, "U8", 8, false},
    {TensorDtype::i8, "I8", 8, false},
    {TensorDtype::u16, "U16", 16, false},
    {TensorDtype::i16, "I16", 16, false},
    {TensorDtype::u32, "U32", 32, false},
    {TensorDtype::i32, "I32", 32, false},
    {TensorDtype::u64, "U64", 64, false},
    {TensorDtype::i64, "I64", 64, false},
    {TensorDtype::f16, "F16", 16, true},
    {TensorDtype::bf16, "BF16", 16, true},
    {TensorDtype::f32, "F32", 32, true},
    {TensorDtype::f64, "F64", 64, true},
    {TensorDtype::c64, "C64", 64, false},
    {TensorDtype::f8_e4m3, "F8_E4M3", 8, true},
    {TensorDtype::f8_e5m2, "F8_E5M2", 8, true},
    {TensorDtype::f8_e8m0, "F8_E8M0", 8, true},
    {TensorDtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8, true},
    {TensorDtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8, true},
    {TensorDtype::f6_e2m3, "F6_E2M3", 6, true},
    {TensorDtype::f6_e3m2, "F6_E3M2", 6, true},
    {TensorDtype::f4, "F4", 4, true},
}};

constexpr bool rows_follow_enumerators() {
  for (std::size_t i = 0; i < kDtypes.size(); ++i)
    if (static_cast<std::size_t>(kDtypes[i].dtype) != i) return false;
  return true;
}
static_assert(rows_follow_enumerators());

const DtypeRow& row(TensorDtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view dtype_name(TensorDtype dtype) { return row(dtype).name; }
unsigned dtype_bits(TensorDtype dtype) { return row(dtype).bits; }
bool is_floating(TensorDtype dtype) { return row(dtype).floating; }

std::optional<TensorDtype> parse_dtype(std::string_view name) {
  for (const DtypeRow& known : kDtypes)
    if (known.name == name) return known.dtype;
  return std::nullopt;
}

float widen_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13U));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
  // Subnormal halves are whole multiples of 2^-24, which float holds exactly.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

float widen_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

}  // namespace fourfold
