#include "wheelcache/cache/near/testing/check_store.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using Fetched = RemoteStore::Fetched;

// How long something may take that has to happen, and a call beyond its
// timeout.
constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr absl::Duration kTolerance = absl::Seconds(5);

// The timeout of calls that are to fail.
constexpr absl::Duration kShort = absl::Milliseconds(50);

// How much later an end may seem, by a clock of the server's that counts
// milliseconds.
constexpr absl::Duration kRounding = absl::Milliseconds(1);

// The first fault of each check.
class Faults {
 public:
  void BeginCheck(absl::string_view name) {
    MutexLock lock(&mu_);
    check_ = std::string(name);
    found_ = false;
  }
  void Add(absl::string_view what) {
    MutexLock lock(&mu_);
    if (!found_) all_.push_back(absl::StrCat(check_, ": ", what));
    found_ = true;
  }
  std::vector<std::string> all() {
    MutexLock lock(&mu_);
    return all_;
  }

 private:
  Mutex mu_;
  std::string check_ ABSL_GUARDED_BY(mu_);
  bool found_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::string> all_ ABSL_GUARDED_BY(mu_);
};

// A listener that knows of the writes of others, and compares with them what it
// is told.
class Witness final : public RemoteStore::Listener {
 public:
  Witness(std::string prefix, absl::Duration max_staleness, const Clock& clock,
          Faults* faults)
      : prefix_(std::move(prefix)),
        bound_nanos_(absl::ToInt64Nanoseconds(max_staleness)),
        clock_(clock),
        faults_(*faults) {}

  const std::string& prefix() const { return prefix_; }

  // A key that nobody has written yet is written, between these two.
  void BeginWrite(const std::string& key) {
    MutexLock lock(&mu_);
    writes_.push_back({key, session_, Clock::kNever});
  }
  void EndWrite(const std::string& key) {
    MutexLock lock(&mu_);
    const auto found =
        std::find_if(writes_.rbegin(), writes_.rend(),
                     [&](const Write& write) { return write.key == key; });
    if (found != writes_.rend()) found->done_nanos = clock_.NowNanos();
  }

  // Nothing that the server sends from now on comes to the store, or does.
  void BeginHold() {
    MutexLock lock(&mu_);
    held_nanos_ = clock_.NowNanos();
  }
  void EndHold() {
    MutexLock lock(&mu_);
    held_nanos_ = Clock::kNever;
  }

  void EndOfCalls() {
    ended_.store(true);
    if (is_called_.load()) faults_.Add("Detach returned during a call");
  }

  uint64_t session() {
    MutexLock lock(&mu_);
    return session_;
  }
  int64_t until_nanos() {
    MutexLock lock(&mu_);
    return until_nanos_;
  }

  // Whether it was told of the key since it forgot, or of all keys.
  bool WasTold(const std::string& key) {
    MutexLock lock(&mu_);
    return all_told_ || told_.count(key) != 0;
  }
  void Forget() {
    MutexLock lock(&mu_);
    all_told_ = false;
    told_.clear();
  }

  void OnInvalidate(absl::Span<const absl::string_view> keys) override {
    const Call call(this);
    for (const absl::string_view key : keys) {
      if (!absl::StartsWith(key, prefix_)) {
        faults_.Add(absl::StrCat("\"", key, "\" was told to a listener of \"",
                                 prefix_, "\""));
      }
      MutexLock lock(&mu_);
      told_.insert(std::string(key));
      writes_.erase(
          std::remove_if(writes_.begin(), writes_.end(),
                         [&](const Write& write) { return write.key == key; }),
          writes_.end());
    }
  }

  void OnInvalidateAll() override {
    const Call call(this);
    MutexLock lock(&mu_);
    all_told_ = true;
    writes_.clear();
  }

  void OnLease(uint64_t session, int64_t until_nanos) override {
    const Call call(this);
    MutexLock lock(&mu_);
    const int64_t certified = until_nanos - bound_nanos_;
    if (session != session_) {
      BeginLocked(session);
    } else if (until_nanos < until_nanos_) {
      faults_.Add("the end of a lease went back");
    }
    until_nanos_ = until_nanos;
    if (certified > std::min(clock_.NowNanos(), held_nanos_)) {
      faults_.Add(
          "a lease certified what the store could not have heard of: it counts "
          "from before the question was sent, and not from the answer");
    }
    for (const Write& write : writes_) {
      if (write.session != session || write.done_nanos >= certified) continue;
      faults_.Add(absl::StrCat(
          "a lease certified the write of \"", write.key, "\" ",
          absl::FormatDuration(absl::Nanoseconds(certified - write.done_nanos)),
          " after it, before it was told"));
    }
  }

