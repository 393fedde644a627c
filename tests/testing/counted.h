// A value for tests that ask when values are destroyed.
//
//   std::atomic<int64_t> values{0};
//   cache->Set(1, Counted(&values));
//   EXPECT_EQ(values.load(), 1);
//   cache->Del(1);
//   EXPECT_EQ(values.load(), 0);

#ifndef WHEELCACHE_TESTS_TESTING_COUNTED_H_
#define WHEELCACHE_TESTS_TESTING_COUNTED_H_

#include <atomic>
#include <cstdint>

namespace wheelcache::testing {

// Counts the objects that exist, copies included.
class Counted {
 public:
  explicit Counted(std::atomic<int64_t>* count) : count_(count) { ++*count_; }
  Counted(const Counted& other) : Counted(other.count_) {}
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*count_; }

 private:
  std::atomic<int64_t>* const count_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_COUNTED_H_
