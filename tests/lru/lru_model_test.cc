// The LRU list against std::list, and the generations of a LazyLruList against
// the same ones in plain containers, after random calls. A hit ratio hardly
// shows which generations were merged; the order of the elements after each
// call does.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/lru/lazy_lru_list.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/tests/testing/tape.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

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

  Ref at(int i) { return store_.at(i); }

  Form form_;
  decltype(form_.store)& store_ = form_.store;
  decltype(form_.list)& list_ = form_.list;
};

using Forms = testing::Types<ByPointers, ByIndices>;
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
  uint32_t stamp = 0;
  bool in_list = false;
};

struct Pages {
  using Ref = uint32_t;
  LruLinks<Ref>& lru_links(Ref ref) const { return all[ref].links; }
  uint32_t stamp(Ref ref) const { return all[ref].stamp; }
  Page* all;
};

bool IsBefore(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) < 0;
}

// The youngest generation first, and in each the newest page.
class GenerationsModel {
 public:
  static constexpr size_t kMost = 16;

  explicit GenerationsModel(const std::vector<Page>* pages) : pages_(*pages) {}

  void PushFront(uint32_t page) {
    const uint32_t stamp = pages_[page].stamp;
    if (generations_.empty() ||
        !IsBefore(stamp, generations_[0].begin + ResolutionAt(stamp))) {
      if (generations_.size() == kMost) MergeShortestPair(stamp);
      generations_.insert(generations_.begin(), {stamp, {}});
    }
    Prepend(&generations_[0], page);
  }

  void Insert(uint32_t page) {
    if (generations_.empty() ||
        !IsBefore(pages_[page].stamp, generations_[0].begin + Resolution())) {
      PushFront(page);
    } else {
      Prepend(&generations_[GenerationOf(page)], page);
    }
  }

  void Remove(uint32_t page) {
    for (size_t i = 0; i < generations_.size(); ++i) {
      std::vector<uint32_t>& pages = generations_[i].pages;
      const auto place = std::find(pages.begin(), pages.end(), page);
      if (place == pages.end()) continue;
      pages.erase(place);
      if (pages.empty()) generations_.erase(generations_.begin() + i);
      return;
    }
    FAIL() << "page " << page << " is in no generation";
  }

  void Substitute(uint32_t page, uint32_t other) {
    for (Generation& generation : generations_) {
      std::replace(generation.pages.begin(), generation.pages.end(), page,
                   other);
    }
  }

  void Clear() { generations_.clear(); }

  // Whether a page of this stamp belongs to the oldest generation.
  bool IsOldest(uint32_t stamp) const {
    return generations_.size() == 1 ||
           IsBefore(stamp, generations_[generations_.size() - 2].begin);
  }

  uint32_t FindOldest(uint64_t* budget) {
    while (!generations_.empty()) {
      const uint32_t page = generations_.back().pages.back();
      const size_t generation = GenerationOf(page);
      if (generation + 1 == generations_.size()) return page;
      if (*budget == 0) return 0;
      --*budget;
      Remove(page);  // The generations that are younger keep their places.
      Prepend(&generations_[generation], page);
    }
    return 0;
  }

  uint32_t Resolution() const {
    return generations_.empty() ? 1 : ResolutionAt(generations_[0].begin);
  }

  std::vector<uint32_t> Order() const {
    std::vector<uint32_t> order;
    for (const Generation& generation : generations_) {
      order.insert(order.end(), generation.pages.begin(),
                   generation.pages.end());
    }
    return order;
  }

  size_t generations() const { return generations_.size(); }
  uint64_t merges() const { return merges_; }

 private:
  struct Generation {
    uint32_t begin;
    std::vector<uint32_t> pages;
  };

  static void Prepend(Generation* generation, uint32_t page) {
    generation->pages.insert(generation->pages.begin(), page);
  }

  uint32_t ResolutionAt(uint32_t now) const {
    return std::max<uint32_t>((now - generations_.back().begin) / kMost, 1);
  }

  // The youngest that began by the time of the page's stamp, else the oldest.
  size_t GenerationOf(uint32_t page) const {
    size_t i = 0;
    while (i + 1 < generations_.size() &&
           IsBefore(pages_[page].stamp, generations_[i].begin)) {
      ++i;
    }
    return i;
  }

  // Of those that span the same time, the youngest pair.
  void MergeShortestPair(uint32_t now) {
    size_t shortest = 0;
    std::vector<uint32_t> spans;
    for (size_t i = 0; i + 1 < generations_.size(); ++i) {
      const uint32_t end = i == 0 ? now : generations_[i - 1].begin;
      spans.push_back(end - generations_[i + 1].begin);
      if (spans[i] < spans[shortest]) shortest = i;
    }
    std::vector<uint32_t>& younger = generations_[shortest].pages;
    std::vector<uint32_t>& older = generations_[shortest + 1].pages;
    older.insert(older.begin(), younger.begin(), younger.end());
    generations_.erase(generations_.begin() + shortest);
    ++merges_;
  }

