#include "wheelcache/cache/share/memory_share.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/cache/share/internal/choice.h"
#include "wheelcache/cache/share/internal/demand.h"

namespace wheelcache {
namespace internal {

// A cache in a share, which guards all of it but the constants.
class ShareMember final : public LimitsOwner {
 public:
  ShareMember(MemoryShare* share, AnyCache* cache,
              ShareMemberOptions given_options)
      : options(std::move(given_options)),
        engine(cache->engine_),
        share_(*share) {}

  void BeginEnd() override {
    MutexLock lock(&share_.mu_);
    ender = std::this_thread::get_id();
    while (in_call) share_.changed_.Wait(&share_.mu_);
  }
  void End() override {
    MutexLock lock(&share_.mu_);
    share_.free_ += bytes;
    share_.changed_.SignalAll();
    auto& members = share_.members_;
    members.erase(
        std::find_if(members.begin(), members.end(),
                     [this](auto& each) { return each.get() == this; }));
  }

  Holding holding() const {
    const double weight = options.weight;
    return {bytes,
            engine.used().bytes,
            options.min_bytes,
            weight * demand.gain(),
            weight * demand.loss(),
            weight * demand.error()};
  }

  bool ends() const { return ender != std::thread::id(); }

  const ShareMemberOptions options;
  Engine& engine;  // Until it ends.
  int id = 1;

  int64_t bytes = 0;
  int64_t taken = 0;
  int64_t given = 0;
  bool in_call = false;   // The share changes its limit.
  std::thread::id ender;  // The thread that ends it, if one does.
  Demand demand;

 private:
  MemoryShare& share_;
};

}  // namespace internal

namespace {

constexpr int64_t kLookNanos = 100'000'000;
constexpr int64_t kIdleLookNanos = 1'000'000'000;

// What leaves a cache in one turn of the reaper, which has other work as well.
constexpr int64_t kSlice = 16 << 20;

constexpr size_t kMostLatest = 16;

constexpr double kMiB = 1 << 20;

template <typename Value>
absl::Status Broken(const std::string& share, absl::string_view field,
                    const Value& value, absl::string_view rule) {
  return absl::InvalidArgumentError(absl::StrCat(
      "share \"", share, "\": ", field, " = ", value, " must ", rule));
}

absl::Status Validate(const MemoryShareOptions& options) {
  if (options.max_bytes < 1) {
    return Broken(options.name, "max_bytes", options.max_bytes,
                  "be at least 1");
  }
  if (options.clock == nullptr) {
    return Broken(options.name, "clock", "null", "be a clock");
  }
  if (options.reaper != nullptr && &options.reaper->clock() != options.clock) {
    return Broken(options.name, "reaper", "of another clock",
                  "run on the share's clock, or be null");
  }
  return options.pressure.has_value()
             ? internal::Validate(options.name, *options.pressure)
             : absl::OkStatus();
}

// A field of a member, in messages.
std::string FieldOf(const ShareMemberOptions& options,
                    absl::string_view field) {
  return absl::StrCat(field, " of \"", options.name, "\"");
}

absl::Status Validate(const std::string& share,
                      const ShareMemberOptions& options) {
  if (options.min_bytes < 1) {
    return Broken(share, FieldOf(options, "min_bytes"), options.min_bytes,
                  "be at least 1");
  }
  if (!(options.weight > 0 && std::isfinite(options.weight))) {
    return Broken(share, FieldOf(options, "weight"), options.weight,
                  "be more than 0, and finite");
  }
  return absl::OkStatus();
}

}  // namespace

// Where one thread changes limits, and no other does.
class MemoryShare::Turn {
 public:
  explicit Turn(MemoryShare* share) : share_(*share) {
    MutexLock lock(&share_.mu_);
    const auto self = std::this_thread::get_id();
    if (share_.turn_ == self) return;
    for (const auto& member : share_.members_) {
      if (member->ender == self) return;
    }
    while (share_.turn_.has_value()) share_.changed_.Wait(&share_.mu_);
    share_.turn_ = self;
    taken_ = true;
  }
  ~Turn() {
    if (!taken_) return;
    MutexLock lock(&share_.mu_);
    share_.turn_.reset();
    share_.changed_.SignalAll();
  }

