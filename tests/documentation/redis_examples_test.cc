// The examples that cache/near/redis_store.h and cache/near/internal/redis/
// show, each in a frame that supplies what is the reader's.
// documentation_test.cc compares them with the headers.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/internal/redis/backoff.h"
#include "wheelcache/cache/near/internal/redis/command.h"
#include "wheelcache/cache/near/internal/redis/reply.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/redis_store.h"

namespace wheelcache {
namespace {

absl::Status CreateAStore() {
  wheelcache::RedisStoreOptions options;
  options.url = "redis://127.0.0.1:6379/0";
  auto store = wheelcache::RedisStore::Create(options);
  if (!store.ok()) return store.status();
  return absl::OkStatus();
}

TEST(RedisExamples, CreatesAStoreWithoutAServer) {
  EXPECT_TRUE(CreateAStore().ok());
}

}  // namespace

namespace internal {
namespace {

absl::Status ParseAUrl() {
  absl::StatusOr<ServerUrl> url =
      ParseServerUrl("redis://reader:secret@cache.example:6379/2");
  if (!url.ok()) return url.status();
  EXPECT_EQ(url->host, "cache.example");
  EXPECT_EQ(url->database, 2);
  return absl::OkStatus();
}

TEST(RedisExamples, ServerUrl) { EXPECT_TRUE(ParseAUrl().ok()); }

bool AppendSet(absl::string_view key, absl::string_view value) {
  std::string bytes;
  AppendCommand({"SET", key, value, "PX", "250"}, &bytes);
  return absl::string_view(bytes).substr(0, 13) == "*5\r\n$3\r\nSET\r\n";
}

TEST(RedisExamples, Command) { EXPECT_TRUE(AppendSet("key", "value")); }

bool ReadReplies(absl::string_view bytes) {
  ReplyReader reader;
  reader.Feed(bytes);
  Reply reply;
  while (reader.Next(&reply) == ReplyReader::kReply) {
    if (IsError(*reply)) return false;  // TextOf(*reply) says what.
    EXPECT_EQ(TextOf(*reply), "OK");
  }
  return true;
}

TEST(RedisExamples, Reply) {
  EXPECT_TRUE(ReadReplies("+OK\r\n+OK\r\n"));
  EXPECT_FALSE(ReadReplies("+OK\r\n-ERR\r\n"));
}

TEST(RedisExamples, Backoff) {
  const int seed = 1;
  Backoff backoff(seed);
  absl::Duration pause = backoff.Next();  // Up to 50 ms.
  pause = backoff.Next();                 // Up to 100 ms.
  backoff.Reset();                        // It worked.
  EXPECT_LE(pause, absl::Milliseconds(100));
  EXPECT_LE(backoff.Next(), absl::Milliseconds(50));
}

}  // namespace
}  // namespace internal
}  // namespace wheelcache
