// What tests of near caches have in common: a simulated clock, a server, and
// two stores that stand for two processes.
//
//   class MyTest : public NearEnvironment {};
//
//   TEST_F(MyTest, MissIsFetchedOnce) {
//     auto near = New<std::string>();
//     server_.Set("key", "value");
//     EXPECT_EQ(*near->Get("key"), "value");
//     EXPECT_EQ(*near->Get("key"), "value");
//     EXPECT_EQ(fetches(), 1);
//   }

#ifndef WHEELCACHE_TESTS_CACHE_NEAR_NEAR_ENVIRONMENT_H_
#define WHEELCACHE_TESTS_CACHE_NEAR_NEAR_ENVIRONMENT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/codec.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/testing/fake_server.h"
#include "wheelcache/cache/near/testing/fake_store.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {

class NearEnvironment : public ::testing::Test {
 protected:
  using Step = FakeStore::Step;
  using Request = FakeStore::Request;

  NearEnvironment() {
    options_.local.clock = &clock_;
    options_.local.reaper = nullptr;
    options_.local.jitter = 0;
    store_.set_interposer([this](Step step, const Request& request) {
      if (step == Step::kSent && request.command == Request::Command::kFetch) {
        ++fetches_;
      }
      if (interpose_) return interpose_(step, request);
      return absl::OkStatus();
    });
  }

  // A near cache with options_ as they are now.
  template <typename Value, typename Codec = DefaultCodec<Value>>
  auto New(Codec codec = {}) {
    return std::move(
        *NearCache<Value, Codec>::Create(options_, &store_, std::move(codec)));
  }

  // One of another process.
  template <typename Value>
  auto NewElsewhere() {
    return std::move(*NearCache<Value>::Create(options_, &other_store_));
  }

  // Calls `action` when the next request of store_ comes to a step.
  void Once(Step step, std::function<void()> action) {
    interpose_ = [this, step, action = std::move(action)](Step at,
                                                          const Request&) {
      if (at != step) return absl::OkStatus();
      const std::function<void()> last = action;
      interpose_ = nullptr;
      last();
      return absl::OkStatus();
    };
  }

  // Fails each request of store_ at a step.
  void Fail(Step step, absl::Status status) {
    interpose_ = [step, status = std::move(status)](Step at, const Request&) {
      return at == step ? status : absl::OkStatus();
    };
  }
  void Succeed() { interpose_ = nullptr; }

  // Asks `function` at each step of each request of store_.
  void Interpose(FakeStore::Interposer function) {
    interpose_ = std::move(function);
  }

  // Lets time pass as if the process had run all along.
  void RunFor(absl::Duration time) {
    const absl::Duration end = clock_.Now() + time;
    for (;;) {
      const absl::Duration due = absl::Nanoseconds(server_.RunDue());
      if (due > end) break;
      clock_.AdvanceTo(due);
    }
    clock_.AdvanceTo(end);
    server_.RunDue();
  }

  int fetches() const { return fetches_; }

  SimulatedClock clock_;
  FakeServer server_{&clock_};
  FakeStore store_{&server_};
  FakeStore other_store_{&server_};
  NearCacheOptions options_;

 private:
  std::atomic<int> fetches_{0};
  std::function<absl::Status(Step, const Request&)> interpose_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_CACHE_NEAR_NEAR_ENVIRONMENT_H_
