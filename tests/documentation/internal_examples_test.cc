// The examples that the library shows those who change it, each in a frame that
// supplies what is theirs. documentation_test.cc compares them with the
// headers.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/advice/reuse_sample.h"
#include "wheelcache/cache/internal/advice/use_ranks.h"
#include "wheelcache/cache/internal/engine/admission.h"
#include "wheelcache/cache/internal/engine/advisor.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/engine_registry.h"
#include "wheelcache/cache/internal/engine/iteration.h"
#include "wheelcache/cache/internal/engine/limits.h"
#include "wheelcache/cache/internal/engine/typed_engine.h"
#include "wheelcache/cache/internal/engine/window_target.h"
#include "wheelcache/cache/internal/entry/age.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/cache/internal/loads/refresh_board.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/cache/internal/memory/huge_pages.h"
#include "wheelcache/cache/internal/memory/page_release.h"
#include "wheelcache/cache/internal/memory/zero_pages.h"
#include "wheelcache/cache/internal/status/advice.h"
#include "wheelcache/cache/internal/status/format.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/wheel/base/at_fork.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

class Queue {
 public:
  void Add() {
    MutexLock lock(&mu_);
    ++size_;
  }

  int size() {
    MutexLock lock(&mu_);
    return size_;
  }

 private:
  friend class internal::ForkRegistration;
  void BeforeFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_) { mu_.LockAmongMany(); }
  void AfterForkInParent() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockAmongMany(); }
  void AfterForkInChild() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockInChild(); }

  Mutex mu_;
  int size_ ABSL_GUARDED_BY(mu_) = 0;
  internal::ForkRegistration fork_registration_{this};  // The last member.
};

TEST(InternalExamples, UseRanks) {
  using internal::UseRanks;
  UseRanks ranks;
  const uint32_t first = ranks.Push(/*slot=*/7, /*weight=*/100);
  ranks.Push(/*slot=*/8, /*weight=*/50);
  ranks.CountAbove(first);  // 1
  EXPECT_EQ(ranks.CountAbove(first), 1u);
}

TEST(InternalExamples, ReuseSample) {
  using internal::ReuseSample;
  const int64_t now = 0;
  const uint32_t hash = 5;
  const uint32_t charge = 1;
  const int64_t deadline = Clock::kNever;
  ReuseSample sample({/*entries=*/1000, /*bytes=*/kUnlimited}, now);
  if (hash < sample.threshold()) sample.Read(hash, /*hit=*/false, now);
  if (hash < sample.threshold()) sample.Store(hash, {charge, deadline}, now);
  sample.more_hits(ReuseSample::kTwice);  // Than there were.
  EXPECT_EQ(sample.keys(), 0u + (hash < sample.threshold()));
}

TEST(InternalExamples, Advisor) {
  SimulatedClock clock;
  struct {
    std::unique_ptr<internal::Advisor> advisor;
  } shared = {internal::Advisor::Make({1000, kUnlimited}, &clock)};
  const internal::Hash32 hash = 5;
  if (shared.advisor != nullptr) shared.advisor->Read(hash, /*hit=*/true);
  EXPECT_EQ(shared.advisor->Advise({1, 0}).same, 1);
}

TEST(InternalExamples, AtFork) {
  Queue queue;
  queue.Add();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  queue.Add();
  if (child == 0) _exit(queue.size());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_EQ(queue.size(), 2);
}

}  // namespace