  // FailedPrecondition within a turn of the same thread, and where that ends a
  // member: for it, others may wait.
  absl::Status status() const {
    if (taken_) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "share \"", share_.options_.name,
        "\": called by a listener or a destructor that it, or the end of a "
        "cache of it, runs"));
  }

 private:
  MemoryShare& share_;
  bool taken_ = false;
};

// Bytes on their way. Without `from`, they were free.
struct MemoryShare::Transfer {
  std::shared_ptr<Member> from;
  std::shared_ptr<Member> to;
  internal::Move move;
};

MemoryShare::MemoryShare(MemoryShareOptions options)
    : options_(std::move(options)),
      max_bytes_(options_.max_bytes),
      limit_(max_bytes_),
      free_(max_bytes_),
      last_look_nanos_(options_.clock->NowNanos()),
      next_look_nanos_(Clock::NanosAfter(last_look_nanos_, kLookNanos)) {
  report_.emplace(options_.name, options_.clock, [this] { return stats(); });
}

absl::StatusOr<std::unique_ptr<MemoryShare>> MemoryShare::Create(
    MemoryShareOptions options) {
  absl::Status status = Validate(options);
  if (!status.ok()) return status;
  if (options.pressure.has_value() && options.pressure->read == nullptr) {
    options.pressure->read = [folder = options.pressure->cgroup] {
      return ReadCgroup(folder);
    };
  }
  if (options.pressure.has_value()) {
    status = options.pressure->read().status();
    if (!status.ok()) return status;
  }
  auto share = absl::WrapUnique(new MemoryShare(std::move(options)));
  if (Reaper* const reaper = share->options_.reaper; reaper != nullptr) {
    status = reaper->Register(share.get());
    if (!status.ok()) return status;
    reaper->WakeAt(share.get(), share->NextLook());
  }
  return share;
}

MemoryShare::~MemoryShare() {
  report_.reset();
  if (options_.reaper != nullptr) options_.reaper->Unregister(this);
  for (const auto& member : members_) member->engine.EndOwner();
}

int64_t MemoryShare::FloorsLocked() const {
  int64_t floors = 0;
  for (const auto& member : members_) floors += member->options.min_bytes;
  return floors;
}

bool MemoryShare::AnyEndsLocked() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& member) { return member->ends(); });
}

void MemoryShare::SetLimitLocked(int64_t limit) {
  free_ += limit - limit_;
  limit_ = limit;
}

absl::Status MemoryShare::Add(AnyCache& cache, ShareMemberOptions options) {
  if (options.name.empty()) options.name = cache.options().name;
  absl::Status status = Validate(options_.name, options);
  Turn turn(this);
  status.Update(turn.status());
  if (!status.ok()) return status;
  const auto member = std::make_shared<Member>(this, &cache, options);
  int64_t part;
  {
    MutexLock lock(&mu_);
    const int64_t others = FloorsLocked();
    if (options.min_bytes > max_bytes_ - others) {
      return Broken(options_.name, FieldOf(options, "min_bytes"),
                    options.min_bytes,
                    absl::StrCat("be at most ", max_bytes_ - others,
                                 ", what the floors of others leave"));
    }
    // A floor is given in a shortage of memory, too.
    SetLimitLocked(std::max(limit_, others + options.min_bytes));
    const auto count = static_cast<int64_t>(members_.size()) + 1;
    part =
        std::max(options.min_bytes, std::min(limit_ / count, limit_ - others));
  }
  if (!member->engine.BeginOwner(member.get())) {
    return absl::FailedPreconditionError(
        absl::StrCat("share \"", options_.name, "\": cache \"", options.name,
                     "\" is in a share already"));
  }
  absl::Cleanup leave = [&] { member->engine.EndOwner(); };
  GatherFree(part);
  {
    MutexLock lock(&mu_);
    if (free_ < part) {
      return absl::UnavailableError(absl::StrCat(
          "share \"", options_.name, "\": a cache of it is ending; add \"",
          options.name, "\" again"));
    }
    free_ -= part;
  }
  absl::Cleanup give_back = [&] {
    MutexLock lock(&mu_);
    free_ += part;
  };
  member->engine.SetBytes(part);
  MutexLock lock(&mu_);
  member->bytes = part;
  const auto has_id = [&](const auto& other) {
    return other->options.name == options.name && other->id == member->id;
  };
  while (std::any_of(members_.begin(), members_.end(), has_id)) ++member->id;
  members_.push_back(member);
  std::move(give_back).Cancel();
  std::move(leave).Cancel();
  return absl::OkStatus();
}

