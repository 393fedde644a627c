#include "wheelcache/tests/testing/redis_cluster.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace wheelcache::testing {
namespace {

constexpr size_t kSlots = 16384;
constexpr absl::Duration kLimit = absl::Seconds(30);

// With a node that may be stopped.
constexpr absl::Duration kPatience = absl::Milliseconds(500);

}  // namespace

absl::StatusOr<std::unique_ptr<RedisCluster>> RedisCluster::Start(
    Replicas replicas, const std::vector<std::string>& more) {
  std::unique_ptr<RedisCluster> cluster(new RedisCluster);
  const size_t count = kPrimaries * (replicas == kWithReplicas ? 2 : 1);
  for (size_t i = 0; i < count; ++i) {
    std::vector<std::string> options = {
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        absl::StrCat(absl::ToInt64Milliseconds(kNodeTimeout)),
        "--cluster-replica-validity-factor",
        "0"};
    options.insert(options.end(), more.begin(), more.end());
    auto node = RedisServer::Start(std::move(options));
    if (!node.ok()) return node.status();
    cluster->nodes_.push_back(*std::move(node));
    cluster->relays_.push_back(
        std::make_unique<Relay>(cluster->nodes_[i]->port()));
    {
      MutexLock lock(&cluster->mu_);
      cluster->clients_.push_back(
          std::make_unique<RedisClient>(cluster->nodes_[i]->port(), kPatience));
    }
    cluster->ids_.push_back(cluster->Run(i, {"CLUSTER", "MYID"}));
    cluster->Run(i, {"CONFIG", "SET", "cluster-announce-port",
                     absl::StrCat(cluster->relays_[i]->port())});
  }
  if (absl::Status status = cluster->Join(); !status.ok()) return status;
  return cluster;
}

absl::Status RedisCluster::Join() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::string bus = Run(i, {"CONFIG", "GET", "cluster-port"});
    const std::vector<std::string> words = absl::StrSplit(bus, ' ');
    Run(0, {"CLUSTER", "MEET", "127.0.0.1", absl::StrCat(nodes_[i]->port()),
            words.back()});
  }
  for (size_t i = 0; i < kPrimaries; ++i) {
    Run(i, {"CONFIG", "SET", "cluster-replica-no-failover", "no"});
    Run(i, {"CLUSTER", "ADDSLOTSRANGE", absl::StrCat(i * kSlots / kPrimaries),
            absl::StrCat((i + 1) * kSlots / kPrimaries - 1)});
  }
  const absl::Time end = absl::Now() + kLimit;
  const auto until = [&](const auto& condition) {
    while (!condition()) {
      if (absl::Now() > end) return false;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  };
  for (size_t i = kPrimaries; i < nodes_.size(); ++i) {
    if (!until([&] {
          return Run(i, {"CLUSTER", "REPLICATE", ids_[i - kPrimaries]}) == "OK";
        })) {
      return absl::InternalError("a replica does not find its primary");
    }
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!until([&] {
          const std::string info = Run(i, {"CLUSTER", "INFO"});
          return absl::StrContains(info, "cluster_state:ok") &&
                 absl::StrContains(
                     info, absl::StrCat("cluster_known_nodes:", nodes_.size()));
        })) {
      return absl::InternalError("the cluster does not come up");
    }
  }
  for (size_t i = kPrimaries; i < nodes_.size(); ++i) {
    if (!until([&] {
          return absl::StrContains(Run(i, {"INFO", "replication"}),
                                   "master_link_status:up");
        })) {
      return absl::InternalError("a replica does not follow its primary");
    }
  }
  return absl::OkStatus();
}

std::string RedisCluster::Run(size_t i,
                              const std::vector<absl::string_view>& arguments) {
  MutexLock lock(&mu_);
  return RunLocked(i, arguments);
}

std::string RedisCluster::RunLocked(
    size_t i, const std::vector<absl::string_view>& arguments) {
  std::string reply = clients_[i]->Run(arguments);
  if (reply != "(closed)") return reply;
  clients_[i] = std::make_unique<RedisClient>(nodes_[i]->port(), kPatience);
  return clients_[i]->Run(arguments);
}

std::string RedisCluster::RunForKey(
    const std::vector<absl::string_view>& arguments) {
  const absl::Time end = absl::Now() + kLimit;
  bool is_asking = false;
  for (size_t i = 0; absl::Now() < end;) {
    std::string reply;
    {
      MutexLock lock(&mu_);
      if (is_asking) RunLocked(i, {"ASKING"});
      reply = RunLocked(i, arguments);
    }
    const std::vector<std::string> words = absl::StrSplit(reply, ' ');
    is_asking = words[0] == "ASK";
    int port = 0;
    if (words.size() == 3 && (words[0] == "MOVED" || is_asking) &&
        absl::SimpleAtoi(words[2].substr(words[2].rfind(':') + 1), &port)) {
      for (size_t n = 0; n < nodes_.size(); ++n) {
        if (relays_[n]->port() == port) i = n;
      }
      continue;
    }
    if (reply != "(closed)" && words[0] != "CLUSTERDOWN" &&
        words[0] != "TRYAGAIN") {
      return reply;
    }
    i = (i + 1) % nodes_.size();
    absl::SleepFor(absl::Milliseconds(5));
  }
  return "";
}

size_t RedisCluster::OwnerOf(size_t slot) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::string list = Run(i, {"CLUSTER", "NODES"});
    for (const absl::string_view line : absl::StrSplit(list, '\n')) {
      if (!absl::StrContains(line, "myself,master")) continue;
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      for (size_t w = 8; w < words.size(); ++w) {
        const std::vector<std::string> ends = absl::StrSplit(words[w], '-');
        size_t first = 0;
        size_t last = 0;
        if (absl::SimpleAtoi(ends.front(), &first) &&
            absl::SimpleAtoi(ends.back(), &last) && slot >= first &&
            slot <= last) {
          return i;
        }
      }
    }
  }
  return nodes_.size();
}

void RedisCluster::MoveSlot(size_t slot, size_t to) {
  const size_t from = OwnerOf(slot);
  if (from == to || from == ids_.size()) return;
  const std::string number = absl::StrCat(slot);
  const std::string port = absl::StrCat(nodes_[to]->port());
  Run(to, {"CLUSTER", "SETSLOT", number, "IMPORTING", ids_[from]});
  Run(from, {"CLUSTER", "SETSLOT", number, "MIGRATING", ids_[to]});
  while (true) {
    const std::string keys =
        Run(from, {"CLUSTER", "GETKEYSINSLOT", number, "1"});
    if (keys.empty()) break;
    Run(from, {"MIGRATE", "127.0.0.1", port, keys, "0", "5000"});
  }
  for (const size_t node : {to, from}) {
    Run(node, {"CLUSTER", "SETSLOT", number, "NODE", ids_[to]});
  }
}

}  // namespace wheelcache::testing