  void OnLoss(uint64_t session, const absl::Status& why) override {
    const Call call(this);
    if (why.ok()) faults_.Add("OnLoss came with an OK status");
    MutexLock lock(&mu_);
    if (session == 0) return;
    if (session_ != 0 && session != session_) {
      faults_.Add(
          absl::StrCat("OnLoss of session ", session, " during ", session_));
    }
    session_ = 0;
  }

 private:
  struct Write {
    std::string key;
    uint64_t session;  // That lasted before it; 0: none.
    int64_t done_nanos;
  };

  // One call of this listener.
  class Call {
   public:
    explicit Call(Witness* witness) : witness_(*witness) {
      if (witness_.is_called_.exchange(true)) {
        witness_.faults_.Add("calls of one listener overlapped");
      }
      if (witness_.ended_.load()) {
        witness_.faults_.Add("a listener was called after its Detach");
      }
    }
    ~Call() {
      for (int i = 0; i < 10; ++i) std::this_thread::yield();
      witness_.is_called_.store(false);
    }

   private:
    Witness& witness_;
  };

  void BeginLocked(uint64_t session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (session == 0) faults_.Add("a session had the number 0");
    if (session_ != 0) {
      faults_.Add(absl::StrCat("session ", session, " began, and ", session_,
                               " had no OnLoss"));
    }
    if (!begun_.insert(session).second) {
      faults_.Add(absl::StrCat("session ", session, " came twice"));
    }
    session_ = session;
  }

  const std::string prefix_;
  const int64_t bound_nanos_;
  const Clock& clock_;
  Faults& faults_;
  std::atomic<bool> is_called_{false};
  std::atomic<bool> ended_{false};

  Mutex mu_;
  uint64_t session_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t until_nanos_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t held_nanos_ ABSL_GUARDED_BY(mu_) = Clock::kNever;
  std::set<uint64_t> begun_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> told_ ABSL_GUARDED_BY(mu_);
  bool all_told_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Write> writes_ ABSL_GUARDED_BY(mu_);  // Not told yet.
};

// A store with a listener, for one check.
class Scene {
 private:
  template <typename Function>
  auto InTime(absl::string_view name, absl::Duration timeout, Function call) {
    const absl::Duration begin = clock().Now();
    auto result = call();
    const absl::Duration took = clock().Now() - begin;
    if (took > std::max(timeout, absl::ZeroDuration()) + kTolerance) {
      Fault(absl::StrCat(name, " took ", absl::FormatDuration(took),
                         "; its timeout was ", absl::FormatDuration(timeout)));
    }
    return result;
  }

 public:
  Scene(StoreUnderTest* subject, Faults* faults, size_t number)
      : subject_(*subject),
        faults_(*faults),
        store_(subject_.NewStore()),
        witness_(absl::StrCat("check", number, ":"), subject_.max_staleness(),
                 clock(), faults) {
    const absl::Status status = Attach(&witness_);
    if (!status.ok()) Fault(absl::StrCat("Attach: ", status.ToString()));
    Await("a first session", [&] { return witness_.session() != 0; });
    Write(NewKey(), "value");
    Read(NewKey());
  }
  ~Scene() {
    subject_.Release();
    store_->Detach(&witness_);
  }

  StoreUnderTest& subject() { return subject_; }
  RemoteStore& store() { return *store_; }
  Witness& witness() { return witness_; }
  Clock& clock() { return store_->clock(); }
  Faults& faults() { return faults_; }
  void Fault(absl::string_view what) { faults_.Add(what); }

  absl::Status Attach(Witness* witness) {
    return store_->Attach(witness->prefix(), subject_.max_staleness(), witness);
  }

  // A key of the witness that has had no value yet.
  std::string NewKey() {
    return absl::StrCat(witness_.prefix(), keys_.fetch_add(1));
  }

  void Expect(bool holds, absl::string_view otherwise) {
    if (!holds) Fault(otherwise);
  }

