// Text from files made safe to show: control and direction characters become visible escapes,
// invalid UTF-8 becomes U+FFFD, widths are terminal columns (a wide character counts 2, a combining
// mark 0).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fourfold {

// One line of valid UTF-8 without control, direction or unassigned characters: "\n", "\x1B",
// "\u202E".
std::string visible_text(std::string_view text);

// Columns of a text that went through visible_text.
std::size_t display_width(std::string_view text);

enum class Keep { start, end };

// At most `columns` columns, with an ellipsis where something was left out. `text` went through
// visible_text.
std::string shorten(std::string_view text, std::size_t columns, Keep keep = Keep::start);

// Breaks at spaces (inside words only when one is longer than the line). Every line ends with '\n';
// lines after the first start with `indent` spaces, and the first is taken to start there already.
// Makes the text visible itself.
std::string wrap_text(std::string_view text, std::size_t width, std::size_t indent);

// visible_text, shortened to `columns`, with &, <, >, " and ' as entities: fits element content and
// quoted attributes.
std::string html_text(std::string_view text, std::size_t columns = 400);

// JSON text for a <script> element: "<" and every character that visible_text hides become \uXXXX,
// so the JSON still reads back to the same strings. Line breaks between its values stay.
std::string script_text(std::string_view json);

}  // namespace fourfold