absl::Status MemoryShare::SetMaxBytes(int64_t max_bytes) {
  {
    Turn turn(this);
    if (!turn.status().ok()) return turn.status();
    {
      MutexLock lock(&mu_);
      const int64_t least = std::max<int64_t>(FloorsLocked(), 1);
      if (max_bytes < least) {
        return Broken(options_.name, "max_bytes", max_bytes,
                      absl::StrCat("be at least ", least,
                                   least > 1 ? ", the sum of the floors" : ""));
      }
      const bool is_short = limit_ < max_bytes_;
      max_bytes_ = max_bytes;
      SetLimitLocked(is_short ? std::min(limit_, max_bytes) : max_bytes);
    }
    GatherFree(0);
  }
  // Without the turn, which others need meanwhile.
  MutexLock lock(&mu_);
  while (free_ < 0 && AnyEndsLocked()) changed_.Wait(&mu_);
  return absl::OkStatus();
}

// Takes from all members, in proportion to what they have above their floors,
// until so much is free.
void MemoryShare::GatherFree(int64_t least) {
  Members members;
  std::vector<internal::Holding> holdings;
  int64_t missing;
  {
    MutexLock lock(&mu_);
    missing = least - free_;
    for (const auto& member : members_) {
      if (member->ends()) continue;
      members.push_back(member);
      holdings.push_back(member->holding());
    }
  }
  if (missing <= 0) return;
  const std::vector<int64_t> given = internal::SpreadLoss(holdings, missing);
  for (size_t i = 0; i < members.size(); ++i) {
    if (given[i] > 0) Resize(*members[i], -given[i]);
  }
}

// Gives the member free bytes or, if `by` is negative, frees some of its own.
// Not if it ends. REQUIRES: the turn; as many are free.
void MemoryShare::Resize(Member& member, int64_t by) {
  int64_t bytes;
  {
    MutexLock lock(&mu_);
    if (member.ends()) return;
    member.in_call = true;
    bytes = member.bytes + by;
    // What is given is not free any more before the limit grows, and what is
    // taken not free before the limit has shrunk.
    if (by > 0) {
      member.bytes = bytes;
      free_ -= by;
    }
  }
  bool done = false;
  const absl::Cleanup end = [&] {
    MutexLock lock(&mu_);
    member.in_call = false;
    if (done && by < 0) {
      member.bytes = bytes;
      free_ -= by;
    }
    changed_.SignalAll();
  };
  member.engine.SetBytes(bytes);
  done = true;
}

void MemoryShare::RunMaintenance() {
  Turn turn(this);
  if (!turn.status().ok()) return;
  if (options_.clock->NowNanos() < NextLook()) return;
  FollowMemory();
  Look();
  while (transfer_ != nullptr) Carry();
}

absl::Duration MemoryShare::NextDeadline() const {
  return absl::Nanoseconds(NextLook());
}

int64_t MemoryShare::NextLook() const {
  MutexLock lock(&mu_);
  return next_look_nanos_;
}

int64_t MemoryShare::RunDue(int64_t now_nanos) {
  Turn turn(this);
  if (transfer_ == nullptr && now_nanos >= NextLook()) {
    FollowMemory();
    Look();
  }
  if (transfer_ != nullptr) Carry();
  return transfer_ != nullptr ? now_nanos : NextLook();
}

// Shrinks, or grows, by what memory there is. REQUIRES: the turn.
void MemoryShare::FollowMemory() {
  if (!options_.pressure.has_value()) return;
  const absl::StatusOr<MemoryReading> memory = options_.pressure->read();
  const int64_t now_nanos = options_.clock->NowNanos();
  {
    MutexLock lock(&mu_);
    if (!memory.ok()) {
      ++memory_.errors;
      return;
    }
    memory_.used = memory->used;
    memory_.limit = memory->limit;
    memory_.stalled = memory->stalled;
    internal::ShareUse use = {limit_, 0, max_bytes_};
    for (const auto& member : members_) {
      if (!member->ends()) use.used += member->engine.used().bytes;
    }
    const int64_t limit = internal::LimitUnderPressure(
        use, *memory, options_.pressure->reserve,
        1e-9 * static_cast<double>(now_nanos - last_look_nanos_));
    const int64_t least = std::max<int64_t>(FloorsLocked(), 1);
    const int64_t before = limit_;
    SetLimitLocked(std::max(limit, least));
    if (limit_ < before) ++memory_.shrinks;
  }
  GatherFree(0);
}