  // Waits for what has to happen.
  bool Await(absl::string_view what, const std::function<bool()>& happened) {
    const int64_t limit = clock().NanosAfter(kPatience);
    while (!happened()) {
      if (clock().NowNanos() > limit) {
        Fault(absl::StrCat(what, " did not come within ",
                           absl::FormatDuration(kPatience)));
        return false;
      }
      subject_.Pause();
    }
    return true;
  }

  // Lets a part of max_staleness pass.
  void PauseFor(double part) {
    const int64_t end = clock().NanosAfter(subject_.max_staleness() * part);
    while (clock().NowNanos() < end) subject_.Pause();
  }

  // A write of another client's that is to be told. Returns its key.
  std::string WriteAsAnother(absl::Duration ttl = absl::InfiniteDuration()) {
    std::string key = NewKey();
    witness_.BeginWrite(key);
    subject_.Set(key, "value", ttl);
    witness_.EndWrite(key);
    return key;
  }

  // Waits until what has been done so far is certified, so that its messages
  // have come, and has the witness forget them.
  void ForgetWhatWasDone() {
    const int64_t covered = clock().NanosAfter(subject_.max_staleness());
    Await("a lease", [&] { return witness_.until_nanos() > covered; });
    witness_.Forget();
  }

  // Has something happen to a key until the witness is told of it in time: a
  // session that a busy machine loses is not told.
  void ExpectTold(absl::string_view what,
                  const std::function<std::string()>& happen) {
    for (int attempt = 0; attempt < 10; ++attempt) {
      Await("a session", [&] { return witness_.session() != 0; });
      const uint64_t session = witness_.session();
      const std::string key = happen();
      const bool ended = !Await(absl::StrCat("the message of ", what), [&] {
        return witness_.WasTold(key) || witness_.session() != session;
      });
      if (ended || witness_.WasTold(key)) return;
    }
    Fault(absl::StrCat("sessions end before ", what, " is told"));
  }

  // By Fetch and by BeginFetch, in turn.
  absl::StatusOr<Fetched> Fetch(const std::string& key,
                                absl::Duration timeout = kPatience) {
    absl::StatusOr<Fetched> result = InTime("Fetch", timeout, [&] {
      return fetches_.fetch_add(1) % 2 == 0 ? FetchOne(key, timeout)
                                            : FetchWithoutWaiting(key, timeout);
    });
    ExpectCode(result.status()).IgnoreError();
    return result;
  }
  absl::Status Put(const RemoteStore::Write& write,
                   absl::Duration timeout = kPatience) {
    return ExpectCode(
        InTime("Put", timeout, [&] { return store_->Put(write, timeout); }));
  }
  absl::StatusOr<bool> Remove(const std::string& key,
                              absl::Duration timeout = kPatience) {
    auto removed =
        InTime("Remove", timeout, [&] { return store_->Remove(key, timeout); });
    ExpectCode(removed.status()).IgnoreError();
    return removed;
  }

  // As Put and Fetch, until they succeed: a connection may have to come first.
  void Write(const std::string& key, const std::string& bytes,
             absl::Duration ttl = absl::InfiniteDuration()) {
    Await("a Put that succeeds", [&] { return Put({key, bytes, ttl}).ok(); });
  }
  Fetched Read(const std::string& key) {
    Fetched result;
    Await("a Fetch that succeeds", [&] {
      const uint64_t before = witness_.session();
      absl::StatusOr<Fetched> fetched = Fetch(key);
      if (!fetched.ok()) return false;
      result = *std::move(fetched);
      if (witness_.session() == before && before != 0 && result.session != 0) {
        Expect(result.session == before,
               absl::StrCat("a Fetch had the number of session ",
                            result.session, " during ", before));
      }
      return true;
    });
    return result;
  }

  void ExpectValue(const std::string& key,
                   const std::optional<std::string>& value) {
    const std::optional<std::string> bytes = Read(key).bytes;
    if (bytes == value) return;
    Fault(absl::StrCat("Fetch of \"", key, "\" returned \"",
                       bytes.value_or("(absent)"), "\" and not \"",
                       value.value_or("(absent)"), "\""));
  }

