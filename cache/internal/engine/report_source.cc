#include "wheelcache/cache/internal/engine/report_source.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

// The sources of the process, ordered by name and id.
class ReportSource::List {
 public:
  // Never destroyed: static caches may end at any time.
  static List& Get() {
    static List* const list = new List;
    return *list;
  }

  // Gives the source its id.
  void Add(ReportSource* source) {
    MutexLock lock(&mu_);
    const auto group = std::partition_point(
        sources_.begin(), sources_.end(), [&](const ReportSource* each) {
          return each->name() < source->name();
        });
    // Up to the lowest free id, each is one more than the one before it.
    const auto free =
        std::partition_point(group, sources_.end(), [&](auto& each) {
          return each->name() == source->name() &&
                 each->id_ == static_cast<int>(&each - &*group) + 1;
        });
    source->id_ = static_cast<int>(free - group) + 1;
    sources_.insert(free, source);
  }

  void Remove(ReportSource* source) {
    MutexLock lock(&mu_);
    sources_.erase(std::find(sources_.begin(), sources_.end(), source));
  }

  void ForEach(absl::FunctionRef<void(ReportSource&)> visit) {
    MutexLock lock(&mu_);
    for (ReportSource* const source : sources_) visit(*source);
  }

 private:
  Mutex mu_;
  std::vector<ReportSource*> sources_ ABSL_GUARDED_BY(mu_);
};

ReportSource::ReportSource(const CacheOptions& options,
                           std::function<CacheStats()> stats,
                           std::function<void(Visit)> more)
    : name_(options.name),
      clock_(*options.clock),
      stats_(std::move(stats)),
      more_(std::move(more)) {
  List::Get().Add(this);
}

ReportSource::ReportSource(const std::string& name, Clock* clock,
                           std::function<ShareStats()> share_stats)
    : name_(name), clock_(*clock), share_stats_(std::move(share_stats)) {
  List::Get().Add(this);
}

ReportSource::~ReportSource() { List::Get().Remove(this); }

void ReportSource::ForEach(absl::FunctionRef<void(ReportSource&)> visit) {
  List::Get().ForEach(visit);
}

}  // namespace wheelcache::internal