// Looks what all members would do with more and fewer bytes, and plans what is
// to move. REQUIRES: the turn.
void MemoryShare::Look() {
  const int64_t now_nanos = options_.clock->NowNanos();
  Members members;
  std::vector<internal::Holding> holdings;
  MutexLock lock(&mu_);
  const double seconds =
      static_cast<double>(now_nanos -
                          std::exchange(last_look_nanos_, now_nanos)) *
      1e-9;
  int64_t reads = 0;
  for (const auto& member : members_) {
    if (member->ends()) continue;
    const CacheStats stats = member->engine.stats();
    member->demand.Observe(stats, member->engine.more_hits(), seconds);
    reads += stats.hits + stats.misses;
    members.push_back(member);
    holdings.push_back(member->holding());
  }
  const bool idle = std::exchange(reads_, reads) == reads;
  // Other memory of the process grows whether the caches are read or not.
  const bool rests = idle && !options_.pressure.has_value();
  next_look_nanos_ =
      Clock::NanosAfter(now_nanos, rests ? kIdleLookNanos : kLookNanos);
  const auto move = internal::ChooseMove(holdings, free_, max_bytes_);
  if (!move.has_value()) return;
  transfer_ = std::make_unique<Transfer>();
  transfer_->to = members[move->to];
  if (move->from.has_value()) transfer_->from = members[*move->from];
  transfer_->move = *move;
}

// Moves a slice of what is to move. REQUIRES: the turn, and that there is some.
void MemoryShare::Carry() {
  std::unique_ptr<Transfer> transfer = std::move(transfer_);
  int64_t bytes = std::min(transfer->move.bytes, kSlice);
  if (Member* const from = transfer->from.get(); from != nullptr) {
    {
      // Since the last slice, others may have had their turn, and taken some.
      MutexLock lock(&mu_);
      bytes = std::min(bytes, from->bytes - from->options.min_bytes);
    }
    Resize(*from, -bytes);
  }
  {
    MutexLock lock(&mu_);
    bytes = std::min(bytes, free_);
    if (bytes <= 0) return;  // At its floor; or one that ends still has them.
    RecordLocked(*transfer, bytes);
  }
  Resize(*transfer->to, bytes);
  transfer->move.bytes -= bytes;
  if (transfer->move.bytes > 0) transfer_ = std::move(transfer);
}

void MemoryShare::RecordLocked(const Transfer& transfer, int64_t bytes) {
  ShareStats::Move move;
  move.time = options_.clock->Now();
  if (transfer.from != nullptr) {
    transfer.from->given += bytes;
    move.from = transfer.from->options.name;
  }
  transfer.to->taken += bytes;
  move.to = transfer.to->options.name;
  move.bytes = bytes;
  move.gain = transfer.move.gain * kMiB;
  move.loss = transfer.move.loss * kMiB;
  moved_bytes_ += bytes;
  if (!latest_.empty() && latest_.back().from == move.from &&
      latest_.back().to == move.to) {
    move.bytes += latest_.back().bytes;
    latest_.pop_back();
  } else if (latest_.size() == kMostLatest) {
    latest_.erase(latest_.begin());
  }
  latest_.push_back(std::move(move));
}

ShareStats MemoryShare::stats() const {
  ShareStats stats;
  MutexLock lock(&mu_);
  stats.max_bytes = max_bytes_;
  stats.limit = limit_;
  stats.free_bytes = free_;
  stats.moved_bytes = moved_bytes_;
  stats.latest = latest_;
  stats.memory = memory_;
  for (const auto& member : members_) {
    const internal::Holding holding = member->holding();
    stats.members.push_back(
        {member->options.name, member->id, holding.bytes, holding.used,
         holding.min_bytes, member->options.weight, holding.gain * kMiB,
         holding.loss * kMiB, member->taken, member->given});
  }
  return stats;
}

}  // namespace wheelcache
