// The map shows every idea once and finds ideas by what people call them.
#include "learn/concept_map.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "fourfold/error.h"
#include "report/safe_text.h"
#include "report/text_table.h"

using namespace fourfold;

TEST_CASE("the tree holds every idea once, in lines that fit") {
  const std::string tree = concept_tree_text();
  for (const LessonConcept& idea : lesson().concepts) {
    CAPTURE(idea.id);
    const std::string mark = "[" + idea.id + "]";
    const std::size_t at = tree.find(mark);
    CHECK(at != std::string::npos);
    CHECK(tree.find(mark, at + 1) == std::string::npos);
  }
  std::istringstream lines(tree);
  for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= kTextWidth);
}

TEST_CASE("ideas are found by id, title, initials and part") {
  CHECK(find_concept("mixture-of-experts").id == "mixture-of-experts");
  CHECK(find_concept("Mixture of Experts").id == "mixture-of-experts");
  CHECK(find_concept("moe").id == "mixture-of-experts");
  CHECK(find_concept("SwiGLU").id == "swiglu");
  CHECK(find_concept("bert").id == "bert-base");
  CHECK_THROWS_WITH_AS(find_concept("norm"), doctest::Contains("layer-norm, "), Error);
  CHECK_THROWS_WITH_AS(find_concept("quark"), doctest::Contains("mixture-of-experts"), Error);
  CHECK_THROWS_AS(find_concept(""), Error);
}

TEST_CASE("an idea shows both ends of its links, its cards and sources") {
  const std::string text = concept_text(find_concept("router"));
  for (const char* part : {"Leads to", "[load-balance]", "Comes from", "[mixture-of-experts]",
                           "Cards", "Sources", "https://arxiv.org/abs/1701.06538"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}
