// The examples that cache/ and docs/ show users, each in a frame that supplies
// what is theirs. documentation_test.cc compares them with headers and pages.

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
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
#include "wheelcache/cache/any_cache.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/prometheus.h"
#include "wheelcache/cache/registry.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/share/memory_share.h"
#include "wheelcache/cache/snapshot/snapshot.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/status_page.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

struct User {
  std::string name;
};

User LoadUser(std::string_view name) { return {std::string(name)}; }

// What the examples did with their data.
std::vector<std::string> deeds;

void Record(absl::string_view deed, std::string_view name) {
  deeds.push_back(std::string(deed) + " " + std::string(name));
}

void Greet(const User& user) { Record("greet", user.name); }
void Send(std::string_view name) { Record("send", name); }
void Refresh(std::string_view key) { Record("refresh", key); }

struct Session {
  void LogOut(std::string_view user) const { Record("log out", user); }
};

class CacheExamples : public ::testing::Test {
 protected:
  CacheExamples() { deeds.clear(); }
};

absl::Status UseACache() {
  wheelcache::CacheOptions options;
  options.max_entries = 100'000;
  options.default_ttl = absl::Minutes(5);
  auto cache = wheelcache::Cache<std::string, User>::Create(options);
  if (!cache.ok()) return cache.status();

  (*cache)->Set("alice", LoadUser("alice"));
  (*cache)->Set("bob", LoadUser("bob"), absl::Seconds(30));
  if (std::optional<User> user = (*cache)->Get("alice")) Greet(*user);
  (*cache)->Del("bob");
  EXPECT_EQ((*cache)->size(), 1);
  return absl::OkStatus();
}

TEST_F(CacheExamples, Cache) {
  EXPECT_TRUE(UseACache().ok());
  EXPECT_THAT(deeds, ElementsAre("greet alice"));
}

TEST_F(CacheExamples, Conditional) {
  auto visits = *Cache<std::string, int>::Create({});
  using Visits = wheelcache::Cache<std::string, int>;
  visits->Update("home", [](const Visits::Handle& old) {
    return Visits::Decision::Set(old ? *old + 1 : 1);
  });
  visits->SetIf("about", /*expected=*/{}, 1);  // Only if there is none.
  EXPECT_EQ(visits->Get("home"), 1);
  EXPECT_EQ(visits->Get("about"), 1);
}

struct Price {
  int version;
  int cents;
};

TEST_F(CacheExamples, ConditionalUpdates) {
  auto requests = *Cache<std::string, int>::Create({});
  auto prices = *Cache<std::string, Price>::Create({});
  const std::string user = "alice";
  const std::string name = "apples";
  const auto handle = [&](const Price& price) {
    // At most 100 requests a minute; those refused do not count.
    using Requests = wheelcache::Cache<std::string, int>;
    const bool admitted =
        requests->Update(user, [](const Requests::Handle& old) {
          if (!old) return Requests::Decision::Set(1, absl::Minutes(1));
          if (*old == 100) return Requests::Decision::Keep();
          return Requests::Decision::Set(*old + 1);  // Keeps the deadline.
        });

    // Messages may come in any order: the newest version stays.
    using Prices = wheelcache::Cache<std::string, Price>;
    prices->Update(name, [&](const Prices::Handle& old) {
      const bool newer = !old || old->version < price.version;
      return newer ? Prices::Decision::Set(price) : Prices::Decision::Keep();
    });
    return admitted;
  };
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(handle({i ^ 1, i}));
  EXPECT_FALSE(handle({98, 0}));
  EXPECT_EQ(prices->Get(name)->cents, 98);
  EXPECT_LE(requests->TimeToLive(user), absl::Minutes(1) * 1.05);
}

TEST_F(CacheExamples, Handle) {
  auto cache = *Cache<std::string, User>::Create({});
  cache->Set("alice", LoadUser("Alice"), absl::Milliseconds(900));
  if (auto user = cache->Find("alice")) {
    Send(user->name);
    if (user.TimeToLive() < absl::Seconds(1)) Refresh(user.key());
  }
  EXPECT_THAT(deeds, ElementsAre("send Alice", "refresh alice"));
}

struct Account {
  std::string name;
  std::string tenant;
};

void Show(int id, const std::string& name, absl::Duration) {
  Record("show", absl::StrCat(id, " ", name));
}