 private:
  absl::StatusOr<Fetched> FetchOne(const std::string& key,
                                   absl::Duration timeout) {
    auto results = store_->Fetch({absl::string_view(key)}, timeout);
    if (results.size() == 1) return std::move(results[0]);
    Fault(absl::StrCat("Fetch returned ", results.size(), " results for 1"));
    return absl::InternalError("");
  }

  absl::StatusOr<Fetched> FetchWithoutWaiting(const std::string& key,
                                              absl::Duration timeout) {
    // Lives as long as a call of `done` may come.
    struct Answer {
      Mutex mu;
      CondVar came;
      int calls ABSL_GUARDED_BY(mu) = 0;
      absl::StatusOr<Fetched> result ABSL_GUARDED_BY(mu);
    };
    auto answer = std::make_shared<Answer>();
    store_->BeginFetch(
        key, timeout, [this, answer](absl::StatusOr<Fetched> result) {
          MutexLock lock(&answer->mu);
          answer->result = std::move(result);
          Expect(++answer->calls == 1, "BeginFetch called `done` twice");
          answer->came.Signal();
        });
    const absl::Time limit = absl::Now() + timeout + kPatience;
    MutexLock lock(&answer->mu);
    while (answer->calls == 0) {
      if (absl::Now() > limit) {
        Fault("BeginFetch never called `done`");
        return absl::InternalError("");
      }
      answer->came.WaitWithTimeout(&answer->mu, absl::Seconds(1));
    }
    return std::move(answer->result);
  }

  absl::Status ExpectCode(absl::Status status) {
    Expect(!absl::IsCancelled(status), "a call returned Cancelled");
    return status;
  }

  StoreUnderTest& subject_;
  Faults& faults_;
  const std::unique_ptr<RemoteStore> store_;
  Witness witness_;
  std::atomic<int> keys_{0};
  std::atomic<int> fetches_{0};
};

