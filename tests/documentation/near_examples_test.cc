// The examples that cache/near/ shows, each in a frame that supplies what is
// the reader's, and the program examples/near_cache.cc. documentation_test.cc
// compares them with the headers.

#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/fake_server.h"
#include "wheelcache/cache/near/fake_store.h"
#include "wheelcache/cache/near/heartbeat.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/near_stats.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/cache/near/tls/tls.h"
#include "wheelcache/tests/cache/near/tls/certificates.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

// Has one value, whatever the key.
class StoreOfOne final : public RemoteStore {
 public:
  Clock& clock() const override { return Clock::Monotonic(); }
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys, absl::Duration) override {
    return std::vector<absl::StatusOr<Fetched>>(keys.size(),
                                                Fetched{std::string("Alice")});
  }
  absl::Status Put(const Write&, absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<bool> Remove(absl::string_view, absl::Duration) override {
    return false;
  }
  absl::Status Attach(absl::string_view, absl::Duration, Listener*) override {
    return absl::OkStatus();
  }
  void Detach(Listener*) override {}
};

TEST(NearExamples, RemoteStore) {
  StoreOfOne one;
  std::string shown;
  const auto Show = [&](const std::string& bytes) { shown = bytes; };
  wheelcache::RemoteStore& store = one;
  auto found = store.Fetch({"user:alice"}, absl::Milliseconds(500));
  if (found[0].ok() && found[0]->bytes.has_value()) {
    Show(*found[0]->bytes);
  }
  EXPECT_EQ(shown, "Alice");
}

struct Lease {
  void OnLease(uint64_t, int64_t until_nanos) { until = until_nanos; }
  int64_t until = 0;
};

TEST(NearExamples, Heartbeat) {
  const absl::Duration max_staleness = absl::Seconds(3);
  Lease lease;
  Lease* listener = &lease;
  const uint64_t session = 1;
  const int64_t now_nanos = 7;
  wheelcache::Heartbeat heartbeat(max_staleness, now_nanos);
  for (int i = 0; i < 2; ++i) {
    if (now_nanos >= heartbeat.next_nanos()) {
      heartbeat.Send(now_nanos);  // The reading before the PING is written.
    }
    if (auto certified_nanos = heartbeat.Answer()) {
      listener->OnLease(session,
                        Clock::NanosAfter(*certified_nanos, max_staleness));
    }
  }
  EXPECT_EQ(lease.until, 7 + absl::ToInt64Nanoseconds(max_staleness));
}

struct Price {
  int cents = 0;
  std::string currency;
};

struct PriceCodec {
  std::string Encode(const Price& price) const {
    return absl::StrCat(price.cents, " ", price.currency);
  }
  absl::StatusOr<Price> Decode(absl::string_view bytes) const {
    const std::vector<std::string> parts = absl::StrSplit(bytes, ' ');
    Price price;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &price.cents)) {
      return absl::DataLossError("must be cents and a currency");
    }
    price.currency = parts[1];
    return price;
  }
};
using Prices = wheelcache::NearCache<Price, PriceCodec>;

TEST(NearExamples, Codec) {
  FakeServer server(&Clock::Monotonic());
  FakeStore store(&server);
  auto prices = *Prices::Create({}, &store);
  EXPECT_TRUE(prices->Set("apples", {120, "EUR"}).ok());
  EXPECT_EQ(server.Get("apples"), "120 EUR");
  EXPECT_EQ((**prices->Get("apples")).currency, "EUR");
  server.Set("apples", "cheap");
  EXPECT_TRUE(absl::IsDataLoss(prices->Get("apples").status()));
}

TEST(NearExamples, NearOptions) {
  FakeServer server(&Clock::Monotonic());
  FakeStore store(&server);
  wheelcache::NearCacheOptions options;
  options.local.name = "users";
  options.local.max_entries = 100'000;
  options.key_prefix = "user:";
  options.max_staleness = absl::Seconds(1);
  auto users = wheelcache::NearCache<std::string>::Create(options, &store);
  EXPECT_TRUE(users.ok());
}

absl::Status UseANearCache(RemoteStore& store,
                           const std::function<void(std::string)>& Greet) {
  wheelcache::NearCacheOptions options;
  options.local.max_entries = 100'000;
  options.key_prefix = "user:";
  auto users = wheelcache::NearCache<std::string>::Create(options, &store);
  if (!users.ok()) return users.status();

  auto user = (*users)->Get("alice");  // Of the store; from now on local.
  if (!user.ok()) return user.status();
  if (user->has_value()) Greet(**user);
  return (*users)->Set("alice", "Alice B.", absl::Hours(1));
}

TEST(NearExamples, NearCache) {
  FakeServer server(&Clock::Monotonic());
  FakeStore store(&server);
  server.Set("user:alice", "Alice");
  std::string greeted;
  const auto Greet = [&](std::string name) { greeted = std::move(name); };
  EXPECT_TRUE(UseANearCache(store, Greet).ok());
  EXPECT_EQ(greeted, "Alice");
  EXPECT_EQ(server.Get("user:alice"), "Alice B.");
}

