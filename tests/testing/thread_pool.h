// An executor: runs tasks on some threads, all of them before it ends.
//
//   ThreadPool pool(4);
//   hooks.executor = [&](std::function<void()> task) {
//     pool.Add(std::move(task));
//   };

#ifndef WHEELCACHE_TESTS_TESTING_THREAD_POOL_H_
#define WHEELCACHE_TESTS_TESTING_THREAD_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::testing {

class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { Work(); });
    }
  }
  ~ThreadPool() {
    for (size_t i = 0; i < threads_.size(); ++i) Add(nullptr);
    for (std::thread& thread : threads_) thread.join();
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void Add(std::function<void()> task) {
    MutexLock lock(&mu_);
    tasks_.push_back(std::move(task));
    added_.Signal();
  }

 private:
  void Work() {
    for (;;) {
      mu_.Lock();
      while (tasks_.empty()) added_.Wait(&mu_);
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      mu_.Unlock();
      if (task == nullptr) return;
      task();
    }
  }

  Mutex mu_;
  CondVar added_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_THREAD_POOL_H_
