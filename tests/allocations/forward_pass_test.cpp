// A forward pass after the first asks for no memory: this executable counts every operator new, and
// every aligned_alloc, which workspaces use.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "isa_check.h"
#include "layers/block_reference.h"
#include "models/bert.h"
#include "tiny_bert.h"

namespace {

std::atomic<std::size_t> allocations = 0;

void* counted(std::size_t size, std::size_t alignment) {
  allocations.fetch_add(1);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

void* counted_or_throw(std::size_t size, std::size_t alignment) {
  if (void* memory = counted(size, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return counted(size, alignment);
}

// The other forms of new and delete call these.
void* operator new(std::size_t size) {
  return counted_or_throw(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted_or_throw(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace fourfold {
namespace {

// How often work asks for memory.
template <class Work>
std::size_t count_allocations(const Work& work) {
  const std::size_t before = allocations.load();
  work();
  return allocations.load() - before;
}

TEST_CASE("the instruction set asked for runs") { check_isa_asked_for(); }

TEST_CASE("the counter counts") {
  CHECK(count_allocations([] { const std::vector<float> some(3); }) == 1);
  CHECK(count_allocations([] {}) == 0);
  Runtime runtime({.count = 1});
  CHECK(count_allocations([&] { (void)Workspace(runtime).take(5); }) >= 2);
}

TEST_CASE("a second forward pass of a block, also with save") {
  const AttentionOptions encoder{3, 3, 7, false, std::nullopt, 0};
  const AttentionOptions decoder{4, 2, 6, true, RotaryOptions{1000, 4, RotaryStyle::half_split}, 0};
  for (const BlockOrder order :
       {BlockOrder::post_norm, BlockOrder::pre_norm, BlockOrder::sandwich, BlockOrder::parallel})
    for (const bool gated : {false, true})
      for (const AttentionOptions& options : {encoder, decoder}) {
        CAPTURE(static_cast<int>(order));
        CAPTURE(gated);
        BlockKind kind{order, gated};
        if (gated) kind.activation = Activation::silu;
        const BlockSample sample(kind, options, 21, 53);
        const TransformerBlock block = sample.block();
        Runtime runtime({.count = 2});
        Workspace workspace(runtime);
        std::vector<float> x = real_values(std::size_t{73} * 21, 3);
        const std::vector<std::size_t> lengths{67, 5, 1}, shorter{29, 1, 11};
        BlockSaved saved;
        const auto pass = [&](const std::vector<std::size_t>& which, std::size_t tokens,
                              BlockSaved* save) {
          block.forward({x.data(), tokens, 21}, which, workspace, nullptr, save);
        };
        CHECK(count_allocations([&] { pass(lengths, 73, nullptr); }) > 0);
        CHECK(count_allocations([&] { pass(lengths, 73, nullptr); }) == 0);
        CHECK(count_allocations([&] { pass(shorter, 41, nullptr); }) == 0);
        pass(lengths, 73, &saved);
        CHECK(count_allocations([&] { pass(lengths, 73, &saved); }) == 0);
      }
}

TEST_CASE("a second forward pass of an encoder") {
  const testing::TempFolder folder;
  testing::TinyBert{}.write(folder);
  const auto model = BertEncoder::load(SafetensorsFile::open(folder.path() + "/model.safetensors"),
                                       read_model_config(folder.path()));
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::vector<std::int32_t> ids{2, 5, 3, 2, 7, 9, 3, 2, 3};
  const std::vector<std::size_t> lengths{3, 4, 2};
  std::vector<float> hidden(ids.size() * 6);
  const auto pass = [&] {
    model.forward(ids, lengths, Matrix(hidden.data(), ids.size(), 6), workspace);
  };
  CHECK(count_allocations(pass) > 0);
  CHECK(count_allocations(pass) == 0);
}

}  // namespace
}  // namespace fourfold
