#include "wheelcache/benchmarks/access_runtime.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace wheelcache::benchmarks {
namespace {

struct Listener {
  LineModel* model;
  int core;
};
thread_local Listener listener = {nullptr, 0};

// The model's own memory is none of the program's.
class Silence {
 public:
  Silence() : model_(listener.model) { listener.model = nullptr; }
  ~Silence() { listener.model = model_; }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

  LineModel* model() const { return model_; }

 private:
  LineModel* const model_;
};

void Read(const volatile void* address, size_t bytes, void* by) {
  if (listener.model == nullptr) return;
  const Silence silence;
  silence.model()->Read(listener.core, address, bytes,
                        reinterpret_cast<uintptr_t>(by));
}

void Write(const volatile void* address, size_t bytes, void* by) {
  if (listener.model == nullptr) return;
  const Silence silence;
  silence.model()->Write(listener.core, address, bytes,
                         reinterpret_cast<uintptr_t>(by));
}

}  // namespace

void ListenToAccesses(LineModel* model, int core) { listener = {model, core}; }

}  // namespace wheelcache::benchmarks

using wheelcache::benchmarks::Read;
using wheelcache::benchmarks::Write;

#define BY __builtin_return_address(0)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void** at) { Read(at, sizeof(*at), BY); }
void __tsan_vptr_update(void** at, void* value) {
  Write(at, sizeof(*at), BY);
  static_cast<void>(value);
}
void __tsan_read_range(void* at, size_t bytes) { Read(at, bytes, BY); }
void __tsan_write_range(void* at, size_t bytes) { Write(at, bytes, BY); }

#define PLAIN(bytes)                                                     \
  void __tsan_read##bytes(void* at) { Read(at, bytes, BY); }             \
  void __tsan_write##bytes(void* at) { Write(at, bytes, BY); }           \
  void __tsan_unaligned_read##bytes(void* at) { Read(at, bytes, BY); }   \
  void __tsan_unaligned_write##bytes(void* at) { Write(at, bytes, BY); } \
  void __tsan_read_write##bytes(void* at) { Write(at, bytes, BY); }      \
  void __tsan_unaligned_read_write##bytes(void* at) { Write(at, bytes, BY); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
#undef PLAIN

#define FETCH(bits, name)                                                  \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t* at, \
                                              uint##bits##_t value, int) { \
    Write(at, bits / 8, BY);                                               \
    return __atomic_##name(at, value, __ATOMIC_SEQ_CST);                   \
  }
#define EXCHANGE(bits, name)                                                \
  int __tsan_atomic##bits##_##name(volatile uint##bits##_t* at,             \
                                   uint##bits##_t* expected,                \
                                   uint##bits##_t value, int, int) {        \
    /* One that fails has fetched the line for itself alone as well. */     \
    Write(at, bits / 8, BY);                                                \
    return __atomic_compare_exchange_n(at, expected, value, false,          \
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define ATOMIC(bits)                                                           \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* at, \
                                            int) {                             \
    Read(at, bits / 8, BY);                                                    \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                              \
  }                                                                            \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* at,                \
                                   uint##bits##_t value, int) {                \
    Write(at, bits / 8, BY);                                                   \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                             \
  }                                                                            \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* at,   \
                                                uint##bits##_t value, int) {   \
    Write(at, bits / 8, BY);                                                   \
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                   \
  }                                                                            \
  FETCH(bits, fetch_add)                                                       \
  FETCH(bits, fetch_sub)                                                       \
  FETCH(bits, fetch_and)                                                       \
  FETCH(bits, fetch_or)                                                        \
  FETCH(bits, fetch_xor)                                                       \
  EXCHANGE(bits, compare_exchange_strong)                                      \
  EXCHANGE(bits, compare_exchange_weak)                                        \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                   \
      volatile uint##bits##_t* at, uint##bits##_t expected,                    \
      uint##bits##_t value, int, int) {                                        \
    Write(at, bits / 8, BY);                                                   \
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, \
                                __ATOMIC_SEQ_CST);                             \
    return expected;                                                           \
  }
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)
#undef ATOMIC
#undef EXCHANGE
#undef FETCH

void __tsan_atomic_thread_fence(int) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

// What wheel/base/mutex.h tells ThreadSanitizer of locks.
void __tsan_mutex_pre_lock(void*, unsigned) {}
void __tsan_mutex_post_lock(void*, unsigned, int) {}
int __tsan_mutex_pre_unlock(void*, unsigned) { return 1; }
void __tsan_mutex_post_unlock(void*, unsigned) {}

// In the place of pthread's, by --wrap.
int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t* mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  Write(mutex, sizeof(int), BY);
  return __real_pthread_mutex_lock(mutex);
}
int __wrap_pthread_mutex_trylock(pthread_mutex_t* mutex) {
  Write(mutex, sizeof(int), BY);
  return __real_pthread_mutex_trylock(mutex);
}
int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  Write(mutex, sizeof(int), BY);
  return __real_pthread_mutex_unlock(mutex);
}

}  // extern "C"