void CheckValues(Scene& scene) {
  const std::string all_bytes("\0\n \xff'\\\"{}%", 10);
  const std::vector<std::string> values = {"", all_bytes,
                                           std::string(200'000, 'x')};
  // The first is that of the empty key of a near cache.
  const std::vector<std::string> names = {scene.witness().prefix(),
                                          scene.NewKey() + all_bytes,
                                          scene.NewKey() + all_bytes};
  for (size_t i = 0; i < names.size(); ++i) scene.Write(names[i], values[i]);
  const std::vector<absl::string_view> keys = {names[2], "check:absent",
                                               names[0], names[1], names[2]};
  const std::vector<std::optional<std::string>> wanted = {
      values[2], std::nullopt, values[0], values[1], values[2]};
  const auto results = scene.store().Fetch(keys, kPatience);
  for (size_t i = 0; i < keys.size(); ++i) {
    scene.Expect(
        i < results.size() && results[i].ok() && results[i]->bytes == wanted[i],
        absl::StrCat("result ", i, " of a Fetch of 5 keys is wrong"));
  }
  scene.Expect(scene.store().Fetch({}, kPatience).empty(),
               "a Fetch of no keys returned something");
  scene.subject().Set(names[0], "of another", absl::InfiniteDuration());
  scene.ExpectValue(names[0], "of another");
  scene.Expect(scene.Remove(names[0]).value_or(false),
               "Remove returned false for a key that was there");
  scene.Expect(!scene.Remove(names[0]).value_or(true),
               "Remove returned true for a key that was not there");
  scene.ExpectValue(names[0], std::nullopt);
}

void CheckConditions(Scene& scene) {
  const std::string key = scene.NewKey();
  RemoteStore::Write first = {key, "first", absl::Minutes(1)};
  first.if_absent = true;
  RemoteStore::Write second = first;
  second.bytes = "second";
  scene.Expect(scene.Put(first).ok(),
               "a Put if_absent failed, of an absent key");
  scene.Expect(absl::IsAlreadyExists(scene.Put(second)),
               "a Put if_absent of a key that was there is not AlreadyExists");
  scene.ExpectValue(key, "first");
  const std::vector<std::string> names = {scene.NewKey(), scene.NewKey()};
  const auto written =
      scene.store().PutMany({{names[0], "a"}, {names[1], "b"}}, kPatience);
  scene.Expect(written.size() == 2 && written[0].ok() && written[1].ok(),
               "a PutMany failed");
  scene.ExpectValue(names[1], "b");
  const auto removed =
      scene.store().RemoveMany({names[0], "check:absent", names[1]}, kPatience);
  scene.Expect(removed.size() == 3 && removed[0].value_or(false) &&
                   !removed[1].value_or(true) && removed[2].value_or(false),
               "a RemoveMany did not tell which keys were there");
  scene.ExpectValue(names[0], std::nullopt);
}

// Where the store has them.
void CheckLocks(Scene& scene) {
  using LockResult = RemoteStore::LockResult;
  RemoteStore& store = scene.store();
  const std::string key = scene.NewKey();
  const auto take = [&](absl::string_view token, absl::Duration life) {
    return store.TakeLock({key, token}, life, kPatience);
  };
  const auto put = [&](absl::string_view token) {
    return scene.Put({key, token, absl::Minutes(1), false, token});
  };
  const absl::Duration life = absl::Minutes(1);
  if (absl::IsUnimplemented(take("a", life).status())) return;
  const auto expect = [&](absl::string_view token, LockResult wanted,
                          absl::string_view otherwise) {
    const absl::StatusOr<LockResult> result = take(token, life);
    scene.Expect(result.ok() && *result == wanted, otherwise);
  };
  expect("b", LockResult::kHeld, "two tokens held a lock");
  store.EndLock({key, "b"}, kPatience).IgnoreError();
  expect("c", LockResult::kHeld, "a lock ended by another token");
  store.EndLock({key, "a"}, kPatience).IgnoreError();
  expect("d", LockResult::kTaken, "a lock did not end");
  scene.Expect(absl::IsAborted(put("a")), "a Put with an old token went on");
  scene.Remove(key).IgnoreError();
  scene.Expect(absl::IsAborted(put("d")), "Remove did not end a lock");
  expect("e", LockResult::kTaken, "a lock was not free after Remove");
  scene.Expect(put("e").ok(), "a Put with the token of the lock failed");
  scene.ExpectValue(key, "e");
  expect("f", LockResult::kKeyIsThere,
         "a lock was taken of a key with a value");
  scene.Remove(key).IgnoreError();
  take("g", kShort).IgnoreError();
  scene.Await("the end of a lock's life", [&] {
    const auto result = take("h", life);
    return result.ok() && *result == LockResult::kTaken;
  });
  scene.ExpectTold("the end of a lock", [&] {
    take("h", life).IgnoreError();
    scene.ForgetWhatWasDone();
    store.EndLock({key, "h"}, kPatience).IgnoreError();
    return store.LockName(key);
  });
}

// Of a value that was written between two readings of the clock.
struct Lifetime {
  int64_t begin_nanos;
  int64_t end_nanos;
  absl::Duration ttl;
};

void ExpectEnd(Scene& scene, const Fetched& fetched, const Lifetime& of) {
  const int64_t deadline = fetched.deadline_nanos;
  scene.Expect(deadline <= Clock::NanosAfter(of.end_nanos, of.ttl + kRounding),
               "a deadline is later than at the server: it counts from before "
               "the request was sent");
  scene.Expect(deadline >= Clock::NanosAfter(of.begin_nanos, of.ttl / 2),
               "a deadline comes far too early");
}

void CheckTtls(Scene& scene) {
  const absl::Duration ttl = absl::Minutes(10);
  const std::string key = scene.NewKey();
  const auto has_no_end = [&] {
    return scene.Read(key).deadline_nanos == Clock::kNever;
  };
  scene.Expect(has_no_end(), "the deadline of an absent key is not kNever");
  Lifetime of = {scene.clock().NowNanos(), 0, ttl};
  scene.Write(key, "value", ttl);
  of.end_nanos = scene.clock().NowNanos();
  ExpectEnd(scene, scene.Read(key), of);
  scene.Write(key, "value");
  scene.Expect(has_no_end(), "a Put without a TTL did not end the old one");
  of.begin_nanos = scene.clock().NowNanos();
  scene.subject().Set(key, "value", ttl);
  of.end_nanos = scene.clock().NowNanos();
  scene.subject().Hold();
  absl::StatusOr<Fetched> late;
  std::thread reader([&] { late = scene.Fetch(key); });
  scene.PauseFor(0.3);
  scene.subject().Release();
  reader.join();
  if (late.ok()) ExpectEnd(scene, *late, of);
}

void CheckMessages(Scene& scene) {
  StoreUnderTest& subject = scene.subject();
  if (scene.store().tells_of_new_keys()) {
    scene.ExpectTold("a new key", [&] { return scene.WriteAsAnother(); });
  }
  const auto existing = [&](absl::Duration ttl = absl::InfiniteDuration()) {
    std::string key = scene.NewKey();
    subject.Set(key, "old", ttl);
    scene.ForgetWhatWasDone();
    return key;
  };
  scene.ExpectTold("a write of another client's", [&] {
    std::string key = existing();
    subject.Set(key, "new", absl::InfiniteDuration());
    return key;
  });
  scene.ExpectTold("a deletion", [&] {
    std::string key = existing();
    subject.Del(key);
    return key;
  });
  scene.ExpectTold("an expiry", [&] {
    absl::Duration ttl = kShort;
    std::string key = existing(ttl);
    while (!scene.Read(key).bytes.has_value()) key = existing(ttl *= 2);
    return key;
  });
  scene.ExpectTold("a Put of the store's own", [&] {
    std::string key = existing();
    scene.Write(key, "own");
    return key;
  });
  scene.ExpectTold("a Remove of the store's own", [&] {
    std::string key = existing();
    scene.Remove(key).IgnoreError();
    return key;
  });
  subject.Set("another prefix", "value", absl::InfiniteDuration());
  scene.PauseFor(0.5);
}

// Expects new fetches to bear the number of the session.
void ExpectMark(Scene& scene) {
  const std::string key = scene.NewKey();
  scene.Await("a Fetch with the number of the session", [&] {
    const uint64_t before = scene.witness().session();
    return before != 0 && scene.Read(key).session == before;
  });
}

void CheckLeases(Scene& scene) {
  ExpectMark(scene);
  int64_t until = 0;
  for (int renewals = 0; renewals < 3; ++renewals) {
    scene.Await("a lease that reaches into the future", [&] {
      return scene.witness().until_nanos() >
             std::max(until, scene.clock().NowNanos());
    });
    until = scene.witness().until_nanos();
  }
}

// Answers come late, and behind them the messages of writes that came after;
// and somebody writes all the time.
void CheckLateAnswers(Scene& scene) {
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    while (!is_over.load()) scene.WriteAsAnother();
  });
  for (int round = 0; round < 8; ++round) {
    scene.subject().Hold();
    scene.PauseFor(0.1 + 0.04 * round);
    scene.WriteAsAnother();
    scene.PauseFor(0.01);
    scene.subject().Release();
    scene.PauseFor(0.04 * round);
  }
  is_over.store(true);
  writer.join();
  scene.PauseFor(1);
}

