// The LRU list, by pointers and by indices, against std::list.

#include "wheelcache/lru/lru_list.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/tests/testing/tape.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

constexpr int kElements = 12;

struct Page {
  LruLinks<Page*> links;
};

struct Pages {
  using Ref = Page*;
  LruLinks<Ref>& lru_links(Ref page) const { return page->links; }
  Ref at(int i) const { return &all[i]; }
  Page* all;
};

struct Indices {
  using Ref = uint32_t;
  LruLinks<Ref>& lru_links(Ref ref) const { return all[ref - 1]; }
  Ref at(int i) const { return static_cast<Ref>(i + 1); }
  LruLinks<Ref>* all;
};

// Each form of the list with elements of its own.
struct ByPointers {
  Page elements[kElements];
  Pages store{elements};
  LruList<Pages> list{store};
};

struct ByIndices {
  LruLinks<uint32_t> elements[kElements];
  Indices store{elements};
  LruList<Indices> list{store};
};

template <typename Form>
class LruListTest : public testing::Test {
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

  // Pushes elements 0 to count - 1: the last is the most recently used.
  void Push(int count) {
    for (int i = 0; i < count; ++i) list_.PushFront(at(i));
  }

  Ref at(int i) { return store_.at(i); }

  Form form_;
  decltype(form_.store)& store_ = form_.store;
  decltype(form_.list)& list_ = form_.list;
};

using Forms = testing::Types<ByPointers, ByIndices>;
TYPED_TEST_SUITE(LruListTest, Forms);

TYPED_TEST(LruListTest, EmptyListHasNoEnds) {
  using Ref = typename TestFixture::Ref;
  EXPECT_TRUE(this->list_.empty());
  EXPECT_EQ(this->list_.front(), Ref{});
  EXPECT_EQ(this->list_.back(), Ref{});
  this->Push(1);
  this->list_.Remove(this->at(0));
  EXPECT_TRUE(this->list_.empty());
  EXPECT_EQ(this->list_.back(), Ref{});
}

TYPED_TEST(LruListTest, BackIsTheLeastRecentlyUsed) {
  this->Push(3);
  EXPECT_EQ(this->list_.back(), this->at(0));
  this->list_.MoveToFront(this->at(0));
  EXPECT_EQ(this->list_.back(), this->at(1));
  this->list_.Remove(this->at(1));
  EXPECT_EQ(this->list_.back(), this->at(2));
  EXPECT_EQ(this->list_.front(), this->at(0));
}

TYPED_TEST(LruListTest, InsertionTakesThePlaceBeforeAnOlderElement) {
  for (int place = 0; place < 3; ++place) {
    this->Push(3);
    this->list_.InsertNewer(this->at(place), this->at(7));
    const auto order = this->Order();
    EXPECT_EQ(order[2 - place], this->at(7));
    EXPECT_EQ(order[3 - place], this->at(place));
    EXPECT_TRUE(this->list_.CheckInvariants().ok());
    this->list_.TakeAll();
  }
}

TYPED_TEST(LruListTest, ASubstituteTakesThePlaceOfTheOther) {
  this->Push(3);
  this->list_.Substitute(this->at(2), this->at(3));  // The front,
  this->list_.Substitute(this->at(1), this->at(4));  // the middle,
  this->list_.Substitute(this->at(0), this->at(5));  // and the back.
  EXPECT_EQ(this->Order(),
            (std::vector{this->at(3), this->at(4), this->at(5)}));
  EXPECT_EQ(this->list_.back(), this->at(5));
  EXPECT_TRUE(this->list_.CheckInvariants().ok());
}

TYPED_TEST(LruListTest, TakeAllLeavesAChainFromTheFrontToTheBack) {
  using Ref = typename TestFixture::Ref;
  this->Push(4);
  Ref ref = this->list_.TakeAll();
  EXPECT_TRUE(this->list_.empty());
  for (int i = 3; i >= 0; --i) {
    EXPECT_EQ(ref, this->at(i));
    ref = this->store_.lru_links(ref).older;
  }
  EXPECT_EQ(ref, Ref{});
  EXPECT_EQ(this->list_.TakeAll(), Ref{});
}

TYPED_TEST(LruListTest, CheckInvariantsFindsABrokenLink) {
  using Ref = typename TestFixture::Ref;
  this->Push(4);
  EXPECT_TRUE(this->list_.CheckInvariants().ok());
  for (const int i : {0, 1, 2, 3}) {
    auto& links = this->store_.lru_links(this->at(i));
    const auto intact = links;
    links.newer = this->at(9);
    EXPECT_FALSE(this->list_.CheckInvariants().ok()) << i;
    links = intact;
    links.older = i > 0 ? Ref{} : this->at(3);  // Too short, or a circle.
    EXPECT_FALSE(this->list_.CheckInvariants().ok()) << i;
    links = intact;
  }
}

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
      this->list_.TakeAll();
      model.clear();
    } else if (place == model.end() && call < 100) {
      this->list_.PushFront(ref);
      model.push_front(ref);
    } else if (place == model.end() && !model.empty()) {
      const Ref older = call % 2 == 0 ? model.back() : model.front();
      this->list_.InsertNewer(older, ref);
      model.insert(std::find(model.begin(), model.end(), older), ref);
    } else if (place != model.end() && call < 140) {
      this->list_.Remove(ref);
      model.erase(place);
    } else if (place != model.end()) {
      this->list_.MoveToFront(ref);
      model.splice(model.begin(), model, place);
    }
    ASSERT_TRUE(this->list_.CheckInvariants().ok());
    ASSERT_EQ(this->Order(), std::vector<Ref>(model.begin(), model.end()))
        << "repeat with WHEELCACHE_TEST_SEED=" << TestSeed();
  }
}

}  // namespace
}  // namespace wheelcache