namespace internal {
namespace {

TEST(InternalExamples, Gate) {
  struct Shelf {
    void Store(int) { ++stored; }
    int stored = 0;
  } shelf;
  auto* const cache = &shelf;
  const int value = 1;
  Gate gate;
  {
    const Gate::Visit visit(&gate);
    if (visit.admitted()) cache->Store(value);
  }
  gate.Close();
  const Gate::Visit visit(&gate);
  EXPECT_FALSE(visit.admitted());
  EXPECT_EQ(shelf.stored, 1);
}

bool Refresh() { return true; }

TEST(InternalExamples, RefreshBoard) {
  RefreshBoard board(1);
  const Hash32 hash = 7;
  const int64_t now_nanos = 0;
  const int64_t retry_nanos = 1'000'000'000;
  auto claim = board.TryClaim(hash, now_nanos, now_nanos + retry_nanos);
  if (claim && Refresh()) claim.Release();
  EXPECT_TRUE(board.TryClaim(hash, now_nanos, now_nanos + retry_nanos));
}

struct Page {
  char text[100];
};

TEST(InternalExamples, Admission) {
  const ZeroPages pages(AdmissionMemory::BytesFor(1'000, /*shards=*/1));
  const Hash32 hash = 4711;
  const Admission::Candidate candidate{hash, /*life_left=*/1};
  const Admission::Candidate other{42, /*life_left=*/1};
  WindowTarget target(/*shards=*/1);
  Admission admission({pages.begin(), /*entries=*/1'000, /*shards=*/1},
                      /*share=*/{1'000, kUnlimited}, &target);
  admission.NoteSet(hash);                     // A new key, and
  admission.Add(Admission::kWindow, {1, 64});  // its entry in the window.
  if (admission.WindowIsFullFor({1, 64}) && admission.Wins(candidate, other)) {
    admission.NoteEvicted(other.hash, Admission::kMain);
  }
  EXPECT_FALSE(admission.WindowIsFullFor({1, 64}));
  EXPECT_TRUE(admission.Wins(candidate, other));
}

TEST(InternalExamples, Age) {
  SimulatedClock clock;
  const CreationTime created = CreationTimeAt(clock.NowNanos());
  clock.Advance(absl::Seconds(5));
  AgeNanos(created, clock.NowNanos());  // 5'000'000'000.
  EXPECT_EQ(AgeNanos(created, clock.NowNanos()), 5'000'000'000);
}

TEST(InternalExamples, Arena) {
  // Static: GCC misaligns locals that AddressSanitizer watches.
  static Arena arena;
  const Arena::Ref ref = arena.Allocate(100);  // 104 bytes, aligned to 8.
  new (arena.At(ref)) Page();
  arena.Free(ref, 100);
  EXPECT_EQ(arena.Allocate(100), ref);
}

TEST(InternalExamples, PageRelease) {
  const size_t bytes = PageBytes(1);
  char* const begin = static_cast<char*>(AllocatePages(3 * bytes));
  char* const other_begin = begin + 2 * bytes;
  const size_t other_bytes = bytes;
  for (size_t page = 0; page < 3; ++page) begin[page * bytes] = 'x';
  {
    PageRelease release;
    release.Add(begin, bytes);
    release.Add(other_begin, other_bytes);
    // Here, at the latest, all of them go back.
  }
  EXPECT_EQ(begin[0], 0);
  EXPECT_EQ(begin[bytes], 'x');
  EXPECT_EQ(other_begin[0], 0);
  UnmapPages(begin, 3 * bytes);
}

constexpr Room kVictim = {1, 80};

Room Evict() { return kVictim; }

TEST(InternalExamples, Budget) {
  static Budget budget({2, 100});
  ASSERT_TRUE(budget.TryTake(kVictim));
  const int64_t charge = 50;
  {
    Claim claim(&budget);
    while (!claim.Cover({1, charge})) claim.Add(Evict());
    claim.Spend({1, charge});  // The entry lives in the cache from here on.
  }
  EXPECT_EQ(budget.used().entries, 1);
  EXPECT_EQ(budget.used().bytes, charge);
}

TEST(InternalExamples, Limits) {
  static Budget budget({2, 160});
  ASSERT_TRUE(budget.TryTake({2, 160}));
  Limits limits(&budget);
  {
    limits.SetTarget({1, 200});  // What grows has grown.
    Claim claim(&budget);
    while (!(limits.Approach(&claim) == Room())) claim.Add(Evict());
  }
  EXPECT_EQ(budget.limit(), (Room{1, 200}));
  EXPECT_EQ(budget.used(), kVictim);
}

TEST(InternalExamples, Iteration) {
  CacheOptions options;
  options.reaper = nullptr;
  TypedEngine<int, int, DefaultHash<int>, DefaultEqual<int>> typed(
      options, nullptr, nullptr);
  for (int key = 0; key < 100; ++key) typed.Set(key, 1, {});
  Engine& engine = typed.engine();
  int count = 0;
  {
    Iteration iteration = engine.Iterate();
    while (const EntryRef ref = iteration.Next()) {
      ++count;  // No lock is held.
      engine.pool().UnpinOutside(ref);
    }
  }
  EXPECT_EQ(count, 100);
}

TEST(InternalExamples, EntryPool) {
  constexpr EntryOperations operations =
      kEntryOperations<int, int, DefaultHash<int>, DefaultEqual<int>>;
  EntryPool* const pool = new EntryPool(&operations, Charges::kFromSizes);
  const EntryRef ref = MakeEntry<int, int>(pool, 1, 2);  // One pin.
  pool->Pin(ref);                                        // For a handle.
  pool->Unpin(ref);         // The cache's pin: no reader can find it.
  pool->UnpinOutside(ref);  // The last pin: destroys the entry.
  pool->Abandon();          // The cache ends.
}

// What the examples showed.
std::string shown;

void Show(const std::string& name, int id, const CacheStats& stats) {
  shown = name + " " + std::to_string(id) + ": " + std::to_string(stats.sets);
}
void Show(const std::string& sentence) { shown += "; " + sentence; }

TEST(InternalExamples, EngineRegistryAndAdvice) {
  CacheOptions options;
  options.name = "users";
  const auto cache = *Cache<int, int>::Create(options);
  cache->Set(1, 1);
  EngineRegistry::Get().ForEach([](const EngineRegistry::Item& item) {
    Show(item.name, item.id, item.engine.stats());
  });
  for (const std::string& sentence : Advise(cache->stats())) Show(sentence);
  EXPECT_EQ(shown, "users 1: 1; Nobody has read from it yet.");
}

TEST(InternalExamples, Format) {
  FormatCount(1234567);  // "1,234,567"
  FormatBytes(5 << 20);  // "5 MiB"
  FormatSeconds(90);     // "1.5 min"
  FormatShare(0.931);    // "93.1 %"
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatBytes(5 << 20), "5 MiB");
  EXPECT_EQ(FormatSeconds(90), "1.5 min");
  EXPECT_EQ(FormatShare(0.931), "93.1 %");
}

TEST(InternalExamples, WindowTarget) {
  WindowTarget target(/*shards=*/64);
  target.Move(/*steps=*/1, /*keys=*/1, /*entries=*/1'000);  // By an entry.
  EXPECT_GT(target.Get(), 0.1);
}

}  // namespace
}  // namespace internal
}  // namespace wheelcache
