// Commas and line breaks come before a key or value, so that an open container knows only whether
// it is still empty.
#include "formats/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/check.h"
#include "formats/utf8.h"

namespace fourfold {

void JsonWriter::new_line() {
  text_ += '\n';
  text_.append(2 * levels_.size(), ' ');
}

void JsonWriter::separate() {
  if (std::exchange(after_key_, false) || levels_.empty()) return;
  Level& level = levels_.back();
  const bool first = std::exchange(level.empty, false);
  if (!first) text_ += ',';
  if (!pretty_) return;
  if (!level.one_line) {
    new_line();
  } else if (!first) {
    text_ += ' ';
  }
}

JsonWriter& JsonWriter::begin(bool array, bool one_line) {
  separate();
  const bool inherited = !levels_.empty() && levels_.back().one_line;
  levels_.push_back({array, one_line || inherited, true});
  text_ += array ? '[' : '{';
  return *this;
}

JsonWriter& JsonWriter::end([[maybe_unused]] bool array) {
  FOURFOLD_DCHECK(!levels_.empty() && levels_.back().array == array && !after_key_);
  const Level level = levels_.back();
  levels_.pop_back();
  if (pretty_ && !level.one_line && !level.empty) new_line();
  text_ += level.array ? ']' : '}';
  return *this;
}

JsonWriter& JsonWriter::begin_object() { return begin(false, false); }
JsonWriter& JsonWriter::end_object() { return end(false); }
JsonWriter& JsonWriter::begin_array(bool one_line) { return begin(true, one_line); }
JsonWriter& JsonWriter::end_array() { return end(true); }

JsonWriter& JsonWriter::key(std::string_view name) {
  FOURFOLD_DCHECK(!levels_.empty() && !levels_.back().array && !after_key_);
  separate();
  quote(name);
  text_ += pretty_ ? ": " : ":";
  after_key_ = true;
  return *this;
}

void JsonWriter::quote(std::string_view text) {
  text_ += '"';
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    if (!step.valid) {
      text_ += "\xEF\xBF\xBD";
    } else if (step.code == '"' || step.code == '\\') {
      text_ += '\\';
      text_ += text[at];
    } else if (step.code == '\n') {
      text_ += "\\n";
    } else if (step.code == '\t') {
      text_ += "\\t";
    } else if (step.code == '<' || is_control(step.code)) {
      text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(step.code));
    } else {
      text_.append(text.substr(at, step.length));
    }
    at += step.length;
  }
  text_ += '"';
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  separate();
  text_ += text;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) { return raw(flag ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::value(double number) {
  return std::isfinite(number) ? raw(fmt::format("{}", number)) : null();
}

JsonWriter& JsonWriter::value(float number) {
  return std::isfinite(number) ? raw(fmt::format("{}", number)) : null();
}

JsonWriter& JsonWriter::integer(std::int64_t number) { return raw(fmt::format("{}", number)); }
JsonWriter& JsonWriter::natural(std::uint64_t number) { return raw(fmt::format("{}", number)); }

std::string JsonWriter::take() {
  FOURFOLD_DCHECK(levels_.empty() && !after_key_);
  levels_.clear();
  after_key_ = false;
  text_ += '\n';
  return std::exchange(text_, {});
}

}  // namespace fourfold
