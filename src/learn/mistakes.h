// The two common mistakes about the sublayer, made on purpose with the library's own layers, so
// that they can be seen to fail.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fourfold/runtime.h"

namespace fourfold {

// "It is just an ordinary network over the whole input": one FFN on each of 3 tokens against one
// network over all 3 tokens at once, with tokens shuffled, one token changed, one token more.
struct FlattenedRun {
  static constexpr std::size_t kTokens = 3, kModel = 4;
  using Tokens = std::array<std::array<float, kModel>, kTokens>;

  Tokens x{};
  std::array<std::size_t, kTokens> order{};  // of the shuffled tokens
  Tokens alone{}, alone_shuffled{};          // FFN of x; of the shuffled x, put back in order
  Tokens flat{}, flat_shuffled{};            // the same for the flattened network
  float alone_shuffle_change = 0, flat_shuffle_change = 0;  // largest difference
  // Largest change at token 0 when token 2 changes.
  float alone_leak = 0, flat_leak = 0;
  std::uint64_t alone_parameters = 0, flat_parameters = 0;
  std::string one_token_more;  // what the flattened network says to 4 tokens
};

// "The 4x is arbitrary": the same task for widths from half of d_model to 16 times. The hidden
// layer is random, the output layer the best one for 1,024 tokens, the error that on 1,024 others.
struct RatioRow {
  double ratio = 0;
  std::uint64_t d_ff = 0, parameters = 0, macs = 0;
  double layer_factor = 0;            // weights of a whole layer against ratio 4: (4 + 2r) / 12
  std::size_t output_dimensions = 0;  // rank of y - b2 over the tokens
  double error = 0, least_error = 0, most_error = 0;  // ||y - target|| / ||target||: mean, range
};
struct RatioRun {
  std::uint64_t d_model = 0, tokens = 0, seeds = 0;
  std::vector<RatioRow> rows;
};

FlattenedRun run_flattened_mistake(Workspace& workspace);
RatioRun run_ratio_mistake(Workspace& workspace);

// Both runs with what they show. Schema fourfold.learn-mistakes/1.
std::string mistakes_text(const FlattenedRun& flattened, const RatioRun& ratio);
std::string mistakes_json(const FlattenedRun& flattened, const RatioRun& ratio);

}  // namespace fourfold
