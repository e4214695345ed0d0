#include "tools/text_windows.h"

#include <doctest/doctest.h>

#include <numeric>

#include "fourfold/error.h"
#include "tiny_bert.h"

using fourfold::ProfileOptions;
using fourfold::testing::TempFolder;
using fourfold::testing::TinyBert;

namespace {

struct Loaded {
  TempFolder folder;
  fourfold::LoadedEncoder model = [this] {
    TinyBert{}.write(folder);
    return fourfold::load_encoder(folder.path());
  }();
};

ProfileOptions with_ids(std::size_t count) {
  ProfileOptions options;
  options.ids.emplace(count);
  std::iota(options.ids->begin(), options.ids->end(), 0);
  for (auto& id : *options.ids) id = 5 + id % 7;
  options.seq_len = 7;  // five of the text
  return options;
}

}  // namespace

TEST_CASE("windows are consecutive, the last may be shorter, each gets the added tokens") {
  const Loaded loaded;
  const ProfileOptions options = with_ids(13);
  const auto text = fourfold::cut_text(loaded.model, options);
  REQUIRE(text.windows.size() == 3);
  CHECK(text.windows[1].first == 5);
  CHECK(text.windows[1].full);
  CHECK(text.windows[2].count == 3);
  CHECK_FALSE(text.windows[2].full);
  CHECK(text.counted_positions.size() == 13);
  CHECK(text.counted_positions.back() == 12);
  const auto batches = fourfold::make_batches(text, loaded.model.tokenizer, options);
  REQUIRE(batches.size() == 3);
  CHECK(batches[0].ids == std::vector<std::int32_t>{2, 5, 6, 7, 8, 9, 3});
  CHECK(batches[0].counted == std::vector<char>{0, 1, 1, 1, 1, 1, 0});
  CHECK(batches[0].full);
  CHECK_FALSE(batches[2].full);
}

TEST_CASE("counted added tokens have no position in the text") {
  const Loaded loaded;
  ProfileOptions options = with_ids(6);
  options.count_special = true;
  const auto text = fourfold::cut_text(loaded.model, options);
  CHECK(text.counted_positions == std::vector<std::int64_t>{-1, 0, 1, 2, 3, 4, -2, -1, 5, -2});
}

TEST_CASE("max-tokens bounds the counted tokens") {
  const Loaded loaded;
  ProfileOptions options = with_ids(40);
  options.max_tokens = 12;
  CHECK(fourfold::cut_text(loaded.model, options).counted_positions.size() == 12);
  options.count_special = true;
  CHECK(fourfold::cut_text(loaded.model, options).counted_positions.size() == 12);
}

TEST_CASE("a batch is timed only when all its windows are full and none is missing") {
  const Loaded loaded;
  ProfileOptions options = with_ids(25);
  options.batch = 2;
  const auto batches = fourfold::make_batches(fourfold::cut_text(loaded.model, options),
                                              loaded.model.tokenizer, options);
  REQUIRE(batches.size() == 3);
  CHECK(batches[1].lengths == std::vector<std::size_t>{7, 7});
  CHECK(batches[1].full);
  CHECK_FALSE(batches[2].full);
}

TEST_CASE("a text shorter than a window is timed as it is") {
  const Loaded loaded;
  const ProfileOptions options = with_ids(3);
  const auto batches = fourfold::make_batches(fourfold::cut_text(loaded.model, options),
                                              loaded.model.tokenizer, options);
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].full);
}

TEST_CASE("options without sense are refused") {
  const Loaded loaded;
  const auto refused = [&](auto change) {
    ProfileOptions options = with_ids(9);
    change(options);
    CHECK_THROWS_AS(fourfold::cut_text(loaded.model, options), fourfold::Error);
  };
  refused([](ProfileOptions& o) { o.seq_len = 2; });
  refused([](ProfileOptions& o) { o.seq_len = 18; });
  refused([](ProfileOptions& o) { o.batch = 0; });
  refused([](ProfileOptions& o) { o.max_tokens = 0; });
  refused([](ProfileOptions& o) { o.ids->clear(); });
}