TEST_F(CacheExamples, AllOfACache) {
  auto cache = *Cache<int, Account>::Create({});
  cache->Set(1, {"alice", "acme"});
  cache->Set(2, {"bob", "other"});
  cache->ForEach([](const auto& handle) {
    Show(handle.key(), handle->name, handle.TimeToLive());
    return true;  // Go on.
  });
  const int64_t gone = cache->EraseIf(
      [](const auto& handle) { return handle->tenant == "acme"; });
  EXPECT_EQ(gone, 1);
  EXPECT_THAT(deeds, UnorderedElementsAre("show 1 alice", "show 2 bob"));
}

TEST_F(CacheExamples, Hash) {
  const char buffer[] = "literally";
  const size_t n = 7;
  auto cache = *wheelcache::Cache<std::string, int>::Create({});
  cache->Get("literal");                     // No std::string is made.
  cache->Get(absl::string_view(buffer, n));  // Nor here.
  EXPECT_EQ(cache->stats().misses, 2);
  cache->Set("literal", 1);
  EXPECT_EQ(cache->Get(absl::string_view(buffer, n)), 1);
}

TEST_F(CacheExamples, Options) {
  wheelcache::CacheOptions options;
  options.name = "sessions";
  options.max_entries = 100'000;
  options.max_bytes = 256 << 20;
  options.default_ttl = absl::Minutes(30);
  auto cache = wheelcache::Cache<std::string, Session>::Create(options);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ((*cache)->options().name, "sessions");
}

TEST_F(CacheExamples, Removal) {
  Cache<std::string, Session>::Hooks hooks;
  hooks.on_removal = [](std::string_view user, const Session& session,
                        wheelcache::RemovalCause cause) {
    if (cause == wheelcache::RemovalCause::kExpired) session.LogOut(user);
  };
  hooks.on_removal("alice", Session(), RemovalCause::kExpired);
  hooks.on_removal("bob", Session(), RemovalCause::kDeleted);
  EXPECT_THAT(deeds, ElementsAre("log out alice"));
}

TEST_F(CacheExamples, View) {
  Cache<std::string, Session>::Hooks hooks;
  hooks.on_removal = [](std::string_view key, const Session& session,
                        wheelcache::RemovalCause cause) {
    if (cause == RemovalCause::kDeleted) session.LogOut(key);
  };
  auto cache = *Cache<std::string, Session>::Create({}, hooks);
  cache->Set("alice", Session());
  cache->Del("alice");
  EXPECT_THAT(deeds, ElementsAre("log out alice"));
}

void Print(const wheelcache::AnyCache& cache) {
  std::cout << cache.options().name << ": " << cache.size() << "\n";
}

TEST_F(CacheExamples, AnyCache) {
  const auto numbers = *Cache<int, int>::Create({});
  const auto names = *Cache<std::string, std::string>::Create({});
  Print(*numbers);
  Print(*names);
  EXPECT_EQ(numbers->size(), names->size());
}

TEST_F(CacheExamples, Stats) {
  auto cache = *Cache<int, int>::Create({});
  cache->Set(1, 1);
  cache->Get(1);
  const wheelcache::CacheStats stats = cache->stats();
  std::cout << "hit ratio " << stats.hit_ratio() << "\n";
  EXPECT_EQ(stats.hit_ratio(), 1);
}

TEST_F(CacheExamples, Advice) {
  wheelcache::CacheOptions options;
  options.max_entries = 100'000;
  options.advise = true;
  auto cache = *wheelcache::Cache<int, User>::Create(options);
  EXPECT_FALSE(cache->Get(1).has_value());
  if (const auto advice = cache->Advise()) {
    std::cout << "with twice the limits: " << advice->twice << "\n";
  }
  EXPECT_EQ(cache->Advise()->twice, 0);
}

struct Row {
  std::string text;
  absl::Duration max_age;
};

User Parse(const Row& row) { return {row.text}; }

struct Database {
  absl::StatusOr<Row> Read(int id) {
    ++reads;
    if (down) return absl::UnavailableError("down");
    if (id != 7) return absl::NotFoundError("no such row");
    return Row{"alice", absl::Minutes(1)};
  }
  int reads = 0;
  bool down = false;
};

