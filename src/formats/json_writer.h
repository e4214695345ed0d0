// The one JSON writer: locale-free numbers, NaN and Inf as null, and "<" escaped so that the text
// may sit inside HTML.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace fourfold {

class JsonWriter {
 public:
  explicit JsonWriter(bool pretty = true) : pretty_(pretty) {}

  JsonWriter& begin_object();
  JsonWriter& end_object();
  // one_line: a short row of numbers stays on its line, and so does all inside it.
  JsonWriter& begin_array(bool one_line = false);
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);  // invalid UTF-8 becomes U+FFFD
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag);
  JsonWriter& value(double number);  // shortest text that reads back to the same double
  JsonWriter& value(float number);
  JsonWriter& value(std::integral auto number) {
    if constexpr (std::is_signed_v<decltype(number)>)
      return integer(static_cast<std::int64_t>(number));
    else
      return natural(static_cast<std::uint64_t>(number));
  }
  JsonWriter& null();

  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  // The finished text with a final newline; the writer is empty afterwards.
  std::string take();

 private:
  JsonWriter& integer(std::int64_t number);
  JsonWriter& natural(std::uint64_t number);
  JsonWriter& raw(std::string_view text);
  JsonWriter& begin(bool array, bool one_line);
  JsonWriter& end(bool array);
  void quote(std::string_view text);
  void separate();
  void new_line();

  struct Level {
    bool array, one_line, empty;
  };
  std::string text_;
  std::vector<Level> levels_;
  bool pretty_, after_key_ = false;
};

}  // namespace fourfold