TEST(NearExamples, Loader) {
  FakeServer server(&Clock::Monotonic());
  FakeStore store(&server);
  const auto ReadUser = [](const std::string& name) { return "A. " + name; };
  auto users = wheelcache::NearCache<std::string>::Create({}, &store);
  wheelcache::NearLoadOptions options;
  options.ttl = absl::Hours(1);
  options.load_lock = absl::Seconds(5);
  auto user =
      (*users)->GetOrLoad("alice", options, [&] { return ReadUser("alice"); });
  EXPECT_EQ(*user, "A. alice");
  EXPECT_EQ(server.Get("alice"), "A. alice");
}

TEST(NearExamples, NearStats) {
  FakeServer server(&Clock::Monotonic());
  FakeStore store(&server);
  auto users = *wheelcache::NearCache<std::string>::Create({}, &store);
  EXPECT_TRUE(users->Get("alice").ok());
  const wheelcache::NearCacheStats stats = users->stats();
  std::cout << "local hit ratio " << stats.local_hit_ratio() << "\n";
  EXPECT_EQ(stats.local_hit_ratio(), 0);
}

TEST(NearExamples, FakeServer) {
  wheelcache::SimulatedClock clock;
  wheelcache::FakeServer server(&clock);
  wheelcache::FakeStore store(&server);  // cache/near/fake_store.h
  EXPECT_EQ(server.Get("user:alice"), std::nullopt);
  server.Set("user:alice", "Alice");  // As another process does.
  EXPECT_EQ(server.Get("user:alice"), "Alice");
}

TEST(NearExamples, FakeStore) {
  wheelcache::SimulatedClock clock;
  wheelcache::FakeServer server(&clock);
  wheelcache::FakeStore store(&server);
  wheelcache::NearCacheOptions options;
  options.local.clock = &clock;
  options.local.reaper = nullptr;
  auto users = *wheelcache::NearCache<std::string>::Create(options, &store);

  server.Set("alice", "Alice");
  EXPECT_EQ(*users->Get("alice"), "Alice");     // Fetched, and kept.
  server.Set("alice", "Alice B.");              // Another process writes.
  EXPECT_EQ(*users->Get("alice"), "Alice B.");  // It was told.
  server.Stop();
  EXPECT_EQ(*users->Get("alice"), "Alice B.");  // Within max_staleness.
  clock.Advance(options.max_staleness);
  EXPECT_FALSE(users->Get("alice").ok());
}

absl::Status CreateARedisStore() {
  wheelcache::RedisStoreOptions options;
  options.url = "redis://127.0.0.1:6379/0";
  auto store = wheelcache::RedisStore::Create(options);
  if (!store.ok()) return store.status();
  return absl::OkStatus();
}

absl::Status CreateAStoreAndANearCache() {
  wheelcache::RedisStoreOptions redis;  // wheelcache/cache/near/redis_store.h
  redis.url = "redis://127.0.0.1:6379";
  auto store = wheelcache::RedisStore::Create(redis);
  if (!store.ok()) return store.status();
  wheelcache::NearCacheOptions options;  // wheelcache/cache/near/near_cache.h
  options.key_prefix = "user:";
  auto users =
      wheelcache::NearCache<std::string>::Create(options, store->get());
  return users.status();
}

TEST(NearExamples, RedisStoreIsCreatedWithoutAServer) {
  EXPECT_TRUE(CreateAStoreAndANearCache().ok());
  EXPECT_TRUE(CreateARedisStore().ok());
}

absl::Status UseTls(const std::string& ca_file) {
  wheelcache::TlsOptions tls;
  tls.ca_file = ca_file;
  auto loaded = wheelcache::LoadTls(tls);
  if (!loaded.ok()) return loaded.status();
  wheelcache::RedisStoreOptions options;
  options.url = "rediss://localhost:6379";
  options.tls = *loaded;
  return wheelcache::RedisStore::Create(options).status();
}

TEST(NearExamples, Tls) {
  EXPECT_TRUE(UseTls(testing::CertificateAuthority("ca").file()).ok());
  wheelcache::RedisStoreOptions options;
  options.url = "rediss://localhost:6379";
  options.tls = *wheelcache::LoadTls();  // With the system's CAs.
  EXPECT_TRUE(wheelcache::RedisStore::Create(options).ok());
}

TEST(NearExamples, ProgramShowsAWriteOfOneProcessInTheOther) {
  const absl::StatusOr<std::unique_ptr<testing::RedisServer>> server =
      testing::RedisServer::Start();
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string command =
      absl::StrCat("examples/near_cache ", (*server)->url(), " 2>&1");
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_THAT(output, ::testing::MatchesRegex(
                          "seen after [0-9]+ us, and [0-9]+ local reads "
                          "before\n"));
}

}  // namespace
}  // namespace wheelcache
