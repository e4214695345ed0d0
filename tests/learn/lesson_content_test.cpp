// The lesson's data file: everything has a source, every link leads somewhere, nothing is missing.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "fourfold/learn.h"

using namespace fourfold;

namespace {

std::set<std::string> source_ids() {
  std::set<std::string> ids;
  for (const LessonSource& source : lesson().sources) ids.insert(source.id);
  return ids;
}

std::set<std::string> concept_ids() {
  std::set<std::string> ids;
  for (const LessonConcept& idea : lesson().concepts) ids.insert(idea.id);
  return ids;
}

template <class Entries, class Id>
void check_unique(const Entries& entries, Id id) {
  std::set<std::string> seen;
  for (const auto& entry : entries) {
    CAPTURE(id(entry));
    CHECK(!id(entry).empty());
    CHECK(seen.insert(id(entry)).second);
  }
}

// Everything that states a fact names at least one source, each of them known and named once.
template <class Entries, class Id>
void check_sources(const Entries& entries, Id id, std::set<std::string>& used) {
  const std::set<std::string> known = source_ids();
  for (const auto& entry : entries) {
    CAPTURE(id(entry));
    CHECK(!entry.sources.empty());
    std::set<std::string> own;
    for (const std::string& source : entry.sources) {
      CAPTURE(source);
      CHECK(known.count(source) == 1);
      CHECK(own.insert(source).second);
      used.insert(source);
    }
  }
}

}  // namespace

TEST_CASE("ids are unique") {
  check_unique(lesson().sources, [](const LessonSource& one) { return one.id; });
  check_unique(lesson().concepts, [](const LessonConcept& one) { return one.id; });
  check_unique(lesson().cards, [](const LessonCard& one) { return one.id; });
  check_unique(lesson().claims, [](const LessonClaim& one) { return one.name; });
  check_unique(lesson().mistakes, [](const LessonMistake& one) { return one.id; });
  check_unique(lesson().choices, [](const LessonChoice& one) { return one.id; });
  check_unique(lesson().choices, [](const LessonChoice& one) { return one.question; });
}

TEST_CASE("every entry has its sources, every source is used") {
  std::set<std::string> used{"wozniak1990"};  // of the schedule
  check_sources(
      lesson().explanations, [](const LessonExplanation& one) { return one.level; }, used);
  check_sources(
      lesson().concepts, [](const LessonConcept& one) { return one.id; }, used);
  check_sources(
      lesson().cards, [](const LessonCard& one) { return one.id; }, used);
  check_sources(
      lesson().claims, [](const LessonClaim& one) { return one.name; }, used);
  check_sources(
      lesson().mistakes, [](const LessonMistake& one) { return one.id; }, used);
  check_sources(
      lesson().choices, [](const LessonChoice& one) { return one.id; }, used);
  CHECK(used == source_ids());
}

TEST_CASE("a source is a paper with an address or a computation with its arithmetic") {
  for (const LessonSource& source : lesson().sources) {
    CAPTURE(source.id);
    CHECK(source.text.size() > 20);
    const bool computed = source.id.rfind("computed-", 0) == 0;
    CHECK((source.text.rfind("computed", 0) == 0) == computed);
    CHECK((source.url.rfind("https://", 0) == 0) == !computed);
  }
}

TEST_CASE("links of concepts and cards resolve, and all concepts hang together") {
  const std::set<std::string> known = concept_ids();
  for (const LessonConcept& idea : lesson().concepts) {
    CAPTURE(idea.id);
    CHECK(!idea.text.empty());
    for (const std::string& link : idea.links) {
      CAPTURE(link);
      CHECK(known.count(link) == 1);
      CHECK(link != idea.id);
    }
  }
  for (const LessonCard& card : lesson().cards) {
    CAPTURE(card.id);
    CHECK(!card.concepts.empty());
    for (const std::string& id : card.concepts) CHECK(known.count(id) == 1);
  }
  std::set<std::string> reached{"ffn"};
  for (std::size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const LessonConcept& idea : lesson().concepts)
      if (reached.count(idea.id) == 1) reached.insert(idea.links.begin(), idea.links.end());
  }
  CHECK(reached == known);
}

TEST_CASE("every claim of the lesson is there, with a card of its own") {
  const std::vector<std::string> names{"four-x-ratio",
                                       "relu-sparsity",
                                       "dead-neurons",
                                       "activation-quality",
                                       "glu-savings",
                                       "position-wise",
                                       "two-thirds",
                                       "block-order",
                                       "moe-leverage",
                                       "modern-ratios",
                                       "universal-approximation",
                                       "wide-gradients",
                                       "layer-vs-batch-norm",
                                       "gelu-near-zero",
                                       "expert-specialisation",
                                       "attention-needs-ffn"};
  REQUIRE(lesson().claims.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const LessonClaim& claim = lesson().claims[i];
    CAPTURE(names[i]);
    CHECK(claim.name == names[i]);
    CHECK(!claim.claim.empty());
    CHECK(!claim.what_literature_says.empty());
    CHECK(!claim.how_to_test.empty());
    CHECK(!claim.verdict.empty());
    CHECK(std::count_if(lesson().cards.begin(), lesson().cards.end(), [&](const LessonCard& card) {
            return card.id == "claim-" + names[i];
          }) == 1);
  }
}

TEST_CASE("the questions that a learner must be able to answer have cards") {
  for (const char* id :
       {"what-is-the-ffn", "why-expand", "formula", "why-position-wise", "parameter-share",
        "relu-to-gelu-to-silu", "ffn-or-mlp", "what-is-a-glu", "what-is-moe",
        "layer-norm-or-batch-norm", "why-residual", "what-is-universal", "router-balance",
        "total-or-active", "pre-or-post-ln", "near-zero-activations"}) {
    CAPTURE(id);
    CHECK(std::any_of(lesson().cards.begin(), lesson().cards.end(),
                      [&](const LessonCard& card) { return card.id == id; }));
  }
}

TEST_CASE("explanations at three levels, two mistakes, choices with one right option of four") {
  REQUIRE(lesson().explanations.size() == 3);
  CHECK(lesson().explanations[0].level == "engineer");
  CHECK(lesson().explanations[1].level == "twelve");
  CHECK(lesson().explanations[2].level == "hinglish");
  for (const LessonExplanation& one : lesson().explanations) CHECK(one.paragraphs.size() >= 3);
  CHECK(lesson().mistakes.size() == 2);
  CHECK(lesson().choices.size() >= 25);
  for (const LessonChoice& choice : lesson().choices) {
    CAPTURE(choice.id);
    CHECK(choice.options.size() == 4);
    CHECK(choice.answer < 4);
    CHECK(std::set<std::string>(choice.options.begin(), choice.options.end()).size() == 4);
    CHECK(choice.explanation.size() > 10);
  }
}

TEST_CASE("the file is plain ASCII, so it shows everywhere") {
  CHECK(std::all_of(lesson_json().begin(), lesson_json().end(), [](char letter) {
    return letter == '\n' || (letter >= ' ' && letter <= '~');
  }));
  CHECK(lesson_json().find("\"schema\": \"fourfold.lesson/1\"") != std::string_view::npos);
}
