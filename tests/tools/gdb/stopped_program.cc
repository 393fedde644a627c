// A program with something to show in gdb, for
// tests/tools/gdb/printers_test.py, which stops it in StopHere().

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "wheelcache/cache/any_cache.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timing_wheel.h"

namespace {

// Not for a key to fit into its block with it.
struct alignas(64) Aligned {
  int number;
};

struct Large {
  char bytes[100'000];
  int last;
};

template <typename Key, typename Value>
using CachePtr = std::unique_ptr<wheelcache::Cache<Key, Value>>;

template <typename Key, typename Value>
CachePtr<Key, Value> MakeCache(wheelcache::CacheOptions options) {
  options.reaper = nullptr;
  return *wheelcache::Cache<Key, Value>::Create(std::move(options));
}

__attribute__((noinline)) void StopHere() { asm volatile(""); }

}  // namespace

int main() {
  wheelcache::SimulatedClock clock;
  wheelcache::CacheOptions options;
  options.name = "roles";
  options.max_entries = 100;
  options.clock = &clock;
  options.jitter = 0;
  const auto roles_owner = MakeCache<std::string, std::string>(options);
  auto& roles = *roles_owner;
  roles.Set("ada", "admin", absl::Seconds(5));

  // Of several shards, and after its indexes have grown.
  const auto squares_owner = MakeCache<uint64_t, uint64_t>({});
  auto& squares = *squares_owner;
  for (uint64_t i = 0; i < 1000; ++i) squares.Set(i, i * i);

  // Each way in which an entry is laid out.
  const auto lists_owner = MakeCache<std::string, std::vector<int>>({});
  auto& lists = *lists_owner;
  lists.Set("primes", std::vector<int>{2, 3, 5});
  const auto texts_owner = MakeCache<int, std::string>({});
  auto& texts = *texts_owner;
  texts.Set(-7, std::string(70'000, 'x'));
  const auto aligned_owner = MakeCache<std::string, Aligned>({});
  auto& aligned = *aligned_owner;
  aligned.Set(std::string(300, 'k'), Aligned{42});
  const auto large_owner = MakeCache<int8_t, Large>({});
  auto& large = *large_owner;
  large.Set(int8_t{1}, Large{{}, 77});
  const auto empty_owner = MakeCache<int, int>({});
  auto& empty = *empty_owner;
  const wheelcache::AnyCache& any = roles;

  auto handle = roles.Find("ada");
  roles.Del("ada");  // The handle outlives its entry.
  roles.Set("bob", "guest");
  decltype(handle) no_handle;
  const auto lasting_handle = squares.Find(3);

  wheelcache::TimingWheel wheel(10);
  wheelcache::TimingWheel empty_wheel;
  wheelcache::Timer soon;
  wheelcache::Timer late;
  wheelcache::Timer others[5];  // More than a slot has lists.
  wheelcache::Timer idle;
  wheel.Schedule(&soon, 12);
  wheel.Schedule(&late, 1'000'000);
  for (wheelcache::Timer& other : others) wheel.Schedule(&other, 1'000'000);

  StopHere();
  static_cast<void>(empty);
  static_cast<void>(any);
  static_cast<void>(no_handle);
  return lasting_handle && empty_wheel.empty() && !idle.scheduled() ? 0 : 1;
}
