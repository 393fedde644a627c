// The programs of docs/guide.md, each in a frame that supplies what is the
// reader's. documentation_test.cc compares them with the page.

#include <cstddef>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/prometheus.h"
#include "wheelcache/cache/status_page.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

struct User {
  std::string name;
};
struct Row {
  std::string text;
};

User ParseUser(const Row& row) { return {row.text}; }
User NewUser(int id) { return {"user " + std::to_string(id)}; }

struct Database {
  absl::StatusOr<Row> Read(int id) {
    ++reads;
    if (down) return absl::UnavailableError("down");
    if (id < 0) return absl::NotFoundError("no such row");
    return Row{"user " + std::to_string(id)};
  }
  int reads = 0;
  bool down = false;
};

class GuideExamples : public ::testing::Test {
 protected:
  static inline std::vector<std::string> greeted;
  static void Greet(const std::string& name) { greeted.push_back(name); }

  GuideExamples() { greeted.clear(); }

  Database database;
};

TEST_F(GuideExamples, CacheARow) {
  const int id = 7;
  const auto serve = [&]() -> absl::Status {
    wheelcache::CacheOptions options;
    options.name = "users";
    options.max_bytes = 64 << 20;
    options.default_ttl = absl::Minutes(10);
    auto users = wheelcache::Cache<int, User>::Create(options);
    if (!users.ok()) return users.status();

    auto user = (*users)->FindOrLoad(
        id, {}, [&]() -> absl::StatusOr<wheelcache::Loaded<User>> {
          absl::StatusOr<Row> row = database.Read(id);
          if (!row.ok()) return row.status();
          return wheelcache::Loaded<User>{ParseUser(*row)};
        });
    if (!user.ok()) return user.status();
    Greet((*user)->name);
    return absl::OkStatus();
  };
  EXPECT_TRUE(serve().ok());
  EXPECT_THAT(greeted, ElementsAre("user 7"));
}

TEST_F(GuideExamples, RememberWhatIsNotThere) {
  SimulatedClock clock;
  CacheOptions setting;
  setting.clock = &clock;
  setting.reaper = nullptr;
  setting.jitter = 0;
  using Users = wheelcache::Cache<int, std::optional<User>>;
  auto users = *Users::Create(setting);
  const int id = -1;
  const auto ask = [&] {
    auto user = users->FindOrLoad(
        id, {},
        [&]() -> absl::StatusOr<wheelcache::Loaded<std::optional<User>>> {
          absl::StatusOr<Row> row = database.Read(id);
          if (absl::IsNotFound(row.status())) {
            return wheelcache::Loaded<std::optional<User>>{std::nullopt,
                                                           absl::Seconds(5)};
          }
          if (!row.ok()) return row.status();
          return wheelcache::Loaded<std::optional<User>>{ParseUser(*row)};
        });
    return user.ok() && user->value() == std::nullopt;
  };
  EXPECT_TRUE(ask());
  EXPECT_TRUE(ask());
  EXPECT_EQ(database.reads, 1);
  clock.Advance(absl::Seconds(5));
  EXPECT_TRUE(ask());
  EXPECT_EQ(database.reads, 2);
}

TEST_F(GuideExamples, KeepFreshAndRideOutAnOutage) {
  struct Pool {
    void Add(std::function<void()> task) { tasks.push_back(std::move(task)); }
    std::vector<std::function<void()>> tasks;
  } pool;
  SimulatedClock clock;
  CacheOptions options;
  options.clock = &clock;
  options.reaper = nullptr;
  options.jitter = 0;
  options.default_ttl = absl::Minutes(10);
  options.refresh_after = absl::Minutes(1);
  options.retry_after = absl::Seconds(5);
  wheelcache::Cache<int, User>::Hooks hooks;
  hooks.reload = [&](int id,
                     const User&) -> absl::StatusOr<wheelcache::Loaded<User>> {
    absl::StatusOr<Row> row = database.Read(id);
    if (!row.ok()) return row.status();
    return wheelcache::Loaded<User>{ParseUser(*row)};
  };
  hooks.executor = [&](std::function<void()> task) {
    pool.Add(std::move(task));
  };
  auto users = wheelcache::Cache<int, User>::Create(options, hooks);
  ASSERT_TRUE(users.ok());
  (*users)->Set(7, User{"old"});
  clock.Advance(absl::Minutes(1));
  const auto name = [&] {
    const auto user = (*users)->GetOrLoad(7, []() -> absl::StatusOr<User> {
      return absl::InternalError("not called");
    });
    for (auto& task : std::exchange(pool.tasks, {})) task();
    return user->name;
  };
  database.down = true;
  EXPECT_EQ(name(), "old");
  clock.Advance(absl::Seconds(5));
  database.down = false;
  EXPECT_EQ(name(), "old");
  EXPECT_EQ(name(), "user 7");
  EXPECT_EQ(database.reads, 2);
}

