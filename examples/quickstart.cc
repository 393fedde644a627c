// What a cache does, in simulated time: limits and LRU order, TTLs and their
// jitter, a removal listener, reclaiming, statistics. Prints the same on each
// run.

#include <iostream>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

int main() {
  wheelcache::SimulatedClock clock;  // Leave these two out for real time and
  wheelcache::Reaper reaper(clock);  // the background thread of the process.

  wheelcache::CacheOptions options;
  options.max_entries = 2;
  options.default_ttl = absl::Minutes(10);
  options.jitter = 0.2;     // Varies each TTL by up to 20 %,
  options.jitter_seed = 1;  // here in the same way on each run.
  options.clock = &clock;
  options.reaper = &reaper;

  using Roles = wheelcache::Cache<std::string, std::string>;
  Roles::Hooks hooks;
  hooks.on_removal = [](const auto& user, const auto& role, auto cause) {
    std::cout << user << ", " << role
              << ", left: " << wheelcache::RemovalCauseName(cause) << "\n";
  };
  auto roles = Roles::Create(options, std::move(hooks));
  if (!roles.ok()) {
    std::cerr << roles.status() << "\n";
    return 1;
  }

  (*roles)->Set("ada", "admin");
  (*roles)->Set("bob", "guest", absl::Minutes(1));
  if (auto role = (*roles)->Get("ada")) std::cout << "ada: " << *role << "\n";
  (*roles)->Set("cyd", "guest");  // There is room for two; bob is the victim.
  std::cout << "ada stays for " << *(*roles)->TimeToLive("ada") << "\n";

  clock.RunFor(absl::Minutes(12));  // Nobody calls, and what expires leaves.

  const wheelcache::CacheStats stats = (*roles)->stats();
  std::cout << stats.hits << " hit, " << stats.evictions << " eviction, "
            << stats.expirations << " expirations, " << stats.entries
            << " entries\n";
}
