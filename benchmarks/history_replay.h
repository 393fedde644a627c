// Plays a history of sizes on a cache, and watches the resident memory of the
// process.
//
//   HistoryReplay<WheelcacheStore> replay(history, {max_bytes, /*threads=*/4});
//   replay.Run();
//   Print(replay.memory().worst());  // As a multiple of max_bytes.
//
// All threads share one position in the history, which moves on with the bytes
// that they Set. No key is Set twice. What the program itself needs is resident
// before the cache is created, and does not count.
//
// A Store is a cache as this needs it:
//
//   explicit Store(int64_t max_bytes);
//   void Set(uint64_t key, absl::string_view value);
//   bool Read(uint64_t key);  // Counts as a use.
//   int64_t bytes() const;    // Charged.

#ifndef WHEELCACHE_BENCHMARKS_HISTORY_REPLAY_H_
#define WHEELCACHE_BENCHMARKS_HISTORY_REPLAY_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "wheelcache/benchmarks/memory_series.h"
#include "wheelcache/benchmarks/resident_memory.h"
#include "wheelcache/benchmarks/size_history.h"
#include "wheelcache/cache/weigh.h"

namespace wheelcache::benchmarks {

struct ReplayOptions {
  int64_t max_bytes;
  int threads;
};

template <typename Store>
class HistoryReplay {
 public:
  HistoryReplay(const SizeHistory& history, const ReplayOptions& options)
      : history_(history),
        options_(options),
        volumes_(history.volumes()),
        memory_(volumes_, kParts),
        value_(kLargestSize, 'x'),
        kept_(options.threads, std::vector<uint64_t>(KeptAtMost())),
        resident_before_(ResidentBytes()) {}

  void Run() {
    const auto begin = std::chrono::steady_clock::now();
    store_ = std::make_unique<Store>(options_.max_bytes);
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.threads; ++i) {
      threads.emplace_back([this, i] { PlayThread(i); });
    }
    for (std::thread& thread : threads) thread.join();
    seconds_ = std::chrono::steady_clock::now() - begin;
  }

  // Multiples of max_bytes, by volume. REQUIRES, as all that follow: after Run.
  const MemorySeries& memory() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return memory_;
  }

  // The least charged bytes after the first volume, as a fraction of max_bytes.
  double least_charged() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return least_charged_;
  }

  // The kept keys that are still there, as a fraction of those that were there
  // when the first phase that reads them began; 1 if no phase does.
  double kept() const {
    const int64_t first = first_kept_.load();
    return first == 0 ? 1 : static_cast<double>(last_kept_.load()) / first;
  }

  double seconds() const { return seconds_.count(); }
  int64_t sets() const { return sets_.load(); }

 private:
  static constexpr int kParts = 120;
  static constexpr int kSamplesPerVolume = 200;
  static constexpr int kBatchesPerVolume = 4096;
  static constexpr double kVolumesPerReading = 1.0 / 16;
  static constexpr int64_t kOverhead =
      sizeof(uint64_t) + kEntryBytes + kIndexBytes;

  // The state of one thread.
  struct Player {
    std::mt19937_64 random;
    uint64_t next_key;
    std::vector<uint64_t>* kept;  // Ascending.
    double next_reading = 0;
  };

  // The kept keys of all phases before those that read them, if one thread Sets
  // all entries.
  size_t KeptAtMost() const {
    if (history_.kept_stride == 0) return 0;
    double entries = 0;
    for (const SizePhase& phase : history_.phases) {
      if (phase.reads_kept) break;
      entries += phase.volumes * static_cast<double>(options_.max_bytes) /
                 static_cast<double>(phase.smallest + kOverhead);
    }
    return static_cast<size_t>(entries / history_.kept_stride) + 1;
  }

  void PlayThread(int thread) {
    const uint64_t first_key = uint64_t(thread) << 48;
    kept_[thread].clear();  // Its pages remain.
    Player player = {std::mt19937_64(thread), first_key, &kept_[thread]};
    double position = 0;
    while (position < volumes_) {
      const SizePhase& phase = history_.PhaseAt(position);
      if (phase.reads_kept && position >= player.next_reading) {
        ReadKept(player);
        player.next_reading = position + kVolumesPerReading;
      }
      position = Advance(SetBatch(phase, player));
    }
    if (player.next_reading > 0) ReadKept(player);
    last_kept_ += static_cast<int64_t>(player.kept->size());
    sets_ += static_cast<int64_t>(player.next_key - first_key);
  }

  // Returns the bytes that it Set.
  int64_t SetBatch(const SizePhase& phase, Player& player) {
    const int64_t enough = options_.max_bytes / kBatchesPerVolume;
    int64_t bytes = 0;
    while (bytes < enough) {
      const size_t size = phase.DrawSize(player.random);
      const uint64_t key = player.next_key++;
      store_->Set(key, absl::string_view(value_).substr(0, size));
      bytes += static_cast<int64_t>(size) + kOverhead;
      if (!phase.reads_kept && history_.kept_stride != 0 &&
          key % history_.kept_stride == 0) {
        player.kept->push_back(key);
      }
    }
    return bytes;
  }

  // Forgets the keys that are no longer there.
  void ReadKept(Player& player) {
    std::vector<uint64_t>& kept = *player.kept;
    kept.erase(
        std::remove_if(kept.begin(), kept.end(),
                       [this](uint64_t key) { return !store_->Read(key); }),
        kept.end());
    if (player.next_reading == 0) {
      first_kept_ += static_cast<int64_t>(kept.size());
    }
  }

  // Moves on by so many bytes, and returns the position.
  double Advance(int64_t bytes) {
    const int64_t every = options_.max_bytes / kSamplesPerVolume;
    const int64_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
    const int64_t after = before + bytes;
    const double position = Multiple(after);
    if (before / every != after / every) Sample(position);
    return position;
  }

  void Sample(double position) {
    const double resident = Multiple(ResidentBytes() - resident_before_);
    const double charged = Multiple(store_->bytes());
    const absl::MutexLock lock(&mu_);
    memory_.Add(position, resident);
    if (position > 1.1) least_charged_ = std::min(least_charged_, charged);
  }

  double Multiple(int64_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(options_.max_bytes);
  }

  const SizeHistory history_;
  const ReplayOptions options_;
  const double volumes_;

  absl::Mutex mu_;
  MemorySeries memory_ ABSL_GUARDED_BY(mu_);
  double least_charged_ ABSL_GUARDED_BY(mu_) = 1;

  const std::string value_;
  std::vector<std::vector<uint64_t>> kept_;  // By thread.
  const int64_t resident_before_;
  std::unique_ptr<Store> store_;

  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> sets_{0};
  std::atomic<int64_t> first_kept_{0};
  std::atomic<int64_t> last_kept_{0};
  std::chrono::duration<double> seconds_{0};
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_HISTORY_REPLAY_H_
