// Two processes share a Redis, each with a near cache. The reader serves itself
// from memory, and yet sees what the writer writes. Prints how soon.
//
//   ./bazelw run //examples:near_cache -- redis://127.0.0.1:6379

#include "wheelcache/cache/near/near_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/wheel/clock.h"

namespace {

using Times = wheelcache::NearCache<int64_t>;

int64_t Now() { return wheelcache::Clock::Monotonic().NowNanos(); }

// Waits, with local reads alone, until the other process has set the key.
absl::Status Await(Times& times, const std::string& key, int64_t* value) {
  const int64_t end = Now() + absl::ToInt64Nanoseconds(absl::Seconds(10));
  while (Now() < end) {
    const auto found = times.Get(key);
    if (!found.ok()) return found.status();
    if (found->has_value()) {
      *value = **found;
      return absl::OkStatus();
    }
  }
  return absl::DeadlineExceededError("the other process has set nothing");
}

absl::Status Run(const std::string& url, const std::string& prefix,
                 bool reads) {
  wheelcache::RedisStoreOptions redis;
  redis.url = url;
  auto store = wheelcache::RedisStore::Create(redis);
  if (!store.ok()) return store.status();
  wheelcache::NearCacheOptions options;
  options.key_prefix = prefix;
  auto times = Times::Create(options, store->get());
  if (!times.ok()) return times.status();
  absl::Status status = (*times)->WaitUntilReady(absl::Seconds(5));
  int64_t time = 0;
  if (reads) {
    if (status.ok()) status = (*times)->Set("ready", 1, absl::Minutes(1));
    if (status.ok()) status = Await(**times, "written", &time);
    if (!status.ok()) return status;
    std::cout << "seen after " << (Now() - time) / 1000 << " us, and "
              << (*times)->stats().local_absences << " local reads before\n";
    return absl::OkStatus();
  }
  if (status.ok()) status = Await(**times, "ready", &time);
  return status.ok() ? (*times)->Set("written", Now(), absl::Minutes(1))
                     : status;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string url = argc > 1 ? argv[1] : "redis://127.0.0.1:6379";
  const std::string prefix = absl::StrCat("example:", getpid(), ":");
  // First of all: the child of a fork() cannot use a store of its parent.
  const pid_t reader = fork();
  const absl::Status status = Run(url, prefix, /*reads=*/reader == 0);
  if (!status.ok()) std::cerr << status << "\n";
  int reader_status = 0;
  if (reader != 0) waitpid(reader, &reader_status, 0);
  return status.ok() && reader_status == 0 ? 0 : 1;
}