TEST_F(CacheExamples, Load) {
  Database database;
  const int id = 7;
  using Users = Cache<int, User>;
  auto cache = *Users::Create({});
  wheelcache::LoadOptions options;
  options.wait = absl::Milliseconds(200);
  options.error_ttl = absl::Seconds(1);
  auto user = cache->FindOrLoad(id, options, [&]() -> Users::LoadResult {
    absl::StatusOr<Row> row = database.Read(id);
    if (!row.ok()) return row.status();
    return wheelcache::Loaded<User>{Parse(*row), row->max_age};
  });
  EXPECT_EQ(user->value().name, "alice");
}

// Of an event loop, which reads at once here.
struct Connection {
  void Read(int id, absl::AnyInvocable<void(const Row&)> done) const {
    done(*Database().Read(id));
  }
};
struct Reply {
  void Send(const absl::StatusOr<Cache<int, User>::Handle>& user) const {
    Greet(user->value());
  }
};

void Serve(Cache<int, User>* cache, int id) {
  const Connection connection;
  const Reply reply;
  auto ticket =
      cache->BeginLoad(id, {}, [reply](const auto& user) { reply.Send(user); });
  if (!ticket) return;  // A hit, or another caller loads.
  connection.Read(id, [ticket = std::move(ticket)](const Row& row) mutable {
    ticket.Finish(Parse(row));
  });
}

TEST_F(CacheExamples, Ticket) {
  auto cache = *Cache<int, User>::Create({});
  Serve(cache.get(), 7);
  Serve(cache.get(), 7);
  EXPECT_THAT(deeds, ElementsAre("greet alice", "greet alice"));
}

TEST_F(CacheExamples, Histogram) {
  CacheOptions options;
  options.max_entries = 1;
  auto cache = *Cache<int, int>::Create(options);
  cache->Set(1, 1);
  cache->Set(2, 2);
  const wheelcache::Histogram ages = cache->stats().eviction_age;
  if (ages.count() > 0) {
    std::cout << "half were evicted within " << ages.Quantile(0.5) << " s\n";
  }
  EXPECT_EQ(ages.count(), 1);
}

void Log(std::string_view cache, double hit_ratio) {
  Record(hit_ratio == 1 ? "praise" : "blame", cache);
}

TEST_F(CacheExamples, Registry) {
  CacheOptions options;
  options.name = "users";
  auto users = *Cache<int, int>::Create(options);
  users->Set(1, 1);
  users->Get(1);
  for (const wheelcache::CacheReport& cache : wheelcache::ReportCaches()) {
    Log(cache.name, cache.stats.hit_ratio());
  }
  EXPECT_THAT(deeds, ElementsAre("praise users"));
}

// What libraries for HTTP have in common.
struct Request {};
struct Response {
  void set_content(std::string text, absl::string_view type) {
    content = absl::StrCat(type, ": ", text);
  }
  std::string content;
};
struct Server {
  template <typename Handler>
  void Get(absl::string_view path, Handler handler) {
    handler(Request(), pages[std::string(path)]);
  }
  std::map<std::string, Response> pages;
};

TEST_F(CacheExamples, MetricsAndStatusPage) {
  auto cache = *Cache<int, int>::Create({});
  Server server;
  server.Get("/metrics", [](const Request&, Response& response) {
    response.set_content(wheelcache::PrometheusText(),
                         wheelcache::kPrometheusContentType);
  });
  server.Get("/caches", [](const Request&, Response& response) {
    response.set_content(wheelcache::StatusPage(), "text/html");
  });
  EXPECT_THAT(server.pages["/metrics"].content, StartsWith("text/plain; "));
  EXPECT_THAT(server.pages["/caches"].content,
              StartsWith("text/html: <!DOCTYPE html>"));
}

struct Page {
  std::string text;
};

TEST_F(CacheExamples, Weigher) {
  Cache<std::string, Page>::Hooks hooks;
  hooks.weigher = [](std::string_view key, const Page& page) {
    return key.size() + wheelcache::MemoryOf(page) +
           wheelcache::MemoryOf(page.text) - sizeof(page.text);
  };
  auto cache = *Cache<std::string, Page>::Create({}, hooks);
  cache->Set("page", Page{std::string(1000, 'x')});
  const auto weight = cache->bytes() - static_cast<int64_t>(kEntryOverhead);
  EXPECT_GE(weight, 4 + 1000 + int64_t{sizeof(Page)});
  EXPECT_LE(weight, 4 + 1032 + int64_t{sizeof(Page)});
}

