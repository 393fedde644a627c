#include "wheelcache/cache/near/internal/redis/wire.h"

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace wheelcache::internal {

absl::Status Wire::Send(std::string bytes) {
  unsent_bytes_ += bytes.size();
  if (!unsent_.empty() && unsent_.back().size() + bytes.size() <= kBlockBytes) {
    unsent_.back().append(bytes);
    return absl::OkStatus();
  }
  const bool is_first = unsent_.empty();
  unsent_.push_back(std::move(bytes));
  return is_first ? Flush() : absl::OkStatus();
}

absl::Status Wire::Flush() {
  bool has_room = true;
  while (has_room && !unsent_.empty()) {
    std::string& first = unsent_.front();
    absl::StatusOr<size_t> sent =
        stream_->Send(absl::string_view(first).substr(sent_));
    if (!sent.ok()) return sent.status();
    sent_ += *sent;
    has_room = sent_ == first.size();
    if (has_room) {
      unsent_bytes_ -= first.size();
      unsent_.pop_front();
      sent_ = 0;
    } else if (sent_ >= kBlockBytes && 2 * sent_ >= first.size()) {
      // The rest is copied, which is no more than what has left.
      unsent_bytes_ -= sent_;
      first = first.substr(sent_);
      sent_ = 0;
    }
  }
  return absl::OkStatus();
}

absl::Status Wire::Receive(std::vector<Reply>* replies, Stream::Wait wait) {
  do {
    absl::StatusOr<std::optional<size_t>> size =
        stream_->Receive(absl::MakeSpan(buffer_), wait);
    if (!size.ok()) return size.status();
    if (!size->has_value()) return absl::OkStatus();
    reader_.Feed({buffer_.data(), **size});
    if (absl::Status status = TakeReplies(replies); !status.ok()) {
      return status;
    }
  } while (stream_->has_more());
  return absl::OkStatus();
}

absl::Status Wire::TakeReplies(std::vector<Reply>* replies) {
  while (true) {
    Reply reply;
    switch (reader_.Next(&reply)) {
      case ReplyReader::kReply:
        replies->push_back(std::move(reply));
        break;
      case ReplyReader::kNeedsMore:
        return absl::OkStatus();
      case ReplyReader::kBroken:
        return absl::UnavailableError(absl::StrCat(
            "what arrived is not of the Redis protocol, or too much: ",
            reader_.error()));
    }
  }
}

}  // namespace wheelcache::internal
