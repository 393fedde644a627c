// A timer service on simulated time that notes what it calls back and when.

#ifndef WHEELCACHE_TESTS_TESTING_TIMER_SERVICE_TEST_BASE_H_
#define WHEELCACHE_TESTS_TESTING_TIMER_SERVICE_TEST_BASE_H_

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_service.h"

namespace wheelcache::testing {

// A callback: of which key and value, and how many seconds after the start.
struct Fired {
  std::string key;
  int value;
  double at;

  friend bool operator==(const Fired& a, const Fired& b) {
    return a.key == b.key && a.value == b.value && a.at == b.at;
  }
  friend std::ostream& operator<<(std::ostream& out, const Fired& fired) {
    return out << fired.key << "=" << fired.value << " at " << fired.at << "s";
  }
};

class TimerServiceTestBase : public ::testing::Test {
 protected:
  using Service = TimerService<std::string, int>;
  using Execute = decltype(Service::Options::execute);

  // On this test's clock, with an interval of a second.
  Service::Options DefaultOptions() {
    Service::Options options;
    options.interval = absl::Seconds(1);
    options.clock = &clock_;
    options.execute = [this](const std::string& key, int value) {
      Note(key, value);
    };
    return options;
  }

  void Start(Service::Options options) {
    auto service = Service::Create(std::move(options));
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
  }
  void Start() { Start(DefaultOptions()); }

  // Starts with a callback that also does `more`.
  void StartWith(const Execute& more) {
    Service::Options options = DefaultOptions();
    options.execute = [this, more](const std::string& key, int value) {
      Note(key, value);
      more(key, value);
    };
    Start(std::move(options));
  }

  void Set(const std::string& key, int value, double seconds) {
    const absl::Status status =
        service_->Set(key, value, absl::Seconds(seconds));
    EXPECT_TRUE(status.ok()) << status;
  }
  void Move(const std::string& key, double seconds) {
    const absl::Status status = service_->Move(key, absl::Seconds(seconds));
    EXPECT_TRUE(status.ok()) << status;
  }
  void Remove(const std::string& key) {
    const absl::Status status = service_->Remove(key);
    EXPECT_TRUE(status.ok()) << status;
  }
  void RunFor(double seconds) { clock_.RunFor(absl::Seconds(seconds)); }

  void Note(const std::string& key, int value) {
    MutexLock lock(&mu_);
    fired_.push_back({key, value, now()});
  }

  // What was called back since the last call of this.
  std::vector<Fired> TakeFired() {
    MutexLock lock(&mu_);
    return std::exchange(fired_, {});
  }

  double now() const { return absl::ToDoubleSeconds(clock_.Now() - start_); }

  const absl::Duration start_ = absl::Hours(1);
  SimulatedClock clock_{start_};

 private:
  Mutex mu_;
  std::vector<Fired> fired_ ABSL_GUARDED_BY(mu_);

 protected:
  std::unique_ptr<Service> service_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_TIMER_SERVICE_TEST_BASE_H_