// Of docs/guide.md and docs/tuning.md, beyond what headers show.

User NewUser(int id) { return {"user " + std::to_string(id)}; }

TEST_F(CacheExamples, CacheARow) {
  Database database;
  const int id = 7;
  const auto serve = [&]() -> absl::Status {
    wheelcache::CacheOptions options;
    options.name = "users";
    options.max_bytes = 64 << 20;
    options.default_ttl = absl::Minutes(10);
    auto users = wheelcache::Cache<int, User>::Create(options);
    if (!users.ok()) return users.status();

    auto user = (*users)->FindOrLoad(id, {}, [&]() -> absl::StatusOr<User> {
      absl::StatusOr<Row> row = database.Read(id);
      if (!row.ok()) return row.status();
      return Parse(*row);
    });
    if (!user.ok()) return user.status();
    Greet(**user);
    return absl::OkStatus();
  };
  EXPECT_TRUE(serve().ok());
  EXPECT_THAT(deeds, ElementsAre("greet alice"));
}

TEST_F(CacheExamples, Chrono) {
  CacheOptions options;
  options.jitter = 0;
  auto users = *Cache<int, User>::Create(options);
  const int id = 7;
  const User user = NewUser(id);
  users->Set(id, user, absl::FromChrono(std::chrono::seconds(30)));
  EXPECT_LE(users->TimeToLive(id), absl::Seconds(30));
}

// A cache whose time the test turns.
class TimedExamples : public CacheExamples {
 protected:
  TimedExamples() {
    options.clock = &clock;
    options.reaper = nullptr;
    options.jitter = 0;
  }
  SimulatedClock clock;
  CacheOptions options;
  Database database;
};

TEST_F(TimedExamples, RememberWhatIsNotThere) {
  using Users = wheelcache::Cache<int, std::optional<User>>;
  auto users = *Users::Create(options);
  const int id = -1;
  const auto ask = [&] {
    auto user = users->FindOrLoad(id, {}, [&]() -> Users::LoadResult {
      absl::StatusOr<Row> row = database.Read(id);
      if (absl::IsNotFound(row.status())) {
        return wheelcache::Loaded<std::optional<User>>{std::nullopt,
                                                       absl::Seconds(5)};
      }
      if (!row.ok()) return row.status();
      return Parse(*row);
    });
    return user.ok() && !user->value().has_value();
  };
  EXPECT_TRUE(ask());
  EXPECT_TRUE(ask());
  EXPECT_EQ(database.reads, 1);
  clock.Advance(absl::Seconds(5));
  EXPECT_TRUE(ask());
  EXPECT_EQ(database.reads, 2);
}

TEST_F(TimedExamples, KeepFreshAndRideOutAnOutage) {
  struct Pool {
    void Add(std::function<void()> task) { tasks.push_back(std::move(task)); }
    std::vector<std::function<void()>> tasks;
  } pool;
  options.default_ttl = absl::Minutes(10);
  options.refresh_after = absl::Minutes(1);
  options.retry_after = absl::Seconds(5);
  wheelcache::Cache<int, User>::Hooks hooks;
  hooks.load = [&](int id) -> absl::StatusOr<User> {
    absl::StatusOr<Row> row = database.Read(id);
    if (!row.ok()) return row.status();
    return Parse(*row);
  };
  hooks.executor = [&](std::function<void()> task) {
    pool.Add(std::move(task));
  };
  auto users = wheelcache::Cache<int, User>::Create(options, hooks);
  ASSERT_TRUE(users.ok());
  (*users)->Set(7, User{"old"});
  clock.Advance(absl::Minutes(1));
  const auto name = [&, id = 7] {
    auto user = (*users)->FindOrLoad(id);
    for (auto& task : std::exchange(pool.tasks, {})) task();
    return user->value().name;
  };
  database.down = true;
  EXPECT_EQ(name(), "old");
  clock.Advance(absl::Seconds(5));
  database.down = false;
  EXPECT_EQ(name(), "old");
  EXPECT_EQ(name(), "alice");
  EXPECT_EQ(database.reads, 2);
}

