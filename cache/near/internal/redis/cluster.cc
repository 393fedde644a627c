#include "wheelcache/cache/near/internal/redis/cluster.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "wheelcache/cache/near/internal/redis/fetch.h"
#include "wheelcache/cache/near/internal/redis/node.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"

namespace wheelcache::internal {
namespace {

using Fetched = RemoteStore::Fetched;

// Of a command: a slot moves seldom, and not to and fro within one.
constexpr int kMostRedirections = 5;

// The commands, for a slot that is coming to the node.
Pipeline::Batch AskingBatch(const std::vector<std::string>& commands) {
  Pipeline::Batch batch = {Pipeline::Kind::kWrites, {}, 0};
  const std::string asking = Encoded({"ASKING"});
  for (const std::string& command : commands) {
    batch.bytes.append(asking).append(command);
    batch.commands += 2;
  }
  return batch;
}

// The replies to the commands themselves.
absl::StatusOr<std::vector<Reply>> WithoutAsking(
    absl::StatusOr<std::vector<Reply>> replies) {
  if (!replies.ok()) return replies;
  std::vector<Reply> its;
  for (size_t i = 0; i < replies->size(); i += 2) {
    if ((*replies)[i].is_error()) {
      return StatusOfError("ASKING", (*replies)[i]);
    }
    its.push_back(std::move((*replies)[i + 1]));
  }
  return its;
}

uint64_t SessionOf(const ClusterNodes::Target& target) {
  return target.belief == 0 ? 0 : target.node->session();
}

}  // namespace

// CRC16 of CCITT, as XMODEM has it.
size_t SlotOf(absl::string_view key) {
  const size_t open = key.find('{');
  if (open != absl::string_view::npos) {
    const size_t close = key.find('}', open);
    if (close != absl::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  constexpr uint32_t kPolynomial = 0x1021;
  uint32_t crc = 0;
  for (const char c : key) {
    crc ^= static_cast<uint32_t>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000) != 0 ? (crc << 1) ^ kPolynomial : crc << 1;
    }
  }
  return crc % kSlots;
}

std::string NameInSlotOf(absl::string_view key, std::string name) {
  const size_t slot = SlotOf(key);
  if (SlotOf(name) == slot) return name;
  std::string tagged = absl::StrCat(name, "{", key, "}");
  // For keys with odd braces, numbers, until one fits.
  for (int i = 0; SlotOf(tagged) != slot; ++i) {
    tagged = absl::StrCat(name, "{", i, "}");
  }
  return tagged;
}

std::optional<Cluster::Redirection> Cluster::RedirectionOf(
    const Node& node, absl::Span<const Reply> replies) {
  for (const Reply& reply : replies) {
    if (!reply.is_error()) continue;
    const std::vector<std::string> words = absl::StrSplit(reply.text, ' ');
    if (words.size() != 3 || (words[0] != "MOVED" && words[0] != "ASK")) {
      continue;
    }
    const size_t colon = words[2].rfind(':');
    size_t slot = 0;
    uint32_t port = 0;
    if (colon == std::string::npos || !absl::SimpleAtoi(words[1], &slot) ||
        slot >= kSlots ||
        !absl::SimpleAtoi(words[2].substr(colon + 1), &port) || port == 0 ||
        port > UINT16_MAX) {
      continue;
    }
    // An empty host is that of the node itself.
    const std::string host =
        colon == 0 ? node.url().hosts.front().host : words[2].substr(0, colon);
    return Redirection{words[0] == "ASK", slot, absl::StrCat(host, ":", port)};
  }
  return std::nullopt;
}

// Of commands some of which are redirected, those that are not. While a slot
// moves, a key may be at the source, and its lock at the target.
void Cluster::TakeExecuted(const Node& node, absl::Span<Reply> replies,
                           Job* job) {
  std::vector<std::string> redirected;
  for (size_t i = 0; i < replies.size(); ++i) {
    if (RedirectionOf(node, replies.subspan(i, 1)).has_value()) {
      redirected.push_back(std::move(job->commands[i]));
    } else if (i + 1 == replies.size()) {
      job->last = std::move(replies[i]);
    }
  }
  job->commands = std::move(redirected);
}

std::vector<absl::StatusOr<Reply>> Cluster::Run(
    absl::Span<WriteCommands> writes, absl::Duration timeout) {
  std::vector<Job> jobs(writes.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].key = writes[i].key;
    jobs[i].commands = std::move(writes[i].commands);
  }
  RunAll({/*are_reads=*/false, clock_.NanosAfter(timeout)},
         absl::MakeSpan(jobs));
  std::vector<absl::StatusOr<Reply>> results;
  results.reserve(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    Job& job = jobs[i];
    if (job.last.has_value() && job.replies.ok()) {
      job.replies->push_back(*std::move(job.last));
    }
    results.push_back(LastReply(writes[i].name, std::move(job.replies)));
  }
  return results;
}

