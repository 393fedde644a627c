// Counts the cache lines that operations move between cores, for any number of
// cores, on any machine: see benchmarks/line_model.h. Run by
// tools/shared_lines, which compiles it as benchmarks/access_runtime.h asks.
//
// A thread stands for each core. They take turns: one operation after the
// other, on a core drawn at random. So every run counts nearly the same. The
// cache has the default options but for max_bytes, and is full of values of 16
// to 400 bytes. The timer service has 30,000 timers.
//
// Prints for each kind of operation and number of cores how many lines one
// operation fetches from other cores, by what they belong to:
//   entry     entries, and free blocks
//   index     the index; a read of what another core has Set must fetch these
//             two
//   shard     the shard of the key
//   memory    the heap of blocks for entries, which all shards have in common
//   counters  the statistics
//   rest      all else of the cache and the process
//   used      of all these, the ones that only hits have written since the core
//             had them last
//   common    of all but entries, index and shard, the ones that it wrote and
//             most cores write to
// and, with --sites, which file accessed what other files had written.
//
// It does not see the background thread, nor cores that want the same line at
// the same time: for these, see benchmarks/cache_benchmark.cc.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/benchmarks/access_runtime.h"
#include "wheelcache/benchmarks/line_model.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_service.h"

ABSL_FLAG(std::vector<std::string>, cores,
          (std::vector<std::string>{"2", "8", "64"}),
          "numbers of cores, up to 64");