TEST_F(CacheExamples, LoadAPageOfKeys) {
  using Users = Cache<int, User>;
  auto users = *Users::Create({});
  users->Set(2, User{"known"});
  const std::vector<int> ids = {1, 2, 3};
  auto found =
      users->FindOrLoadMany(ids, {}, [&](absl::Span<const size_t> missing) {
        std::vector<Users::LoadResult> rows;
        for (const size_t i : missing) rows.emplace_back(NewUser(ids[i]));
        return rows;
      });
  EXPECT_EQ((*found[0])->name, "user 1");
  EXPECT_EQ((*found[1])->name, "known");
  EXPECT_EQ((*found[2])->name, "user 3");
  std::vector<Users::Handle> handles(ids.size());
  users->FindMany(ids, absl::MakeSpan(handles));
  EXPECT_EQ(handles[1]->name, "known");
}

// As protoc makes them.
struct Profile {
  size_t SpaceUsedLong() const { return sizeof(*this) + text.capacity(); }
  std::string text;
};

Profile ParseProfile(std::string_view bytes) { return {std::string(bytes)}; }

TEST_F(CacheExamples, SharedObjects) {
  CacheOptions options;
  const std::string bytes(1000, 'x');
  using Profiles =
      wheelcache::Cache<std::string, std::shared_ptr<const Profile>>;
  Profiles::Hooks hooks;
  hooks.weigher = [](std::string_view key,
                     const std::shared_ptr<const Profile>& profile) {
    return key.size() + sizeof(profile) + profile->SpaceUsedLong();
  };
  options.max_bytes = 64 << 20;
  auto profiles = *Profiles::Create(options, hooks);
  profiles->Set("ada", std::make_shared<const Profile>(ParseProfile(bytes)));
  EXPECT_EQ((*profiles->Get("ada"))->text, bytes);
  EXPECT_GE(profiles->bytes(), 1000);
}

TEST_F(TimedExamples, KeepSessionsWhileTheyAreUsed) {
  options.idle_ttl = absl::Minutes(30);   // Log out who does nothing,
  options.default_ttl = absl::Hours(12);  // and everybody once a day.
  options.jitter = 0;
  auto sessions = *wheelcache::Cache<std::string, Session>::Create(options);
  const std::string cookie = "4711";
  sessions->Set(cookie, Session());
  const auto request = [&]() -> absl::Status {
    auto session = sessions->Find(cookie);  // For half an hour more.
    if (!session) return absl::UnauthenticatedError("please log in");
    return absl::OkStatus();
  };
  for (int i = 0; i < 36; ++i) {
    EXPECT_TRUE(request().ok()) << i;
    clock.Advance(absl::Minutes(20));
  }
  EXPECT_FALSE(request().ok());
  sessions->Set(cookie, Session());
  clock.Advance(absl::Minutes(30));
  EXPECT_FALSE(request().ok());
}

TEST_F(CacheExamples, UseATokenOnce) {
  auto tokens = *Cache<std::string, std::string>::Create({});
  const auto LogIn = [](std::string_view user) { Record("log in", user); };
  const std::string token = "secret";
  const std::string user = "alice";
  tokens->Set(token, user, absl::Minutes(5));
  if (auto owner = tokens->Take(token)) LogIn(*owner);  // For one caller alone.
  if (auto owner = tokens->Take(token)) LogIn(*owner);
  EXPECT_THAT(deeds, ElementsAre("log in alice"));
}

absl::Status Shrink(AnyCache* cache) {
  if (absl::Status status = cache->SetLimits(wheelcache::kUnlimited, 32 << 20);
      !status.ok()) {
    return status;
  }
  return absl::OkStatus();
}

TEST_F(CacheExamples, LimitsFollowTheMachine) {
  auto cache = *Cache<int, int>::Create({});
  EXPECT_TRUE(Shrink(cache.get()).ok());
  EXPECT_EQ(cache->limits().bytes, 32 << 20);
}

TEST_F(CacheExamples, Watch) {
  auto cache = *Cache<int, int>::Create({});
  std::cout << wheelcache::PrometheusText();  // All caches of the process.
  std::ofstream("caches.html") << wheelcache::StatusPage();
  std::ifstream page("caches.html");
  std::string line;
  EXPECT_TRUE(std::getline(page, line));
}

