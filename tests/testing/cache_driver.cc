// The driver itself, and calls without a condition or a load.

#include "wheelcache/tests/testing/cache_driver.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/snapshot/snapshot.h"
#include "wheelcache/tests/testing/cache_call.h"
#include "wheelcache/tests/testing/cache_oracle.h"
#include "wheelcache/tests/testing/cache_peer.h"

namespace wheelcache {

CacheDriver::CacheDriver(const CacheSetup& setup)
    : setup_(setup),
      clock_(absl::Nanoseconds(setup.start_nanos),
             absl::Nanoseconds(setup.coarse_lag_nanos)),
      oracle_(setup.max_entries, setup.max_bytes, setup.tick_nanos,
              setup.idle_ttl_nanos),
      cache_(NewCache()),
      is_served_(setup.has_reaper) {
  oracle_.now = setup.start_nanos;
}

std::string CacheDriver::Make(const CacheCall& call) {
  difference_.clear();
  left_.clear();
  oracle_.left.clear();
  oracle_.told_victims.reset();
  told_.clear();
  told_by_oracle_.clear();
  reloads_ = 0;
  reloads_by_oracle_ = 0;
  call_ = call;
  ++calls_;
  MakeCall();
  CompareLeft();
  Compare("told", absl::StrJoin(told_, ", "),
          absl::StrJoin(told_by_oracle_, ", "));
  Compare("reloads", reloads_, reloads_by_oracle_);
  Compare("tasks", tasks_.size(), tasks_of_oracle_.size());
  CompareState();
  return difference_;
}

auto CacheDriver::NewCache() -> std::unique_ptr<CacheType> {
  CacheOptions options;
  options.max_entries = setup_.max_entries;
  options.max_bytes = setup_.max_bytes;
  options.shards = setup_.shards;
  if (setup_.scan_resistant) options.policy = EvictionPolicy::kScanResistant;
  options.advise = setup_.advise;
  options.jitter = 0;
  options.tick = absl::Nanoseconds(setup_.tick_nanos);
  options.default_ttl = absl::Nanoseconds(DefaultTtlNanos());
  if (setup_.idle_ttl_nanos != CacheOracle::kNever) {
    options.idle_ttl = absl::Nanoseconds(setup_.idle_ttl_nanos);
  }
  options.maintenance_budget = setup_.maintenance_budget;
  options.clock = &clock_;
  options.reaper = setup_.has_reaper ? &reaper_ : nullptr;
  options.reclaim_delay = kReclaimDelay;
  if (!setup_.has_reaper) {
    options.on_earlier_deadline = [this] { ++earlier_deadlines_; };
  }
  CacheType::Hooks hooks;
  hooks.weigher = [](int, Value value) {
    return static_cast<uint64_t>(value % kWeights);
  };
  hooks.on_removal = [this](int key, Value value, RemovalCause cause) {
    left_.push_back({key, value, cause});
  };
  if (setup_.refreshes != CacheSetup::kNone) {
    options.refresh_after = absl::Nanoseconds(RefreshAfterNanos());
    options.refresh_at = kRefreshAt;
    options.retry_after = absl::Nanoseconds(RetryAfterNanos());
    options.max_refreshes = kMostRefreshes;
    // Those by tasks are loads.
    hooks.load = [this](int key) {
      reloaded_key_ = key;
      return load_ ? load_() : Reload();
    };
  }
  if (setup_.refreshes == CacheSetup::kByReaders) {
    hooks.reload = [this](int key, Value old) {
      reloaded_key_ = key;
      reloaded_value_ = old;
      return Reload();
    };
  }
  if (setup_.refreshes == CacheSetup::kByTasks) {
    hooks.executor = [this](std::function<void()> task) {
      tasks_.push_back(std::move(task));
    };
  }
  return std::move(*CacheType::Create(options, std::move(hooks)));
}

void CacheDriver::MakeCall() {
  const int key = call_.key;
  switch (call_.kind) {
    case CacheCall::kSet: {
      const bool stored = cache_->Set(key, NewValue(), Ttl());
      Compare("stored", stored, SetInOracle(key, TtlNanos()));
      break;
    }
    case CacheCall::kSetDefault: {
      const bool stored = cache_->Set(key, NewValue());
      Compare("stored", stored, SetInOracle(key, TtlNanos()));
      break;
    }
    case CacheCall::kGet:
      Compare("value", cache_->Get(key), ReadInOracle());
      break;
    case CacheCall::kFind: {
      const auto handle = cache_->Find(key);
      Compare("value", handle ? std::optional(*handle) : std::nullopt,
              ReadInOracle());
      if (handle && oracle_.Live(key)) CompareHandle(handle);
      break;
    }
    case CacheCall::kFindMany:
      FindMany();
      break;
    case CacheCall::kVisit: {
      std::optional<Value> seen;
      cache_->Visit(key, [&](const Value& value) { seen = value; });
      Compare("value", seen, ReadInOracle());
      break;
    }
    case CacheCall::kPeek:
      break;  // The comparison of the state peeks at every key.
    case CacheCall::kTouch: {
      const bool live = cache_->Touch(key, Ttl());
      Compare("live", live, oracle_.Touch(key, call_.nanos));
      if (call_.nanos <= 0) loads_.Supersede(key);
      break;
    }
    case CacheCall::kDel:
      Compare("live", cache_->Del(key), oracle_.Del(key));
      loads_.Supersede(key);
      break;
    case CacheCall::kClear:
      cache_->Clear();
      oracle_.Clear();
      loads_.SupersedeAll();
      break;
    case CacheCall::kLoad:
    case CacheCall::kLoadDefault:
    case CacheCall::kLoadError:
      Load();
      break;
    case CacheCall::kPin:
      Pin();
      break;
    case CacheCall::kAdvance:
      Advance(call_.nanos);
      break;
    case CacheCall::kAdvanceToDeadline:
      AdvanceToDeadline();
      break;
    case CacheCall::kMaintain:
      cache_->RunMaintenance();
      oracle_.Reclaim();
      break;
    case CacheCall::kMaintainInSteps:
      MaintainInSteps();
      break;
    case CacheCall::kStop:
      cache_->Stop();
      is_served_ = false;
      is_stopped_ = true;
      break;
    case CacheCall::kFindOrLoad:
    case CacheCall::kFindOrLoadOvertaken:
    case CacheCall::kFindOrLoadError:
    case CacheCall::kFindOrLoadCancelled:
      FindOrLoad();
      break;
    case CacheCall::kFindOrLoadMany:
      FindOrLoadMany();
      break;
    case CacheCall::kBegin:
      Begin();
      break;
    case CacheCall::kFinish:
    case CacheCall::kFinishError:
      Finish();
      break;
    case CacheCall::kDropTicket:
      DropTicket();
      break;
    case CacheCall::kRefresh:
      Refresh();
      break;
    case CacheCall::kRunTask:
    case CacheCall::kDropTask:
      RunOrDropTask();
      break;
    case CacheCall::kSetIf:
    case CacheCall::kSetIfKeep:
      SetIf();
      break;
    case CacheCall::kDelIf: {
      const Expected expected = Expect();
      const bool deleted = cache_->DelIf(expected.key, *expected.handle);
      Compare("deleted", deleted, DelIfInOracle(expected.key, expected.id));
      break;
    }
    case CacheCall::kTake: {
      const Handle taken = cache_->Take(key);
      Compare("taken", taken ? std::optional(*taken) : std::nullopt,
              oracle_.Take(key));
      loads_.Supersede(key);
      ++(taken ? hits_ : misses_);
      break;
    }
    case CacheCall::kUpdate:
    case CacheCall::kUpdateKeep:
    case CacheCall::kUpdateNot:
    case CacheCall::kUpdateDelete:
      Update();
      break;
    case CacheCall::kForEach:
      ForEach();
      break;
    case CacheCall::kEraseIf:
      EraseIf();
      break;
    case CacheCall::kSetLimits:
      SetLimits();
      break;
    case CacheCall::kMove:
      Move();
      break;
    case CacheCall::kRestart:
      Restart();
      break;
  }
}

void CacheDriver::FindMany() {
  const std::vector<int> keys = SomeKeys();
  std::vector<Handle> handles(keys.size());
  const size_t found = cache_->FindMany(keys, absl::MakeSpan(handles));
  size_t live = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::optional<Value> expected = ReadInOracle(keys[i]);
    live += expected.has_value() ? 1 : 0;
    Compare("one of many",
            handles[i] ? std::optional(*handles[i]) : std::nullopt, expected);
  }
  Compare("found", found, live);
}

