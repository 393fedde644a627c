// The URLs of a Redis server that are understood, and what is said of others.

#include "wheelcache/cache/near/internal/redis/server_url.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

std::string Described(absl::string_view url) {
  const absl::StatusOr<ServerUrl> parsed = ParseServerUrl(url);
  if (!parsed.ok()) return std::string(parsed.status().message());
  return absl::StrCat(parsed->name(), " as \"", parsed->user, "\" with \"",
                      parsed->password, "\" in ", parsed->database);
}

TEST(ServerUrlTest, HostPortAndDatabaseMayBeLeftOut) {
  EXPECT_EQ(Described("redis://host"), "host:6379 as \"\" with \"\" in 0");
  EXPECT_EQ(Described("redis://host/"), "host:6379 as \"\" with \"\" in 0");
  EXPECT_EQ(Described("redis://host:1/12"), "host:1 as \"\" with \"\" in 12");
  EXPECT_EQ(Described("redis://1.2.3.4:65535"),
            "1.2.3.4:65535 as \"\" with \"\" in 0");
}

TEST(ServerUrlTest, UserAndPasswordMayHaveAnyCharacters) {
  EXPECT_EQ(Described("redis://ann:secret@host"),
            "host:6379 as \"ann\" with \"secret\" in 0");
  EXPECT_EQ(Described("redis://:secret@host"),
            "host:6379 as \"\" with \"secret\" in 0");
  EXPECT_EQ(Described("redis://a%3Ab:%40%2f%25:@host"),
            "host:6379 as \"a:b\" with \"@/%:\" in 0");
  EXPECT_EQ(Described("redis://ann:p@ss@host"),
            "host:6379 as \"ann\" with \"p@ss\" in 0");
}

TEST(ServerUrlTest, IPv6StandsInBrackets) {
  EXPECT_EQ(Described("redis://[::1]"), "[::1]:6379 as \"\" with \"\" in 0");
  EXPECT_EQ(Described("redis://ann:x@[fe80::1]:7/2"),
            "[fe80::1]:7 as \"ann\" with \"x\" in 2");
}

TEST(ServerUrlTest, PathOfASocketMayHaveADatabase) {
  EXPECT_EQ(Described("unix:///run/redis.sock"),
            "/run/redis.sock as \"\" with \"\" in 0");
  EXPECT_EQ(Described("unix:///run/a@b.sock?db=3"),
            "/run/a@b.sock as \"\" with \"\" in 3");
  EXPECT_EQ(Described("unix://ann:secret@/run/redis.sock"),
            "/run/redis.sock as \"ann\" with \"secret\" in 0");
}

TEST(ServerUrlTest, WhatIsWrongIsNamedWithItsRule) {
  struct Case {
    std::string url;
    absl::string_view start;
  };
  for (const Case& each : {
           Case{"",
                "url: there is no scheme before \"://\"; a URL is redis://"},
           Case{"localhost:6379", "url: there is no scheme before \"://\""},
           Case{"http://host", "url: scheme \"http\" is neither redis nor"},
           Case{"rediss://host", "url: scheme \"rediss\" needs TLS"},
           Case{"redis://", "url: host \"\" is empty"},
           Case{"redis:///1", "url: host \"\" is empty"},
           Case{"redis://:7", "url: host \":7\" is empty"},
           Case{"redis://host:", "url: port \"\" is not a number from 1"},
           Case{"redis://host:0", "url: port \"0\" is not a number from 1"},
           Case{"redis://host:65536", "url: port \"65536\" is not a number"},
           Case{"redis://host:6379x", "url: what follows the \":\" is neither"},
           Case{"redis://host/-1", "url: database \"-1\" is not a number from"},
           Case{"redis://host/1/2", "url: database \"1/2\" is not a number"},
           Case{"redis://a:b:1", "url: the host has two \":\"; IPv6 stands in"},
           Case{"redis://[::1", "url: host \"[::1\" has no \"]\""},
           Case{"redis://[[a]", "url: the host has other characters"},
           Case{"redis://[::1]7", "url: host \"[::1]7\" has more after"},
           Case{"redis://ann@host", "url: the user has no password after it"},
           Case{"redis://ann:a%@host", "url: the user or the password has a"},
           Case{"redis://ann:a%4@host", "url: the user or the password has a"},
           Case{"redis://ann:a%zz@host", "url: the user or the password has a"},
           Case{"redis://ann:a/b@host",
                "url: there is a \"/\" or \"?\" before"},
           Case{"unix://run/redis.sock", "url: path \"run/redis.sock\" does"},
           Case{"unix://", "url: path \"\" does not begin with \"/\""},
           Case{"unix:///a?x=1", "url: query \"x=1\" is not db=<number>"},
           Case{"unix:///a?db=x", "url: database \"x\" is not a number"},
           Case{"unix:///" + std::string(200, 'a'), "url: path \"/aaa"},
           Case{std::string("redis://a\0b", 11), "url: has a null character"},
       }) {
    const absl::StatusOr<ServerUrl> parsed = ParseServerUrl(each.url);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << each.url;
    EXPECT_TRUE(absl::StartsWith(parsed.status().message(), each.start))
        << parsed.status();
  }
}

TEST(ServerUrlTest, NoMessageShowsThePassword) {
  for (const absl::string_view url :
       {"redis://ann:secret", "redis://ann:secret:1", "redis://ann:secret@",
        "redis://ann:secret@host:x", "redis://ann:secret/@host",
        "redis://ann:secret%@host", "ann:secret@host", "unix://ann:secret@run",
        "redis://secret@host", "redis:///ann:secret@host",
        "redis://host/ann:secret@host", "ann:secret@redis://host",
        "redis://@host/ann:secret@", "unix:///path?db=ann:secret@"}) {
    const absl::StatusOr<ServerUrl> parsed = ParseServerUrl(url);
    EXPECT_FALSE(parsed.ok()) << url;
    EXPECT_FALSE(absl::StrContains(parsed.status().message(), "secret"))
        << parsed.status();
  }
}

}  // namespace
}  // namespace wheelcache::internal
