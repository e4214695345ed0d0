#include "tools/text_windows.h"

#include <algorithm>

#include "base/check.h"

namespace fourfold {

TextWindows cut_text(const LoadedEncoder& model, const ProfileOptions& options) {
  const ModelConfig& config = model.encoder.config();
  const std::uint64_t added = model.tokenizer.added_tokens();
  TextWindows text;
  text.seq_len = options.seq_len.value_or(std::min<std::uint64_t>(512, config.max_positions));
  FOURFOLD_CHECK(text.seq_len > added && text.seq_len <= config.max_positions, invalid_argument,
                 "seq-len is " + std::to_string(text.seq_len) + ", expected " +
                     std::to_string(added + 1) + " to " + std::to_string(config.max_positions) +
                     " (the model's positions, " + std::to_string(added) +
                     " of them for added tokens)");
  FOURFOLD_CHECK(options.batch >= 1 && options.batch <= 65536, invalid_argument,
                 "batch is " + std::to_string(options.batch) + ", expected 1 to 65536");
  FOURFOLD_CHECK(options.max_tokens >= 1, invalid_argument, "max-tokens is 0, expected at least 1");
  text.ids = options.ids ? *options.ids : model.tokenizer.encode(options.text);
  FOURFOLD_CHECK(!text.ids.empty(), invalid_argument,
                 options.text_name + ": the text has no tokens to profile");

  for (std::size_t i = 0; options.ids && i < text.ids.size(); ++i)
    FOURFOLD_CHECK(text.ids[i] >= 0 && static_cast<std::uint64_t>(text.ids[i]) < config.vocab_size,
                   invalid_argument,
                   options.text_name + ": token id " + std::to_string(text.ids[i]) + " (number " +
                       std::to_string(i) + " of the list) is outside the vocabulary of " +
                       std::to_string(config.vocab_size));
  text.total = text.ids.size();
  const std::size_t room = text.seq_len - added;
  std::uint64_t left = options.max_tokens;
  for (std::size_t first = 0; first < text.ids.size() && left > 0;) {
    std::size_t count = std::min(room, text.ids.size() - first);
    const std::uint64_t extra = options.count_special ? added : 0;
    if (left < count + extra) count = left > extra ? static_cast<std::size_t>(left - extra) : 0;
    if (count == 0) break;
    text.windows.push_back({first, count, count == room});
    if (options.count_special) text.counted_positions.push_back(TextWindows::kAddedFront);
    for (std::size_t i = 0; i < count; ++i)
      text.counted_positions.push_back(static_cast<std::int64_t>(first + i));
    if (options.count_special) text.counted_positions.push_back(TextWindows::kAddedBack);
    first += count;
    left -= std::min<std::uint64_t>(left, count + extra);
  }
  FOURFOLD_CHECK(!text.windows.empty(), invalid_argument,
                 "max-tokens is " + std::to_string(options.max_tokens) +
                     ", too few for one window with its " + std::to_string(added) +
                     " counted added tokens");
  text.ids.resize(text.windows.back().first + text.windows.back().count);
  return text;
}

std::vector<WindowBatch> make_batches(const TextWindows& text, const WordPieceTokenizer& tokenizer,
                                      const ProfileOptions& options) {
  std::vector<WindowBatch> batches;
  for (std::size_t first = 0; first < text.windows.size(); first += options.batch) {
    WindowBatch batch;
    const std::size_t last = std::min<std::size_t>(text.windows.size(), first + options.batch);
    batch.full = last - first == options.batch;
    for (std::size_t w = first; w < last; ++w) {
      const auto& window = text.windows[w];
      const auto begin = text.ids.begin() + static_cast<std::ptrdiff_t>(window.first);
      const std::vector<std::int32_t> ids =
          tokenizer.with_added_tokens({begin, begin + static_cast<std::ptrdiff_t>(window.count)});
      batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
      batch.lengths.push_back(ids.size());
      // [CLS] text [SEP]
      batch.counted.push_back(options.count_special ? 1 : 0);
      batch.counted.insert(batch.counted.end(), window.count, 1);
      batch.counted.push_back(options.count_special ? 1 : 0);
      batch.full = batch.full && window.full;
    }
    batches.push_back(std::move(batch));
  }
  // A text shorter than one full pass is timed as it is.
  if (std::none_of(batches.begin(), batches.end(),
                   [](const WindowBatch& batch) { return batch.full; }))
    batches.front().full = true;
  return batches;
}

}  // namespace fourfold