struct Connection {
  void Read(int id, absl::AnyInvocable<void(const Row&)> done) const {
    done(*Database().Read(id));
  }
};
struct Reply {
  void Send(const absl::StatusOr<Cache<int, User>::Handle>& user) const {
    names->push_back((*user)->name);
  }
  std::vector<std::string>* names;
};

void Serve(Cache<int, User>* users, int id, Reply reply) {
  const Connection connection;
  auto ticket =
      users->BeginLoad(id, {}, [reply](const auto& user) { reply.Send(user); });
  if (!ticket) return;  // A hit, or another caller loads.
  connection.Read(id, [ticket = std::move(ticket)](const Row& row) mutable {
    ticket.Finish(wheelcache::Loaded<User>{ParseUser(row)});
  });
}

TEST_F(GuideExamples, LoadWithoutABlockedThread) {
  auto users = *Cache<int, User>::Create({});
  std::vector<std::string> names;
  Serve(users.get(), 7, {&names});
  Serve(users.get(), 7, {&names});
  EXPECT_THAT(names, ElementsAre("user 7", "user 7"));
}

TEST_F(GuideExamples, LoadAPageOfKeys) {
  auto users = *Cache<int, User>::Create({});
  users->Set(2, User{"known"});
  const std::vector<int> ids = {1, 2, 3};
  auto found =
      users->FindOrLoadMany(ids, {}, [&](absl::Span<const size_t> missing) {
        std::vector<absl::StatusOr<wheelcache::Loaded<User>>> rows;
        for (const size_t i : missing) {
          rows.emplace_back(wheelcache::Loaded<User>{NewUser(ids[i])});
        }
        return rows;
      });
  EXPECT_EQ((*found[0])->name, "user 1");
  EXPECT_EQ((*found[1])->name, "known");
  EXPECT_EQ((*found[2])->name, "user 3");
}

TEST_F(GuideExamples, LimitARate) {
  using Requests = wheelcache::Cache<std::string, int>;
  auto requests = *Requests::Create({});
  const std::string user = "alice";
  int admissions = 0;
  for (int i = 0; i < 200; ++i) {
    const bool admitted =
        requests->Update(user, [](const Requests::Handle& count) {
          if (!count) return Requests::Decision::Set(1, absl::Minutes(1));
          if (*count == 100) return Requests::Decision::Keep();
          return Requests::Decision::Set(*count + 1);  // Keeps the deadline.
        });
    admissions += admitted ? 1 : 0;
  }
  EXPECT_EQ(admissions, 100);
}

TEST_F(GuideExamples, UseATokenOnce) {
  auto tokens = *Cache<std::string, std::string>::Create({});
  int logins = 0;
  const auto LogIn = [&](std::string_view) { ++logins; };
  const std::string token = "secret";
  const std::string user = "alice";
  tokens->Set(token, user, absl::Minutes(5));
  if (auto owner = tokens->Take(token)) LogIn(*owner);  // For one caller alone.
  if (auto owner = tokens->Take(token)) LogIn(*owner);
  EXPECT_EQ(logins, 1);
}

TEST_F(GuideExamples, DropATenant) {
  auto cache = *Cache<std::string, int>::Create({});
  cache->Set("acme/1", 1);
  cache->Set("acme/2", 2);
  cache->Set("other/1", 3);
  const std::string tenant = "acme";
  cache->EraseIf([&](const auto& entry) {
    return entry.key().rfind(tenant + "/", 0) == 0;
  });
  EXPECT_EQ(cache->size(), 1);
}

TEST_F(GuideExamples, SizeACache) {
  auto cache = *Cache<std::string, int>::Create({});
  const auto shrink = [&] {
    if (absl::Status status =
            cache->SetLimits(wheelcache::kUnlimited, 32 << 20);
        !status.ok()) {
      return status;
    }
    return absl::OkStatus();
  };
  if (const auto advice = cache->Advise()) {
    std::cout << "with twice the limits: " << advice->twice << "\n";
  }
  EXPECT_TRUE(shrink().ok());
  EXPECT_EQ(cache->limits().bytes, 32 << 20);
}

TEST_F(GuideExamples, Watch) {
  auto cache = *Cache<int, int>::Create({});
  std::cout << wheelcache::PrometheusText();  // All caches of the process.
  std::ofstream("caches.html") << wheelcache::StatusPage();
  std::ifstream page("caches.html");
  std::string line;
  EXPECT_TRUE(std::getline(page, line));
}

TEST_F(GuideExamples, TestWithoutSleeping) {
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

}  // namespace
}  // namespace wheelcache
