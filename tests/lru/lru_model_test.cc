// The LRU list against std::list, and a GenerationalList against the same
// generations in plain containers, after random calls. A hit ratio hardly shows
// which generations were joined; the order of the elements after each
// call does.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/lru/generational_list.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/tests/testing/reference_generations.h"
#include "wheelcache/tests/testing/tape.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

using wheelcache::testing::ReferenceGenerations;

constexpr int kElements = 12;

struct Node {
  LruLinks<Node*> links;
};

struct Nodes {
  using Ref = Node*;
  LruLinks<Ref>& lru_links(Ref page) const { return page->links; }
  Ref at(int i) const { return &all[i]; }
  Node* all;
};

struct Indices {
  using Ref = uint32_t;
  LruLinks<Ref>& lru_links(Ref ref) const { return all[ref - 1]; }
  Ref at(int i) const { return static_cast<Ref>(i + 1); }
  LruLinks<Ref>* all;
};

// Each form of the list with elements of its own.
struct ByPointers {
  Node elements[kElements];
  Nodes store{elements};
  LruList<Nodes> list{store};
};

struct ByIndices {
  LruLinks<uint32_t> elements[kElements];
  Indices store{elements};
  LruList<Indices> list{store};
};

template <typename Form>
class LruListTest : public ::testing::Test {
 protected:
  using Ref = decltype(Form().store.at(0));

  // The elements from the most to the least recently used.
  std::vector<Ref> Order() {
    std::vector<Ref> order;
    for (Ref ref = list_.front(); ref != Ref{};
         ref = store_.lru_links(ref).older) {
      order.push_back(ref);
    }
    return order;
  }

  Ref at(int i) { return store_.at(i); }

  Form form_;
  decltype(form_.store)& store_ = form_.store;
  decltype(form_.list)& list_ = form_.list;
};

using Forms = ::testing::Types<ByPointers, ByIndices>;
TYPED_TEST_SUITE(LruListTest, Forms);

TYPED_TEST(LruListTest, AgreesWithStdListAfterRandomCalls) {
  using Ref = typename TestFixture::Ref;
  const std::vector<uint8_t> bytes =
      RandomBytes(TestSeed(), 2 * TestOperations());
  Tape tape(bytes);
  std::list<Ref> model;
  while (!tape.empty()) {
    const uint64_t call = tape.Below(200);
    const Ref ref = this->at(static_cast<int>(tape.Below(kElements)));
    const auto place = std::find(model.begin(), model.end(), ref);
    if (call == 0) {
      Ref taken = this->list_.TakeAll();
      for (; !model.empty(); taken = this->store_.lru_links(taken).older) {
        ASSERT_EQ(taken, model.front());
        model.pop_front();
      }
      ASSERT_EQ(taken, Ref{});
    } else if (place == model.end() && call < 80) {
      this->list_.PushFront(ref);
      model.push_front(ref);
    } else if (place == model.end() && !model.empty()) {
      const auto other =
          std::next(model.begin(), static_cast<int>(call % model.size()));
      if (call < 110) {
        this->list_.Substitute(*other, ref);
        *other = ref;
      } else {
        this->list_.InsertNewer(*other, ref);
        model.insert(other, ref);
      }
    } else if (place != model.end() && call < 140) {
      this->list_.Remove(ref);
      model.erase(place);
    } else if (place != model.end()) {
      this->list_.MoveToFront(ref);
      model.splice(model.begin(), model, place);
    }
    ASSERT_EQ(this->list_.empty(), model.empty());
    ASSERT_EQ(this->list_.back(), model.empty() ? Ref{} : model.back());
    ASSERT_TRUE(this->list_.CheckInvariants().ok());
    ASSERT_EQ(this->Order(), std::vector<Ref>(model.begin(), model.end()))
        << "repeat with WHEELCACHE_TEST_SEED=" << TestSeed();
  }
}

struct Page {
  LruLinks<uint32_t> links;
  uint32_t number = 0;
  bool in_list = false;
};

struct Pages {
  using Ref = uint32_t;
  LruLinks<Ref>& lru_links(Ref ref) const { return all[ref].links; }
  uint32_t number(Ref ref) const { return all[ref].number; }
  void set_number(Ref ref, uint32_t number) const { all[ref].number = number; }
  void Publish(uint32_t) const {}
  uint32_t Now() const { return 0; }
  Page* all;
};

