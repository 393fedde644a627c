#include "wheelcache/tools/trace_replay/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "wheelcache/cache/report/internal/format.h"

namespace wheelcache::replay {

std::string ProgressLine(std::optional<double> share, int64_t requests,
                         std::chrono::duration<double> elapsed) {
  constexpr int kWidth = 30;
  std::string line;
  if (share.has_value()) {
    const double done = std::clamp(*share, 0.0, 1.0);
    const int filled = static_cast<int>(done * kWidth);
    line = absl::StrFormat("[%s%s] %3.0f%%  ", std::string(filled, '#'),
                           std::string(kWidth - filled, '.'), 100 * done);
  }
  absl::StrAppend(&line, internal::FormatCount(requests), " requests");
  if (share.has_value() && *share > 0) {
    const double remaining = elapsed.count() * (1 / *share - 1);
    absl::StrAppendFormat(&line, ", %.0f s left", std::max(remaining, 0.0));
  }
  return line;
}

ProgressBar::ProgressBar(int descriptor) : descriptor_(descriptor) {}

ProgressBar::~ProgressBar() { Draw(""); }

void ProgressBar::Update(std::optional<double> share, int64_t requests) {
  const Clock::time_point now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + std::chrono::milliseconds(100);
  Draw(ProgressLine(share, requests, now - start_));
}

void ProgressBar::Draw(const std::string& line) const {
  // "\x1b[K" erases what is left of the line drawn before.
  const std::string text = absl::StrCat("\r", line, "\x1b[K");
  // Errors are ignored: a replay needs no progress bar.
  [[maybe_unused]] const ssize_t written =
      write(descriptor_, text.data(), text.size());
}

}  // namespace wheelcache::replay
