#include "report/sha256.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

using namespace fourfold;

namespace {

std::string hex(std::string_view text) {
  std::string out;
  for (const std::uint8_t byte : sha256(text)) out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace

// Expected values: FIPS 180-4 examples and coreutils sha256sum.
TEST_CASE("SHA-256 of known texts, one block, two blocks, many blocks") {
  CHECK(hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("base64 pads to a multiple of four") {
  CHECK(sha256_base64("abc") == "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}
