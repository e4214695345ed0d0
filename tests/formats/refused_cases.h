// Hand-made files that the safetensors reader must refuse, each with the rule it breaks.
#pragma once

#include <string>
#include <vector>

#include "formats/safetensors_bytes.h"

namespace fourfold::testing {

struct RefusedCase {
  std::string what, rule, bytes;
};

// A valid file of two tensors, the base of the mutations.
inline std::string small_valid_file() {
  return safetensors_bytes(
      "{\"__metadata__\":{\"format\":\"pt\"},\"first.weight\":" + entry("F32", "[3,2]", 0, 24) +
          ",\"second.bias\":" + entry("BF16", "[5]", 24, 34) + "}   ",
      "abcdefghijklmnopqrstuvwxyz01234567");
}

inline std::vector<RefusedCase> refused_cases() {
  const auto file = [](const std::string& header, std::string_view data = {}) {
    return safetensors_bytes(header, data);
  };
  // One tensor "t" of four data bytes, with the given entry.
  const auto tensor = [&](const std::string& value) {
    return file("{\"t\":" + value + "}", "abcd");
  };
  const auto shaped = [&](const std::string& shape) { return tensor(entry("U8", shape, 0, 4)); };
  const std::string good = entry("U8", "[4]", 0, 4);
  const std::string half = entry("U8", "[2]", 0, 2);
  std::string deep = "{\"t\":{\"shape\":[[[1]]]}}";
  return {
      {"empty file", "S1", ""},
      {"seven bytes", "S1", std::string(7, '\0')},
      {"short web page", "S1", "<html>"},
      {"length beyond the limit", "S2", length_bytes(100'000'001) + "{}"},
      {"length 2^63", "S2", length_bytes(std::uint64_t{1} << 63) + "{}"},
      {"length 2^64 - 1", "S2", length_bytes(~std::uint64_t{0}) + "{}"},
      {"length beyond the file", "S2", length_bytes(3) + "{}"},
      {"Git LFS pointer", "S2", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n"},
      {"web page", "S2", "<!DOCTYPE html><html><body>404</body></html>"},
      {"GGUF file", "S2", "GGUF\x03" + std::string(30, '\0')},
      {"zip archive", "S2", "PK\x03\x04" + std::string(30, 'z')},
      {"JSON instead of tensors", "S2", "{\"model_type\": \"bert\"}"},
      {"broken UTF-8 in a name", "S3", file("{\"\xC3\x28\":" + good + "}", "abcd")},
      {"overlong UTF-8", "S3", file("{\"\xC0\xAF\":" + good + "}", "abcd")},
      {"UTF-8 surrogate", "S3", file("{\"\xED\xA0\x80\":" + good + "}", "abcd")},
      {"empty header", "S4", file("")},
      {"space before the bracket", "S4", file(" {\"t\":" + good + "}", "abcd")},
      {"array header", "S4", file("[]")},
      {"half a header", "S4", file("{\"t\":")},
      {"only spaces", "S4", file("   ")},
      {"missing comma", "S4", file("{\"a\":" + half + "\"b\":" + half + "}", "abcd")},
      {"control character in a name", "S4", file("{\"a\x01\":" + good + "}", "abcd")},
      {"unknown escape", "S4", file("{\"a\\q\":" + good + "}", "abcd")},
      {"half a surrogate pair", "S4", file("{\"a\\ud800\":" + good + "}", "abcd")},
      {"line break after the bracket", "S5", file("{\"t\":" + good + "}\n", "abcd")},
      {"NUL after the bracket", "S5", file("{\"t\":" + good + "}" + std::string(3, '\0'), "abcd")},
      {"second object", "S5", file("{\"t\":" + good + "}{}", "abcd")},
      {"same tensor twice", "S6", file("{\"t\":" + good + ",\"t\":" + good + "}", "abcd")},
      {"same tensor twice, escaped", "S6",
       file("{\"t\":" + good + ",\"\\u0074\":" + good + "}", "abcd")},
      {"dtype twice", "S6", tensor("{\"dtype\":\"U8\"," + good.substr(1))},
      {"same metadata key twice", "S6", file("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}")},
      {"metadata twice", "S6", file("{\"__metadata__\":{},\"__metadata__\":{}}")},
      {"metadata number", "S7", file("{\"__metadata__\":{\"step\":7}}")},
      {"metadata object", "S7", file("{\"__metadata__\":{\"step\":{}}}")},
      {"metadata null", "S7", file("{\"__metadata__\":null}")},
      {"unknown key", "S8", tensor("{\"x\":1," + good.substr(1))},
      {"missing dtype", "S8", tensor("{\"shape\":[4],\"data_offsets\":[0,4]}")},
      {"missing shape", "S8", tensor("{\"dtype\":\"U8\",\"data_offsets\":[0,4]}")},
      {"missing offsets", "S8", tensor("{\"dtype\":\"U8\",\"shape\":[4]}")},
      {"entry is a number", "S8", tensor("4")},
      {"unknown dtype", "S9", tensor(entry("F99", "[4]", 0, 4))},
      {"lower-case dtype", "S9", tensor(entry("u8", "[4]", 0, 4))},
      {"dtype is a number", "S9", tensor("{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}")},
      {"negative dimension", "S10", shaped("[-4]")},
      {"minus zero", "S10", file("{\"-0\":" + entry("U8", "[-0]", 0, 0) + "}")},
      {"fraction", "S10", shaped("[4.0]")},
      {"exponent", "S10", shaped("[4e0]")},
      {"dimension 2^63", "S10", shaped("[9223372036854775808]")},
      {"dimension 2^64", "S10", shaped("[18446744073709551616]")},
      {"dimension is text", "S10", shaped("[\"4\"]")},
      {"shape is a number", "S10", shaped("4")},
      {"negative offset", "S10",
       tensor("{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[-4,0]}")},
      {"product wraps to 0", "S11", shaped("[8589934592,2147483648]")},
      {"product wraps to 4", "S11", shaped("[4194305,4194305,211106198978564]")},
      {"bits wrap", "S11", tensor(entry("F64", "[4611686018427387904]", 0, 4))},
      {"zero hides a wrap", "S11", shaped("[4294967296,4294967296,0]")},
      {"half a byte", "S12", tensor(entry("F4", "[7]", 0, 4))},
      {"six bits", "S12", tensor(entry("F6_E2M3", "[3]", 0, 4))},
      {"end before begin", "S13", tensor(entry("U8", "[0]", 4, 0))},
      {"span too short", "S13", tensor(entry("U8", "[5]", 0, 4))},
      {"span too long", "S13", tensor(entry("U8", "[3]", 0, 4))},
      {"three offsets", "S13", tensor("{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,2,4]}")},
      {"overlap", "S13",
       file("{\"a\":" + entry("U8", "[3]", 0, 3) + ",\"b\":" + entry("U8", "[2]", 2, 4) + "}",
            "abcd")},
      {"tied weights", "S13", file("{\"a\":" + good + ",\"b\":" + good + "}", "abcd")},
      {"hole", "S13",
       file("{\"a\":" + entry("U8", "[1]", 0, 1) + ",\"b\":" + entry("U8", "[2]", 2, 4) + "}",
            "abcd")},
      {"hole at the start", "S13", tensor(entry("U8", "[3]", 1, 4))},
      {"end beyond the file", "S14", tensor(entry("U8", "[5]", 0, 5))},
      {"end near 2^47", "S14", tensor(entry("U8", "[140737488355328]", 0, 140737488355328))},
      {"bytes after the last tensor", "S14", tensor(half)},
      {"bytes without tensors", "S14", file("{}", "abcd")},
      {"empty tensor with bytes", "S15", tensor(entry("U8", "[0,3]", 0, 4))},
      {"too deep", "L1", file(deep + std::string(4, ' '))},
      {"product above 2^47", "L3", shaped("[140737488355329]")},
      {"empty name", "L4", file("{\"\":" + good + "}", "abcd")},
      {"NUL in a name", "L4", file("{\"a\\u0000b\":" + good + "}", "abcd")},
      {"nine dimensions", "L5", shaped("[1,1,1,1,1,1,1,1,4]")},
  };
}

}  // namespace fourfold::testing
