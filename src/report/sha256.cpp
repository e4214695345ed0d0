// The round constants are the first 32 bits of the fractional parts of the cube roots of the first
// 64 primes, the start values those of the square roots of the first 8: both are computed here in
// integers.
#include "report/sha256.h"

#include <bit>
#include <cstddef>

namespace fourfold {
namespace {

using Word = std::uint32_t;
__extension__ using Wide = unsigned __int128;

// floor(2^32 * root) mod 2^32 of the prime, root = square (power 2) or cube (power 3) root, by
// bisection.
constexpr Word fraction_of_root(std::uint64_t prime, int power) {
  std::uint64_t low = 0, high = std::uint64_t{1} << 38;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    const Wide square = Wide{middle} * middle;
    const bool below =
        power == 2 ? square <= (Wide{prime} << 64) : square <= (Wide{prime} << 96) / middle;
    (below ? low : high) = middle;
  }
  return static_cast<Word>(low);
}

template <std::size_t kCount>
constexpr std::array<Word, kCount> fractions(int power) {
  std::array<Word, kCount> result{};
  std::uint64_t candidate = 2;
  for (std::size_t found = 0; found < kCount; ++candidate) {
    bool prime = true;
    for (std::uint64_t d = 2; d * d <= candidate; ++d) prime = prime && candidate % d != 0;
    if (prime) result[found++] = fraction_of_root(candidate, power);
  }
  return result;
}

constexpr std::array<Word, 64> kRound = fractions<64>(3);
constexpr std::array<Word, 8> kStart = fractions<8>(2);

void add_block(std::array<Word, 8>& state, const unsigned char* block) {
  std::array<Word, 64> w{};
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t b = 0; b < 4; ++b) w[i] = w[i] << 8 | block[4 * i + b];
  for (std::size_t i = 16; i < 64; ++i) {
    const Word a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  std::array<Word, 8> s = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const Word choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const Word majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    const Word first = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                       choice + kRound[i] + w[i];
    const Word second = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) + majority;
    for (std::size_t j = 7; j > 0; --j) s[j] = s[j - 1];
    s[4] += first;
    s[0] = first + second;
  }
  for (std::size_t j = 0; j < 8; ++j) state[j] += s[j];
}

}  // namespace

std::array<std::uint8_t, 32> sha256(std::string_view text) {
  std::string padded(text);
  padded += '\x80';
  while (padded.size() % 64 != 56) padded += '\0';
  const std::uint64_t bits = std::uint64_t{text.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(bits >> shift & 0xFF);

  std::array<Word, 8> state = kStart;
  for (std::size_t at = 0; at < padded.size(); at += 64)
    add_block(state, reinterpret_cast<const unsigned char*>(padded.data()) + at);
  std::array<std::uint8_t, 32> digest{};
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::string sha256_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::array<std::uint8_t, 32> digest = sha256(text);
  std::string out;
  for (std::size_t i = 0; i < digest.size(); i += 3) {
    const std::size_t have = digest.size() - i < 3 ? digest.size() - i : 3;
    Word bits = 0;
    for (std::size_t b = 0; b < 3; ++b) bits = bits << 8 | (b < have ? digest[i + b] : 0U);
    for (std::size_t d = 0; d < 4; ++d) out += d <= have ? kDigits[bits >> (18 - 6 * d) & 63] : '=';
  }
  return out;
}

}  // namespace fourfold