// The server is silent for longer than a lease.
void CheckSilence(Scene& scene) {
  const std::string asked = scene.NewKey();
  const std::string other = scene.NewKey();
  scene.Write(asked, "late");
  scene.Write(other, "right");
  scene.Await("a lease", [&] {
    return scene.witness().until_nanos() > scene.clock().NowNanos();
  });
  scene.subject().Hold();
  scene.witness().BeginHold();
  for (const absl::Duration timeout : {kShort, absl::ZeroDuration()}) {
    for (const absl::Status& status :
         {scene.Fetch(asked, timeout).status(),
          scene.Put({asked, "late"}, timeout),
          scene.Remove(scene.NewKey(), timeout).status()}) {
      scene.Expect(
          absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status),
          absl::StrCat("a call without an answer returned ", status.ToString(),
                       " instead of DeadlineExceeded or Unavailable"));
    }
  }
  scene.PauseFor(1.3);
  scene.witness().EndHold();
  scene.subject().Release();
  for (int i = 0; i < 10; ++i) {
    scene.ExpectValue(other, "right");
    scene.ExpectValue(scene.NewKey(), std::nullopt);
  }
  ExpectMark(scene);
}

// What was written while there was no session is told to none.
void CheckLoss(Scene& scene) {
  for (int round = 0; round < 3; ++round) {
    ExpectMark(scene);
    const uint64_t lost = scene.witness().session();
    scene.subject().Hold();
    scene.subject().Cut();
    scene.WriteAsAnother();
    scene.subject().Release();
    scene.Await("another session after a lost connection", [&] {
      const uint64_t session = scene.witness().session();
      return session != 0 && session != lost;
    });
    scene.PauseFor(1);
  }
}