void CacheDriver::ForEach() {
  const size_t most = 1 + static_cast<size_t>(call_.weight);
  std::vector<std::pair<int, Value>> shown;
  const bool all = cache_->ForEach([&](const CacheType::Handle& handle) {
    shown.emplace_back(handle.key(), *handle);
    return shown.size() < most;
  });
  const auto live = oracle_.AllLive();
  Compare("shown", shown.size(), std::min(most, live.size()));
  Compare("all", all, live.size() < most);
  std::sort(shown.begin(), shown.end());
  Compare("each once",
          std::adjacent_find(shown.begin(), shown.end()) == shown.end(), true);
  Compare("live",
          std::includes(live.begin(), live.end(), shown.begin(), shown.end()),
          true);
}

void CacheDriver::EraseIf() {
  const auto leaves = [this](Value value) {
    return value / kWeights % 3 == call_.weight % 3;
  };
  const int64_t erased = cache_->EraseIf(
      [&](const CacheType::Handle& handle) { return leaves(*handle); });
  Compare("erased", erased, oracle_.EraseIf(leaves));
  loads_.SupersedeAll();
  for (const CacheOracle::Left& left : oracle_.left) loads_.Supersede(left.key);
}

void CacheDriver::SetLimits() {
  const auto limit = [](int64_t number) {
    return number == 0 ? kUnlimited : number;
  };
  const absl::Status status =
      cache_->SetLimits(limit(call_.key), limit(call_.nanos));
  Compare("ok", status.ok(), true);
  TellVictims();
  oracle_.SetLimits(limit(call_.key), limit(call_.nanos));
  Compare("limit of entries", cache_->limits().entries, oracle_.max_entries());
  Compare("limit of bytes", cache_->limits().bytes, oracle_.max_bytes());
}

