// The hard limits of everything that is read from files. docs/formats.md lists them for users.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fourfold::limits {

inline constexpr std::uint64_t kSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::size_t kSafetensorsHeaderDepth = 4;
inline constexpr std::size_t kTensors = 1'000'000;
inline constexpr std::size_t kMetadataEntries = 65'536;
inline constexpr std::size_t kNameBytes = 65'535;
inline constexpr std::size_t kRank = 8;
inline constexpr std::uint64_t kInteger = (std::uint64_t{1} << 63) - 1;  // any number in a header
inline constexpr std::uint64_t kProduct = std::uint64_t{1} << 47;        // any product of sizes

inline constexpr std::size_t kJsonDepth = 64;
inline constexpr std::uint64_t kConfigBytes = std::uint64_t{16} << 20;      // config.json and alike
inline constexpr std::uint64_t kTokenizerBytes = std::uint64_t{256} << 20;  // tokenizer.json

inline constexpr std::size_t kAddedTokenBytes = 1024;  // text of one added token

inline constexpr std::uint64_t kLayers = 4096;
inline constexpr std::uint64_t kDimension = std::uint64_t{1} << 20;  // d_model, d_ff, positions ...
inline constexpr std::uint64_t kVocabulary = std::uint64_t{4} << 20;  // tokens

}  // namespace fourfold::limits