TEST_F(CacheExamples, TestWithoutSleeping) {
  wheelcache::SimulatedClock clock;
  wheelcache::CacheOptions options;
  options.clock = &clock;
  options.reaper = nullptr;
  options.jitter = 0;
  auto cache = *wheelcache::Cache<int, std::string>::Create(options);
  cache->Set(1, "one", absl::Seconds(30));
  clock.Advance(absl::Seconds(30));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheExamples, Share) {
  const auto users = Cache<int, int>::Create({}).value();
  const auto images = Cache<int, std::string>::Create({}).value();
  wheelcache::MemoryShareOptions options;
  options.max_bytes = 1 << 30;
  auto share = *wheelcache::MemoryShare::Create(options);
  absl::Status status = share->Add(*users);
  status.Update(share->Add(*images, {/*min_bytes=*/64 << 20}));
  EXPECT_TRUE(status.ok()) << status;
  for (const auto& member : share->stats().members) {
    std::cout << member.name << ": " << member.bytes << " bytes\n";
  }
  EXPECT_EQ(images->limits().bytes, 512 << 20);
}

TEST_F(CacheExamples, SharePressure) {
  const auto make = [] {
    wheelcache::MemoryShareOptions options;
    options.max_bytes = 4LL << 30;
    options.pressure = wheelcache::MemoryPressureOptions();  // Its cgroup.
    auto share = wheelcache::MemoryShare::Create(options);
    return share.status();
  };
  const absl::Status status = make();  // NotFound where there is no version 2.
  EXPECT_EQ(status.ok(), wheelcache::ReadCgroup().ok()) << status;
}

void Log(const absl::Status& status) {
  deeds.push_back(std::string(absl::StatusCodeToString(status.code())));
}

TEST_F(CacheExamples, Snapshot) {
  ASSERT_EQ(chdir(::testing::TempDir().c_str()), 0);
  unlink("users.snapshot");
  for (int start = 0; start < 2; ++start) {
    auto cache = Cache<std::string, std::string>::Create({}).value();
    {
      auto loaded = wheelcache::LoadSnapshotFile(*cache, "users.snapshot");
      if (!loaded.ok()) Log(loaded.status());  // NotFound: there is none.
    }
    EXPECT_EQ(cache->Get("ada").has_value(), start == 1);
    cache->Set("ada", "Lovelace");
    {
      auto saved = wheelcache::SaveSnapshotFile(*cache, "users.snapshot");
      if (!saved.ok()) Log(saved.status());
    }
  }
  EXPECT_THAT(deeds, ElementsAre("NOT_FOUND"));
}

namespace snapshots {

struct User {
  int visits = 0;
  std::string name;
};

struct UserCodec : wheelcache::SnapshotCodec<int64_t, User> {
  static std::string name() { return "user"; }
  static uint32_t version() { return 2; }
  static void EncodeValue(const User& user, std::string* bytes) {
    absl::StrAppend(bytes, user.visits, " ", user.name);
  }
  static absl::StatusOr<User> DecodeValue(absl::string_view bytes) {
    std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(bytes, absl::MaxSplits(' ', 1));
    User user;
    if (!absl::SimpleAtoi(parts.first, &user.visits)) {
      return absl::DataLossError("must begin with a number of visits");
    }
    user.name = std::string(parts.second);
    return user;
  }
};

TEST(SnapshotExamples, Codec) {
  ASSERT_EQ(chdir(::testing::TempDir().c_str()), 0);
  auto users = Cache<int64_t, User>::Create({}).value();
  users->Set(1, User{3, "Ada Lovelace"});
  auto saved =
      wheelcache::SaveSnapshotFile(*users, "users.snapshot", UserCodec());
  EXPECT_TRUE(saved.ok()) << saved.status();
  users->Clear();
  EXPECT_TRUE(LoadSnapshotFile(*users, "users.snapshot", UserCodec()).ok());
  EXPECT_EQ(users->Get(1)->name, "Ada Lovelace");
  EXPECT_FALSE(UserCodec::DecodeValue("Ada").ok());
}

}  // namespace snapshots

}  // namespace
}  // namespace wheelcache

// A cache that is compiled in one file alone.
struct Session {
  int user = 0;
};

// sessions.h
using Sessions = wheelcache::Cache<std::string, Session>;
extern template class wheelcache::Cache<std::string, Session>;

// sessions.cc
template class wheelcache::Cache<std::string, Session>;

TEST(SeparateCompilationExamples, ExternTemplate) {
  auto sessions = *Sessions::Create({});
  sessions->Set("ada", Session{7});
  EXPECT_EQ(sessions->Get("ada")->user, 7);
}
