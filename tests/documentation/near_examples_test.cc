// The examples that cache/near/ shows, each in a frame that supplies what is
// the reader's. documentation_test.cc compares them with the headers.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/heartbeat.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/wheel/clock.h"

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
  wheelcache::internal::Heartbeat heartbeat(max_staleness, now_nanos);
  for (int i = 0; i < 2; ++i) {
    if (now_nanos >= heartbeat.next_nanos()) {
      heartbeat.Send(now_nanos);  // The reading before the PING is written.
    }
    if (auto until_nanos = heartbeat.Answer()) {
      listener->OnLease(session, *until_nanos);
    }
  }
  EXPECT_EQ(lease.until, 7 + absl::ToInt64Nanoseconds(max_staleness));
}

}  // namespace
}  // namespace wheelcache