std::vector<absl::StatusOr<Fetched>> Cluster::Fetch(
    absl::Span<const absl::string_view> keys, absl::Duration timeout) {
  std::vector<Job> jobs(keys.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].key = keys[i];
    jobs[i].commands = {Encoded({"PTTL", keys[i]}), Encoded({"GET", keys[i]})};
  }
  RunAll({/*are_reads=*/true, clock_.NanosAfter(timeout)},
         absl::MakeSpan(jobs));
  std::vector<absl::StatusOr<Fetched>> results;
  results.reserve(jobs.size());
  for (Job& job : jobs) {
    results.push_back(
        FetchedFrom(std::move(job.replies), job.sent_nanos, job.session));
  }
  return results;
}

void Cluster::RunAll(const Call& call, absl::Span<Job> jobs) {
  const size_t at_once =
      std::clamp<size_t>(settings_.max_in_flight / 2, 1, kMostKeysOfRound);
  for (; !jobs.empty(); jobs.remove_prefix(std::min(at_once, jobs.size()))) {
    const absl::Span<Job> some = jobs.subspan(0, at_once);
    std::vector<size_t> wanted(some.size());
    std::iota(wanted.begin(), wanted.end(), size_t{0});
    for (Job& job : some) {
      job.replies =
          absl::UnavailableError("the cluster moves the slot of the key");
    }
    for (int i = 0; i <= kMostRedirections && !wanted.empty(); ++i) {
      wanted = RunSome(call, some, wanted);
    }
  }
}

// The jobs of one node, on their way.
struct Cluster::Round {
  ClusterNodes::Target target;
  std::vector<size_t> jobs;
  uint64_t session;
  Pipeline* pipeline;
  std::unique_ptr<Pipeline::Call> call;
};

