// The caller's floating-point state changes no result of a tool, and is put back.
#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>
#include <string>
#include <vector>

#include "fourfold/error.h"
#include "fourfold/tools.h"
#include "tiny_bert.h"

using fourfold::testing::TempFolder;
using fourfold::testing::TinyBert;

namespace {

float some_value(std::uint64_t k) {
  return 0.4F * static_cast<float>(std::sin(0.7 * static_cast<double>(k * k % 101) + 0.1));
}

struct Results {
  std::vector<float> embedding, trace;
  double energy;
  bool operator==(const Results&) const = default;
};

Results run(const std::string& model) {
  fourfold::Runtime runtime({.count = 2});
  fourfold::Workspace workspace(runtime);
  const std::vector<std::string> texts{"a b c d e", "a"};
  fourfold::ProfileOptions options;
  options.text = "a b c d e a a b";
  fourfold::EmbedOptions normalized;
  normalized.normalize = true;
  const auto profile = fourfold::profile_model(model, options, workspace);
  return {fourfold::embed_texts(model, texts, normalized, workspace).values,
          fourfold::trace_model(model, {.layer = 1, .token = 2, .text = "a b c"}, workspace)
              .steps.back()
              .values,
          profile.layers[1].statistics.top_neurons[0].mean_energy};
}

}  // namespace

TEST_CASE("tools give the same bits whatever the caller's rounding mode") {
  const TempFolder folder;
  TinyBert{}.write(folder, {}, some_value);
  const Results nearest = run(folder.path());
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const Results other = run(folder.path());
    const int left = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK(left == mode);
    CHECK(other == nearest);
  }
}

TEST_CASE("a workspace is usable after a profile that failed") {
  const TempFolder folder;
  TinyBert{}.write(folder, {}, some_value);
  fourfold::Runtime runtime({.count = 2});
  fourfold::Workspace workspace(runtime);
  fourfold::ProfileOptions options;
  options.ids = std::vector<std::int32_t>(30, 5);
  (*options.ids)[25] = 99;
  options.seq_len = 7;
  CHECK_THROWS_AS(fourfold::profile_model(folder.path(), options, workspace), fourfold::Error);
  CHECK(workspace.clock == nullptr);
  CHECK(fourfold::trace_tiny_example(workspace).steps.size() == 5);
}
