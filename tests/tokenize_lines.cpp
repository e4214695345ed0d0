// Test program: reads one JSON string per line on standard input, prints its token ids as one JSON
// array per line. The one argument is the model folder. Exit 3: the tokenizer cannot be opened; 2:
// a line is not a JSON string.
#include <simdjson.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

#include "fourfold/error.h"
#include "models/tokenizer_wordpiece.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: tokenize_lines MODEL_FOLDER < lines\n", stderr);
    return 2;
  }
  try {
    const auto tokenizer = fourfold::WordPieceTokenizer::open(argv[1]);
    simdjson::dom::parser parser;
    std::string line, out;
    while (std::getline(std::cin, line)) {
      std::string_view text;
      if (parser.parse(line).get(text)) {
        std::fputs("a line is not a JSON string\n", stderr);
        return 2;
      }
      out.assign(1, '[');
      for (const auto id : tokenizer.encode(text)) {
        if (out.size() > 1) out += ',';
        out += std::to_string(id);
      }
      out += "]\n";
      std::fwrite(out.data(), 1, out.size(), stdout);
    }
  } catch (const fourfold::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  return 0;
}