void CheckRestart(Scene& scene) {
  const uint64_t lost = scene.witness().session();
  scene.subject().Restart();
  scene.Await("another session after a restart", [&] {
    const uint64_t session = scene.witness().session();
    return session != 0 && session != lost;
  });
  ExpectMark(scene);
  scene.ExpectTold("a write", [&] { return scene.WriteAsAnother(); });
}

void CheckPrefixes(Scene& scene) {
  const absl::Duration bound = scene.subject().max_staleness();
  const std::string& prefix = scene.witness().prefix();
  const auto attach = [&](const std::string& other, Witness* witness) {
    return scene.store().Attach(other, bound, witness);
  };
  for (const std::string& other :
       {std::string(), prefix.substr(0, 1), prefix, prefix + "1"}) {
    Witness refused(other, bound, scene.clock(), &scene.faults());
    scene.Expect(absl::IsInvalidArgument(attach(other, &refused)),
                 "a prefix that overlaps with another was not refused");
    scene.store().Detach(&refused);
  }
  Witness second("second:", bound, scene.clock(), &scene.faults());
  scene.Expect(attach("second:", &second).ok(), "a second prefix was refused");
  scene.Await("a session of a second listener",
              [&] { return second.session() != 0; });
  for (const char* key : {"second", "second:key"}) {
    scene.subject().Set(key, "value", absl::InfiniteDuration());
  }
  scene.PauseFor(0.5);
  scene.store().Detach(&second);
  second.EndOfCalls();
  Witness again("second:", bound, scene.clock(), &scene.faults());
  scene.Expect(attach("second:", &again).ok(),
               "a prefix whose listener was detached was refused");
  scene.store().Detach(&again);
}

void CheckDetach(Scene& scene) {
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    for (int i = 0; !is_over.load(); ++i) {
      scene.subject().Set(absl::StrCat("detached:", i % 10), "value",
                          absl::InfiniteDuration());
    }
  });
  std::vector<std::unique_ptr<Witness>> all;
  for (int round = 0; round < 10; ++round) {
    all.push_back(
        std::make_unique<Witness>("detached:", scene.subject().max_staleness(),
                                  scene.clock(), &scene.faults()));
    Witness* const witness = all.back().get();
    scene.Expect(scene.Attach(witness).ok(), "Attach failed after a Detach");
    if (round % 2 == 0) {
      scene.Await("a session", [&] { return witness->session() != 0; });
      scene.PauseFor(0.01 * round);
    }
    scene.store().Detach(witness);
    witness->EndOfCalls();
  }
  is_over.store(true);
  writer.join();
  scene.ExpectTold("a write", [&] { return scene.WriteAsAnother(); });
}

void CheckThreads(Scene& scene) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&scene, t] {
      const std::string key = absl::StrCat(scene.NewKey(), ":", t);
      for (int i = 0; i < 50; ++i) {
        const std::string value = absl::StrCat(t, ":", i);
        if (!scene.Put({key, value}).ok()) continue;
        scene.ExpectValue(key, value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr std::pair<const char*, void (*)(Scene&)> kChecks[] = {
    {"values", &CheckValues},
    {"conditional writes and batches", &CheckConditions},
    {"locks", &CheckLocks},
    {"TTLs", &CheckTtls},
    {"messages", &CheckMessages},
    {"leases", &CheckLeases},
    {"late answers", &CheckLateAnswers},
    {"a silent server", &CheckSilence},
    {"a lost connection", &CheckLoss},
    {"a restart", &CheckRestart},
    {"prefixes", &CheckPrefixes},
    {"Detach", &CheckDetach},
    {"threads", &CheckThreads},
};

}  // namespace

void StoreUnderTest::Pause() { absl::SleepFor(absl::Milliseconds(1)); }

absl::Duration StoreUnderTest::max_staleness() const {
  return absl::Milliseconds(300);
}

std::vector<std::string> CheckRemoteStore(StoreUnderTest& subject) {
  Faults faults;
  size_t number = 0;
  for (const auto& [name, check] : kChecks) {
    faults.BeginCheck(name);
    Scene scene(&subject, &faults, ++number);
    check(scene);
  }
  return faults.all();
}

}  // namespace wheelcache