// With so many parts.
template <typename Parts>
class GenerationalListModelTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kPages = 80;
  static constexpr uint32_t kParts = Parts::value;

  uint32_t Random(uint32_t below) { return random_() % below; }

  void PushOrUse(uint32_t page) {
    if (pages_[page].in_list) {
      pages_[page].number = list_.number();
      model_.Use(page);
      return;
    }
    pages_[page].in_list = true;
    list_.PushFront(page);
    model_.Append(page);
  }

  void Remove(uint32_t page) {
    if (!pages_[page].in_list) return;
    pages_[page].in_list = false;
    list_.Remove(page);
    model_.Remove(page);
  }

  void MoveToFront(uint32_t page) {
    if (!pages_[page].in_list) return;
    list_.MoveToFront(page);
    model_.Remove(page);
    model_.Append(page);
  }

  void Substitute(uint32_t page, uint32_t other) {
    if (!pages_[page].in_list || pages_[other].in_list) return;
    pages_[other].number = pages_[page].number;
    std::swap(pages_[page].in_list, pages_[other].in_list);
    list_.Substitute(page, other);
    model_.Substitute(page, other);
  }

  void TakeAll() {
    uint32_t taken = list_.TakeAll();
    const auto keys = model_.keys();
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
      ASSERT_EQ(taken, *key);
      taken = pages_[taken].links.older;
      pages_[*key].in_list = false;
    }
    ASSERT_EQ(taken, 0u);
    model_.Clear();
  }

  void FindOldest(uint64_t budget) {
    uint64_t left = budget;
    const uint32_t oldest = list_.FindOldest(&left);
    while (!model_.empty() && model_.OldestWasUsed() && budget > 0) {
      model_.MoveOldest();
      --budget;
    }
    ASSERT_EQ(left, budget);
    const bool found = !model_.empty() && !model_.OldestWasUsed();
    ASSERT_EQ(oldest, found ? model_.oldest() : 0u);
    if (oldest != 0 && Random(2) > 0) Remove(oldest);
  }

  // At times nothing leaves, so that the generations become too many; at times
  // hardly anything stays.
  void CallAtRandom() {
    if (Random(200) == 0) mood_ = Random(4);
    const uint32_t page = 1 + Random(kPages);
    if (Random(2'000) == 0) return TakeAll();
    if (mood_ == 1) return Random(2) == 0 ? MoveToFront(page) : PushOrUse(page);
    switch (Random(10)) {
      case 0:
        return Remove(page);
      case 1:
        return MoveToFront(page);
      case 2:
      case 3:
        return FindOldest(Random(5));
      case 4:
        return Substitute(page, 1 + Random(kPages));
      default:
        return mood_ == 2 ? Remove(page) : PushOrUse(page);
    }
  }

  void ExpectTheSame() {
    std::vector<uint64_t> order;
    for (uint32_t page = list_.back(); page != 0;
         page = pages_[page].links.newer) {
      order.push_back(page);
    }
    ASSERT_EQ(order, model_.keys());
    ASSERT_EQ(list_.size(), order.size());
    ASSERT_EQ(list_.empty(), order.empty());
    if (!order.empty()) {
      ASSERT_EQ(list_.BackWasUsed(), model_.OldestWasUsed());
    }
    ASSERT_TRUE(list_.CheckInvariants().ok()) << list_.CheckInvariants();
  }

  uint32_t mood_ = 0;
  std::mt19937 random_{static_cast<uint32_t>(TestSeed())};
  std::vector<Page> pages_ = std::vector<Page>(kPages + 1);
  using List = GenerationalList<Pages, kParts>;
  typename List::Generations generations_ = {};
  List list_{&generations_, Pages{pages_.data()}};
  ReferenceGenerations model_{kParts};
};

using Parts = ::testing::Types<std::integral_constant<uint32_t, 1>,
                               std::integral_constant<uint32_t, 4>,
                               std::integral_constant<uint32_t, 16>>;
TYPED_TEST_SUITE(GenerationalListModelTest, Parts);

TYPED_TEST(GenerationalListModelTest, GenerationsAreThoseOfTheModel) {
  size_t most_generations = 0;
  for (uint64_t i = 0; i < TestOperations(); ++i) {
    this->CallAtRandom();
    this->ExpectTheSame();
    if (this->HasFatalFailure()) {
      FAIL() << "after " << i << " calls, seed " << TestSeed();
    }
    most_generations = std::max(most_generations, this->model_.generations());
  }
  EXPECT_EQ(most_generations, 2 * TestFixture::kParts + 2);
}

}  // namespace
}  // namespace wheelcache
