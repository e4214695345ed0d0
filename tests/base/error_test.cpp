// Error: what it carries, and the names of its codes, which Python and JSON users read.
#include "fourfold/error.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "base/check.h"

namespace fourfold {
namespace {

TEST_CASE("every error code has its documented name") {
  CHECK(error_code_name(ErrorCode::invalid_argument) == "invalid_argument");
  CHECK(error_code_name(ErrorCode::shape_mismatch) == "shape_mismatch");
  CHECK(error_code_name(ErrorCode::bad_file) == "bad_file");
  CHECK(error_code_name(ErrorCode::missing_tensor) == "missing_tensor");
  CHECK(error_code_name(ErrorCode::unsupported) == "unsupported");
  CHECK(error_code_name(ErrorCode::io) == "io");
  CHECK(error_code_name(ErrorCode::out_of_memory) == "out_of_memory");
}

TEST_CASE("a new error names no file, tensor, rule or offset") {
  const Error error(ErrorCode::io, "cannot read it");
  CHECK(error.code == ErrorCode::io);
  CHECK(std::string(error.what()) == "cannot read it");
  CHECK(error.path.empty());
  CHECK(error.tensor.empty());
  CHECK(error.rule.empty());
  CHECK(error.offset == Error::kNoOffset);
}

TEST_CASE("FOURFOLD_CHECK throws the code and message, and only when the condition fails") {
  int evaluated = 0;
  const auto message = [&] {
    ++evaluated;
    return std::string("seven is not eight");
  };
  CHECK_NOTHROW([&] { FOURFOLD_CHECK(7 == 7, shape_mismatch, message()); }());
  CHECK(evaluated == 0);
  try {
    FOURFOLD_CHECK(7 == 8, shape_mismatch, message());
    FAIL("no error was thrown");
  } catch (const Error& error) {
    CHECK(error.code == ErrorCode::shape_mismatch);
    CHECK(std::string(error.what()) == "seven is not eight");
  }
  CHECK(evaluated == 1);
}

}  // namespace
}  // namespace fourfold
