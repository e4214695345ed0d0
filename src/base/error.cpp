#include "fourfold/error.h"

namespace fourfold {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::shape_mismatch: return "shape_mismatch";
    case ErrorCode::bad_file: return "bad_file";
    case ErrorCode::missing_tensor: return "missing_tensor";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::io: return "io";
    case ErrorCode::out_of_memory: return "out_of_memory";
  }
  return "unknown";
}

}  // namespace fourfold