// Runs the jobs at some positions, on all their nodes at a time. Returns the
// positions of those that are to be run again.
std::vector<size_t> Cluster::RunSome(const Call& call, absl::Span<Job> jobs,
                                     absl::Span<const size_t> wanted) {
  std::vector<size_t> again;
  std::vector<size_t> unserved;
  std::vector<std::pair<size_t, std::string>> asked_for;  // And of whom.
  // By node, and where late writes of the keys went.
  std::map<std::pair<Node*, Pipeline*>, Round> rounds;
  for (const size_t i : wanted) {
    std::optional<ClusterNodes::Target> target =
        nodes_.OwnerOf(SlotOf(jobs[i].key));
    if (!target.has_value()) {
      unserved.push_back(i);
      continue;
    }
    Node* const node = target->node.get();
    Pipeline* const late =
        call.are_reads ? nullptr : node->LateWriteOf(jobs[i].key);
    Round& round = rounds[{node, late}];
    round.target = *std::move(target);
    round.jobs.push_back(i);
  }
  const int64_t sent_nanos = clock_.NowNanos();
  for (auto& [place, round] : rounds) {
    const auto [node, late] = place;
    // Not to be sent again on a connection to a node that may have changed.
    Pipeline::Batch batch = {Pipeline::Kind::kWrites, {}, 0};
    for (const size_t i : round.jobs) {
      for (const std::string& command : jobs[i].commands) {
        batch.bytes.append(command);
        ++batch.commands;
      }
    }
    round.session = node->session();  // Before anything is sent.
    round.pipeline = call.are_reads ? &node->reads()
                                    : &node->writes(batch.bytes.size(), late);
    round.call =
        std::make_unique<Pipeline::Call>(std::move(batch), call.deadline_nanos);
    round.pipeline->Begin(*round.call);
  }
  for (auto& [place, round] : rounds) {
    Node* const node = place.first;
    Replies replies = round.pipeline->End(*round.call);
    if (call.are_reads && replies.ok() && !nodes_.StillBelieves(round.target)) {
      replies = absl::UnavailableError("the node may have been replaced");
    }
    const bool is_lost = absl::IsUnavailable(replies.status());
    if (is_lost) nodes_.Suspect();
    size_t taken = 0;
    for (const size_t i : round.jobs) {
      Job& job = jobs[i];
      if (!replies.ok()) {
        job.replies = replies.status();
        if (call.are_reads && is_lost) again.push_back(i);
        if (!call.are_reads && absl::IsDeadlineExceeded(replies.status())) {
          node->AddLateWrite(job.key, round.pipeline);
        }
        continue;
      }
      const auto its =
          absl::MakeSpan(*replies).subspan(taken, job.commands.size());
      taken += its.size();
      const std::optional<Redirection> redirection = RedirectionOf(*node, its);
      if (!redirection.has_value()) {
        job.replies = std::vector<Reply>(std::make_move_iterator(its.begin()),
                                         std::make_move_iterator(its.end()));
        job.session = round.session;
        job.sent_nanos = sent_nanos;
        continue;
      }
      if (!call.are_reads) TakeExecuted(*node, its, &job);
      if (redirection->is_ask) {
        asked_for.emplace_back(i, redirection->address);
      } else {
        nodes_.SetOwner(redirection->slot, redirection->address);
        again.push_back(i);
      }
    }
  }
  // Only now, so that they do not keep the others waiting.
  for (const auto& [i, address] : asked_for) {
    if (!RunByAsking(call, address, &jobs[i])) again.push_back(i);
  }
  for (const size_t i : unserved) {
    const absl::StatusOr<ClusterNodes::Target> target =
        nodes_.AwaitOwner(SlotOf(jobs[i].key), call.deadline_nanos);
    if (target.ok()) {
      again.push_back(i);
    } else {
      jobs[i].replies = target.status();
    }
  }
  return again;
}

// On the node to which the slot of the key is going. Returns false if the job
// is to be run again.
bool Cluster::RunByAsking(const Call& call, const std::string& address,
                          Job* job) {
  const absl::StatusOr<ClusterNodes::Target> target =
      nodes_.AwaitBelief(address, call.deadline_nanos);
  if (!target.ok()) {
    job->replies = target.status();
    return true;
  }
  Node& node = *target->node;
  Pipeline::Batch batch = AskingBatch(job->commands);
  job->sent_nanos = clock_.NowNanos();
  job->session = SessionOf(*target);
  Pipeline* const late = call.are_reads ? nullptr : node.LateWriteOf(job->key);
  Pipeline& pipeline =
      call.are_reads ? node.reads() : node.writes(batch.bytes.size(), late);
  Replies its = WithoutAsking(pipeline.Execute(
      std::move(batch), absl::Nanoseconds(call.deadline_nanos) - clock_.Now()));
  if (!its.ok()) {
    job->replies = its.status();
    if (!call.are_reads && absl::IsDeadlineExceeded(its.status())) {
      node.AddLateWrite(job->key, &pipeline);
    }
    return !call.are_reads || !absl::IsUnavailable(its.status());
  }
  const std::optional<Redirection> redirection = RedirectionOf(node, *its);
  if (redirection.has_value()) {
    if (!call.are_reads) TakeExecuted(node, absl::MakeSpan(*its), job);
    if (!redirection->is_ask) {
      nodes_.SetOwner(redirection->slot, redirection->address);
    }
    return false;
  }
  if (call.are_reads && !nodes_.StillBelieves(*target)) return false;
  job->replies = std::move(its);
  return true;
}