ABSL_FLAG(int64_t, entries, 30'000, "about how many entries fit");
ABSL_FLAG(int64_t, operations, 30'000, "how many of each kind are counted");
ABSL_FLAG(bool, sites, false, "print by which files lines are written");
ABSL_FLAG(bool, check, false,
          "fail where a hit alone, or a Set, moves more than it should");

extern "C" const char __executable_start;

namespace wheelcache::benchmarks {
namespace {

// The file of the project, as "index_table.h", that each site is in.
class Files {
 public:
  void Find(const std::vector<LineModel::Site>& sites) {
    constexpr size_t kAtOnce = 500;
    for (size_t begin = 0; begin < sites.size(); begin += kAtOnce) {
      const size_t end = std::min(sites.size(), begin + kAtOnce);
      std::string command =
          absl::StrCat("addr2line -i -a -e /proc/", getpid(), "/exe");
      for (size_t i = begin; i < end; ++i) {
        // A call returns to what lies behind it.
        const uintptr_t at = sites[i] - 1;
        absl::StrAppend(
            &command, " 0x",
            absl::Hex(at - reinterpret_cast<uintptr_t>(&__executable_start)));
      }
      Read(command, &sites[begin]);
    }
  }

  // Empty where it is not known.
  const std::string& Of(LineModel::Site site) const {
    static const std::string unknown;
    const auto found = files_.find(site);
    return found == files_.end() ? unknown : found->second;
  }

 private:
  // Of the functions that were inlined into each other at a site, the innermost
  // of the project decides, but those of locks and links say nothing.
  static bool Decides(absl::string_view path) {
    for (const char* const other :
         {"/usr/", "benchmarks/", "wheel/base/", "lru_list.h", "??"}) {
      if (absl::StrContains(path, other)) return false;
    }
    return true;
  }

  void Read(const std::string& command, const LineModel::Site* site) {
    FILE* const output = popen(command.c_str(), "r");
    if (output == nullptr) return;
    std::array<char, 4096> line;
    --site;
    while (std::fgets(line.data(), line.size(), output) != nullptr) {
      const absl::string_view text(line.data());
      if (absl::StartsWith(text, "0x")) {
        files_[*++site] = "";
      } else if (std::string& file = files_[*site];
                 file.empty() && Decides(text)) {
        const absl::string_view path = text.substr(0, text.rfind(':'));
        file = std::string(path.substr(path.rfind('/') + 1));
      }
    }
    pclose(output);
  }

  std::map<LineModel::Site, std::string> files_;
};

// Threads that stand for cores, of which one works at a time.
class Crew {
 public:
  explicit Crew(int cores) : model_(cores), members_(cores) {
    for (int core = 0; core < cores; ++core) {
      members_[core].thread = std::thread([this, core] { Work(core); });
    }
  }
  ~Crew() {
    for (Member& member : members_) {
      Hand(&member, nullptr);
      member.thread.join();
    }
  }

  int cores() const { return static_cast<int>(members_.size()); }
  LineModel& model() { return model_; }

  // Has a core call the function, and the model listen.
  void Run(int core, const std::function<void()>& function) {
    Hand(&members_[core], &function);
    std::unique_lock lock(mu_);
    done_.wait(lock, [this] { return working_ == nullptr; });
  }

 private:
  struct Member {
    std::thread thread;
    std::condition_variable turn;
  };

  void Hand(Member* member, const std::function<void()>* function) {
    std::unique_lock lock(mu_);
    working_ = member;
    function_ = function;
    member->turn.notify_one();
  }

  void Work(int core) {
    std::unique_lock lock(mu_);
    for (;;) {
      members_[core].turn.wait(lock,
                               [&] { return working_ == &members_[core]; });
      if (function_ == nullptr) return;
      ListenToAccesses(&model_, core);
      (*function_)();
      ListenToAccesses(nullptr, core);
      working_ = nullptr;
      done_.notify_one();
    }
  }

  LineModel model_;
  std::mutex mu_;
  std::condition_variable done_;
  Member* working_ = nullptr;
  const std::function<void()>* function_ = nullptr;
  std::vector<Member> members_;
};

using StringCache = Cache<std::string, std::string>;

// Random numbers, the same in each run.
class Dice {
 public:
  int64_t Below(int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random_);
  }

 private:
  std::mt19937_64 random_{1};
};

// One kind of operation, and what it fetched.
struct Row {
  const char* operation;
  std::vector<LineModel::Fetch> fetches;
};

class Ledger {
 public:
  explicit Ledger(int cores) : crew_(cores) {
    CacheOptions options;
    options.max_bytes = absl::GetFlag(FLAGS_entries) * kMeanBytes;
    options.clock = &clock_;
    options.reaper = &reaper_;
    cache_ = *StringCache::Create(options);
    Timers::Options timers;
    timers.execute = [](int64_t, int64_t) {};
    timers.reaper = &reaper_;
    timers_ = *Timers::Create(std::move(timers));
  }

  // Whether an address is in one of the cache's shards.
  bool IsOfAShard(uintptr_t address) const {
    const auto& engine = internal::CachePeer::EngineOf(cache_.get());
    const int shards = internal::ShardCount(cache_->options());
    for (int i = 0; i < shards; ++i) {
      const auto begin = reinterpret_cast<uintptr_t>(
          &engine.ShardOf({static_cast<uint32_t>(i), 0}));
      if (address >= begin && address < begin + sizeof(internal::Shard)) {
        return true;
      }
    }
    return false;
  }

  std::vector<Row> Count() {
    // Full, and turned over once. Of a large cache, the model sees the end.
    const int64_t sets = 2 * absl::GetFlag(FLAGS_entries);
    constexpr int64_t kMostModelled = 100'000;
    while (next_ < sets - kMostModelled) Set(kSetNew);
    while (next_ < sets) {
      crew_.Run(AnyCore(), [&] {
        for (int64_t i = 0; i < kAtATime; ++i) Set(kSetNew);
      });
    }
    for (int64_t key = 0; key < kTimers; key += kAtATime) {
      crew_.Run(AnyCore(), [&] {
        for (int64_t i = 0; i < kAtATime; ++i) SetTimer(key + i);
      });
    }
    return {CountOne("hit", kHit),
            CountOne("hit, a Set to nine", kHit, kSetNew),
            CountOne("Set of a new key", kSetNew),
            CountOne("Set of a resident key", kSetResident),
            CountOne("Set of a timer again", kSetTimer)};
  }

 private:
  using Timers = TimerService<int64_t, int64_t>;

  enum Operation { kNone, kHit, kSetNew, kSetResident, kSetTimer };

  // Of a value and its key, with what belongs to them.
  static constexpr int64_t kMeanBytes = 290;

  static constexpr int64_t kTimers = 30'000;

  static constexpr int64_t kAtATime = 50;

  int AnyCore() { return static_cast<int>(dice_.Below(crew_.cores())); }

  void Set(Operation operation) {
    Draw(operation);
    cache_->Set(key_, value_, absl::Hours(1));
  }

  void SetTimer(int64_t key) {
    const absl::Duration delay = absl::Minutes(60 + dice_.Below(60));
    timers_->Set(key, 0, delay).IgnoreError();
  }

  // Key and value are there before the operation, as in a service.
  void Draw(Operation operation) {
    key_ = absl::StrCat("user:", operation == kSetNew ? next_++ : Resident());
    value_.assign(16 + dice_.Below(385), 'v');
  }

  // Runs one on any core.
  void RunOne(Operation operation) {
    Draw(operation);
    crew_.Run(AnyCore(), [&] {
      if (operation == kHit) {
        cache_->Visit(key_, [](const auto&) {});
      } else if (operation == kSetTimer) {
        SetTimer(dice_.Below(kTimers));
      } else {
        cache_->Set(key_, value_, absl::Hours(1));
      }
    });
    if (++run_ % 1000 == 0) clock_.RunFor(absl::Milliseconds(1));
  }

  // Later ones are asked for more often.
  int64_t Resident() {
    const int64_t half = absl::GetFlag(FLAGS_entries) / 2;
    return next_ - 1 - std::min(dice_.Below(half), dice_.Below(half));
  }

  // Counts what an operation fetches, while there is one of another kind to
  // nine of it.
  Row CountOne(const char* name, Operation operation, Operation other = kNone) {
    Row row = {name, {}};
    const int64_t operations = absl::GetFlag(FLAGS_operations);
    for (int64_t i = 0; i < 2 * operations; ++i) {
      if (other != kNone && i % 9 == 0) RunOne(other);
      crew_.model().TakeFetches();
      RunOne(operation);
      // The first half is for what later ones find.
      if (i == operations) crew_.model().ForgetWriters();
      if (i < operations) continue;
      for (auto& fetch : crew_.model().TakeFetches()) {
        row.fetches.push_back(std::move(fetch));
      }
    }
    return row;
  }

  SimulatedClock clock_{/*start=*/absl::Hours(1)};
  Reaper reaper_{clock_};
  Dice dice_;
  int64_t run_ = 0;
  int64_t next_ = 0;  // The next new key.
  std::string key_;
  std::string value_;
  std::unique_ptr<StringCache> cache_;
  std::unique_ptr<Timers> timers_;
  Crew crew_;
};

// What a line belongs to.
enum Owner { kEntry, kIndex, kShard, kMemory, kCounters, kRest, kOwners };
constexpr const char* kNames[kOwners] = {"entry",  "index",    "shard",
                                         "memory", "counters", "rest"};

// By all files that ever wrote there, the first of which decides.
Owner OwnerOf(const std::set<std::string>& files) {
  constexpr std::pair<const char*, Owner> kOwnerOf[] = {
      {"layout.h", kEntry},
      {"chunks.h", kEntry},  // Free, at present.
      {"index_table.h", kIndex},
      {"basic_timing_wheel_impl.h", kShard},
      {"eviction_record.h", kShard},
      {"generational_list.h", kShard},
      {"arena.cc", kMemory},
      {"arena.h", kMemory},
      {"block_heap.cc", kMemory},
      {"block_heap.h", kMemory},
      {"striped_counters.h", kCounters},
      {"timer_table.h", kEntry},
      {"timer_queue.cc", kShard},
      {"timer_blocks.cc", kShard},
  };
  for (const auto& [file, owner] : kOwnerOf) {
    if (files.count(file) > 0) return owner;
  }
  return kRest;
}

// The project's files of some sites.
std::set<std::string> FilesOf(const std::vector<LineModel::Site>& sites,
                              const Files& files) {
  std::set<std::string> names;
  for (const LineModel::Site site : sites) names.insert(files.Of(site));
  return names;
}

// What --check allows: one line in 64 hits for what only hits have written, and
// one common line in 25 Sets: there are one in 30 to 100.
constexpr double kMostUsed = 1.0 / 64;
constexpr double kMostCommon = 1.0 / 25;

// Returns whether the rows are what --check allows.
bool Print(int cores, const Ledger& ledger, const std::vector<Row>& rows) {
  bool allowed = true;
  std::set<LineModel::Site> sites;
  for (const Row& row : rows) {
    for (const LineModel::Fetch& fetch : row.fetches) {
      sites.insert(fetch.by);
      sites.insert(fetch.all_writers.begin(), fetch.all_writers.end());
    }
  }
  Files files;
  files.Find({sites.begin(), sites.end()});
  const auto operations = static_cast<double>(absl::GetFlag(FLAGS_operations));
  for (const Row& row : rows) {
    std::array<int64_t, kOwners> counts = {};
    int64_t used = 0;
    int64_t common = 0;
    std::map<std::string, int64_t> by_files;
    for (const LineModel::Fetch& fetch : row.fetches) {
      const Owner owner = ledger.IsOfAShard(fetch.line)
                              ? kShard
                              : OwnerOf(FilesOf(fetch.all_writers, files));
      const std::set<std::string> writers = FilesOf(fetch.writers, files);
      ++counts[owner];
      used += !fetch.is_new && writers == std::set<std::string>{"shard.h"};
      common += owner >= kMemory && fetch.writes && fetch.is_common;
      ++by_files[absl::StrCat(kNames[owner], ": ", files.Of(fetch.by),
                              fetch.writes ? " writes" : " reads",
                              " what was written by ",
                              absl::StrJoin(writers, ", "))];
    }
    std::printf("%5d  %-24s", cores, row.operation);
    for (const int64_t count : counts) {
      std::printf(" %8.3f", static_cast<double>(count) / operations);
    }
    allowed = allowed && static_cast<double>(used) <= kMostUsed * operations &&
              static_cast<double>(common) <= kMostCommon * operations;
    std::printf(" %8.3f", static_cast<double>(used) / operations);
    std::printf(" %8.3f\n", static_cast<double>(common) / operations);
    if (!absl::GetFlag(FLAGS_sites)) continue;
    for (const auto& [what, count] : by_files) {
      if (static_cast<double>(count) < operations / 500) continue;
      std::printf("%12.3f %s\n", static_cast<double>(count) / operations,
                  what.c_str());
    }
  }
  return allowed;
}

}  // namespace
}  // namespace wheelcache::benchmarks

int main(int argc, char** argv) {
  using wheelcache::benchmarks::Ledger;
  absl::ParseCommandLine(argc, argv);
  std::printf("cores  %-24s", "operation");
  for (const char* const name : wheelcache::benchmarks::kNames) {
    std::printf(" %8s", name);
  }
  std::printf(" %8s %8s\n", "used", "common");
  for (const std::string& number : absl::GetFlag(FLAGS_cores)) {
    int cores;
    if (!absl::SimpleAtoi(number, &cores) || cores < 1 ||
        cores > wheelcache::benchmarks::LineModel::kMostCores) {
      std::fprintf(stderr, "shared_lines: --cores: %s: not from 1 to 64\n",
                   number.c_str());
      return 2;
    }
    Ledger ledger(cores);
    const bool allowed =
        wheelcache::benchmarks::Print(cores, ledger, ledger.Count());
    if (absl::GetFlag(FLAGS_check) && !allowed) {
      std::fprintf(stderr, "shared_lines: more than --check allows\n");
      return 1;
    }
  }
}