void CacheDriver::Restart() {
  SnapshotOptions options;
  options.wall_clock = [] { return absl::UnixEpoch(); };
  std::string bytes;
  const auto sink = [&](absl::string_view more) {
    bytes.append(more.data(), more.size());
    return absl::OkStatus();
  };
  const auto saved = SaveSnapshot(*cache_, sink, {}, options);
  cache_->Clear();
  const auto read = [&](int64_t offset, absl::Span<char> to) {
    bytes.copy(to.data(), to.size(), static_cast<size_t>(offset));
    return absl::OkStatus();
  };
  const auto size = static_cast<int64_t>(bytes.size());
  const auto loaded = LoadSnapshot(*cache_, {size, read}, {}, options);
  const int64_t restored = oracle_.Restart();
  loads_.SupersedeAll();
  sets_ += restored;
  Compare("saved", saved.ok() ? saved->entries : -1, restored);
  Compare("loaded", loaded.ok() ? loaded->stored : -1, restored);
}

void CacheDriver::Move() {
  cache_->RunMaintenance();  // So that nothing else is due.
  oracle_.Reclaim();
  testing::RequireRound(cache_.get());
  cache_->RunMaintenance(1 + call_.weight % 16);
}

void CacheDriver::MaintainInSteps() {
  const int64_t budget = 1 + call_.weight;
  int64_t done = budget;
  while (done == budget) {
    done = cache_->RunMaintenance(budget);
    Compare("within the budget", done <= budget, true);
  }
  oracle_.Reclaim();
}

void CacheDriver::TellVictims() {
  if (setup_.evicts_oldest() || oracle_.told_victims.has_value()) return;
  oracle_.told_victims.emplace();
  for (const CacheOracle::Left& left : left_) {
    if (left.cause == RemovalCause::kEvicted) {
      oracle_.told_victims->push_back(left.key);
    }
  }
}

bool CacheDriver::SetInOracle(int key, int64_t ttl) {
  TellVictims();
  const bool stored = oracle_.Set(key, NewValue(), Charge(), ttl);
  loads_.Supersede(key);
  sets_ += stored;
  return stored;
}

auto CacheDriver::ReadInOracle(int key) -> std::optional<Value> {
  const std::optional<Value> value = oracle_.Get(key);
  ++(value.has_value() ? hits_ : misses_);
  return value;
}

void CacheDriver::PinIn(PinnedValue* pinned) {
  if (pinned->handle) Compare("pinned", *pinned->handle, pinned->value);
  pinned->handle = cache_->Find(call_.key);
  pinned->value = ReadInOracle().value_or(-1);
  pinned->id = oracle_.Id(call_.key);
  if (pinned->handle) Compare("pinned", *pinned->handle, pinned->value);
}

void CacheDriver::Advance(int64_t nanos) {
  if (is_served_) {
    clock_.RunFor(absl::Nanoseconds(nanos));
  } else {
    clock_.Advance(absl::Nanoseconds(nanos));
  }
  oracle_.now = clock_.NowNanos();
  if (is_served_) {
    Compare("reclaimed in time", cache_->size() <= EntriesNotOverdue(), true);
  }
  if (setup_.reclaims_at_once()) return;
  cache_->RunMaintenance();
  oracle_.Reclaim();
}

int64_t CacheDriver::EntriesNotOverdue() const {
  const int64_t now = oracle_.now - absl::ToInt64Nanoseconds(kReclaimDelay);
  return absl::c_count_if(oracle_.entries, [&](const auto& key_and_entry) {
    return oracle_.ReclaimTime(key_and_entry.second) > now;
  });
}

void CacheDriver::AdvanceToDeadline() {
  int64_t next = CacheOracle::kNever;
  for (const auto& [key, entry] : oracle_.entries) {
    if (entry.deadline > oracle_.now) next = std::min(next, entry.deadline);
  }
  if (next == CacheOracle::kNever) return;
  Advance(std::max<int64_t>(next - oracle_.now + call_.nanos, 0));
}

std::string Disagreement(const CacheSetup& setup,
                         const std::vector<CacheCall>& calls) {
  CacheDriver driver(setup);
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string difference = driver.Make(calls[i]);
    if (!difference.empty()) {
      return absl::StrCat("call ", i, ": ", difference);
    }
  }
  return "";
}

}  // namespace wheelcache