// A BeginFetch that is not done.
struct Cluster::Fetching {
  std::string name;
  std::vector<std::string> commands;
  int64_t deadline_nanos;
  RemoteStore::FetchDone done;
  int tries_left = kMostRedirections + 1;
  std::string asked = {};  // To which node the slot is going, if to any.
  absl::Status why =
      absl::UnavailableError("GET: the cluster moves the slot of the key");
};

void Cluster::BeginFetch(absl::string_view key, absl::Duration timeout,
                         RemoteStore::FetchDone done) {
  GoOn(std::make_shared<Fetching>(
      Fetching{std::string(key),
               {Encoded({"PTTL", key}), Encoded({"GET", key})},
               clock_.NanosAfter(timeout),
               std::move(done)}));
}

void Cluster::GoOn(const std::shared_ptr<Fetching>& fetching) {
  const bool is_asking = !fetching->asked.empty();
  std::optional<ClusterNodes::Target> target =
      is_asking ? nodes_.BelievedAt(fetching->asked)
                : nodes_.OwnerOf(SlotOf(fetching->name));
  if (!target.has_value()) {
    nodes_.WhenChanged(
        fetching->deadline_nanos, [this, fetching](bool is_in_time) {
          if (is_in_time) return GoOn(fetching);
          fetching->done(absl::UnavailableError(
              "GET: no node that a majority of the cluster confirms serves the "
              "key"));
        });
    return;
  }
  if (fetching->tries_left-- == 0) return fetching->done(fetching->why);
  Pipeline::Batch batch = {Pipeline::Kind::kWrites,
                           absl::StrJoin(fetching->commands, ""),
                           fetching->commands.size()};
  if (is_asking) batch = AskingBatch(fetching->commands);
  fetching->asked.clear();
  const uint64_t session = SessionOf(*target);  // Before anything is sent.
  const int64_t sent_nanos = clock_.NowNanos();
  Pipeline& reads = target->node->reads();
  reads.Start(
      std::move(batch),
      absl::Nanoseconds(fetching->deadline_nanos - sent_nanos),
      [this, fetching, session, sent_nanos, is_asking,
       target = *std::move(target)](Replies replies) {
        if (is_asking) replies = WithoutAsking(std::move(replies));
        if (MustGoOn(target, replies, *fetching)) {
          return GoOn(fetching);
        }
        fetching->done(FetchedFrom(std::move(replies), sent_nanos, session));
      });
}

// Whether these are not the replies that were asked for, and another node, or
// this one again, is to be asked.
bool Cluster::MustGoOn(const ClusterNodes::Target& target,
                       const Replies& replies, Fetching& fetching) {
  if (replies.ok() && nodes_.StillBelieves(target)) {
    const std::optional<Redirection> redirection =
        RedirectionOf(*target.node, *replies);
    if (!redirection.has_value()) return false;
    if (redirection->is_ask) {
      fetching.asked = redirection->address;
    } else {
      nodes_.SetOwner(redirection->slot, redirection->address);
    }
    return true;
  }
  if (!replies.ok() && !absl::IsUnavailable(replies.status())) return false;
  fetching.why = absl::UnavailableError(
      replies.ok() ? "GET: the node may have been replaced"
                   : absl::StrCat("GET: ", replies.status().message()));
  nodes_.Suspect();
  return true;
}

}  // namespace wheelcache::internal