  const std::vector<Page>& pages_;
  std::vector<Generation> generations_;
  uint64_t merges_ = 0;
};

class LazyLruListModelTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kPages = 80;

  uint32_t Random(uint32_t below) { return random_() % below; }

  // Mostly a little: generations of very different lengths come about.
  void LetTimePass() {
    now_ += Random(4) > 0   ? Random(3)
            : Random(2) > 0 ? Random(40)
                            : Random(900);
  }

  void PushOrUse(uint32_t page) {
    pages_[page].stamp = now_;
    if (pages_[page].in_list) return;
    pages_[page].in_list = true;
    list_.PushFront(page);
    model_.PushFront(page);
  }

  // As of an earlier time.
  void Insert(uint32_t page) {
    if (pages_[page].in_list) return;
    pages_[page].stamp = now_ - Random(1'000);
    pages_[page].in_list = true;
    list_.Insert(page);
    model_.Insert(page);
  }

  void Remove(uint32_t page) {
    if (!pages_[page].in_list) return;
    pages_[page].in_list = false;
    list_.Remove(page);
    model_.Remove(page);
  }

  void MoveToFront(uint32_t page) {
    if (!pages_[page].in_list) return;
    pages_[page].stamp = now_;
    list_.MoveToFront(page);
    model_.Remove(page);
    model_.PushFront(page);
  }

  void Substitute(uint32_t page, uint32_t other) {
    if (!pages_[page].in_list || pages_[other].in_list) return;
    pages_[other].stamp = pages_[page].stamp;
    std::swap(pages_[page].in_list, pages_[other].in_list);
    list_.Substitute(page, other);
    model_.Substitute(page, other);
  }

  void TakeAll() {
    uint32_t taken = list_.TakeAll();
    for (const uint32_t page : model_.Order()) {
      ASSERT_EQ(taken, page);
      taken = pages_[page].links.older;
      pages_[page].in_list = false;
    }
    ASSERT_EQ(taken, 0u);
    model_.Clear();
  }

  void FindOldest(uint64_t budget) {
    uint64_t models_budget = budget;
    const uint64_t at_first = budget;
    uint64_t moved = 0;
    const uint32_t oldest =
        list_.FindOldest(&budget, [&](uint32_t) { ++moved; });
    ASSERT_EQ(oldest, model_.FindOldest(&models_budget));
    ASSERT_EQ(budget, models_budget);
    ASSERT_EQ(moved, at_first - budget);
    if (oldest != 0 && Random(2) > 0) Remove(oldest);
  }

  // At times nothing leaves, so that the generations become too many.
  void CallAtRandom() {
    if (Random(200) == 0) grows_ = !grows_;
    const uint32_t page = 1 + Random(kPages);
    if (Random(2'000) == 0) return TakeAll();
    switch (grows_ ? 1 + 3 * Random(2) : Random(10)) {
      case 0:
        return Remove(page);
      case 1:
        return MoveToFront(page);
      case 2:
      case 3:
        return FindOldest(Random(5));
      case 8:
        return Insert(page);
      case 9:
        return Substitute(page, 1 + Random(kPages));
      default:
        return PushOrUse(page);
    }
  }

  void ExpectTheSame() {
    std::vector<uint32_t> order;
    for (uint32_t page = list_.front(); page != 0;
         page = pages_[page].links.older) {
      order.push_back(page);
    }
    ASSERT_EQ(order, model_.Order());
    ASSERT_EQ(list_.Resolution(), model_.Resolution());
    ASSERT_EQ(list_.empty(), order.empty());
    if (!order.empty()) {
      const uint32_t stamp = pages_[order[Random(order.size())]].stamp;
      ASSERT_EQ(list_.IsOldest(stamp), model_.IsOldest(stamp));
    }
    ASSERT_TRUE(list_.CheckInvariants().ok()) << list_.CheckInvariants();
  }

  bool grows_ = false;
  std::mt19937 random_{static_cast<uint32_t>(TestSeed())};
  uint32_t now_ = uint32_t{0} - 10'000;  // Stamps wrap around.
  std::vector<Page> pages_ = std::vector<Page>(kPages + 1);
  LazyLruList<Pages> list_{Pages{pages_.data()}};
  GenerationsModel model_{&pages_};
};

TEST_F(LazyLruListModelTest, GenerationsAreOpenedMergedAndClosedAsInTheModel) {
  size_t most_generations = 0;
  for (uint64_t i = 0; i < TestOperations(); ++i) {
    LetTimePass();
    CallAtRandom();
    ExpectTheSame();
    if (HasFatalFailure()) {
      FAIL() << "after " << i << " calls, seed " << TestSeed();
    }
    most_generations = std::max(most_generations, model_.generations());
  }
  EXPECT_EQ(most_generations, GenerationsModel::kMost);
  EXPECT_GT(model_.merges(), TestOperations() / 1000);
}

}  // namespace
}  // namespace wheelcache
