// The one error type of the library: what went wrong, where, and (for files) which format rule says
// so.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fourfold {

enum class ErrorCode {
  invalid_argument,
  shape_mismatch,
  bad_file,
  missing_tensor,
  unsupported,
  io,
  out_of_memory
};

// The code as users read it in Python and JSON, for example "bad_file".
std::string_view error_code_name(ErrorCode code);

// Thrown at public entry points only. what() is a full sentence for people; the fields say the same
// for programs.
struct Error : std::runtime_error {
  static constexpr std::uint64_t kNoOffset = UINT64_MAX;

  Error(ErrorCode error_code, const std::string& message)
      : std::runtime_error(message), code(error_code) {}

  ErrorCode code;
  std::string path;                  // the file, when there is one
  std::string tensor;                // the tensor, when there is one
  std::string rule;                  // format rule of docs/formats.md, for example "S13"
  std::uint64_t offset = kNoOffset;  // byte offset in the file, or kNoOffset
};

}  // namespace fourfold
