// A service that shows its caches: /metrics for Prometheus, /caches for people.
//
//   ./bazelw run --config=http //examples:status_server -- --port=8080
//
// It serves users by name, /users/alice, from a cache in front of a slow
// source, and keeps their sessions in another one. Whoever can reach the port
// can see the names and the traffic of all caches, but no key and no value;
// this server listens to its own machine alone.

#include <httplib.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/prometheus.h"
#include "wheelcache/cache/status_page.h"

namespace {

using httplib::Request;
using httplib::Response;
using Users = wheelcache::Cache<std::string, std::string>;
using Sessions = wheelcache::Cache<int, std::string>;

absl::StatusOr<std::unique_ptr<Users>> CreateUsers() {
  wheelcache::CacheOptions options;
  options.name = "users";
  options.max_bytes = 1 << 20;
  options.default_ttl = absl::Hours(1);
  return Users::Create(options);
}

// Smaller than its traffic needs, so that there is something to see.
absl::StatusOr<std::unique_ptr<Sessions>> CreateSessions() {
  wheelcache::CacheOptions options;
  options.name = "sessions";
  options.max_entries = 1000;
  options.default_ttl = absl::Minutes(30);
  return Sessions::Create(options);
}

// A hundred visitors come again and again, and each other one is new.
void ServeVisitors(Sessions& sessions) {
  for (int i = 0; i < 20'000; ++i) {
    const int visitor = i % 2 == 0 ? i % 200 : i;
    if (!sessions.Get(visitor)) sessions.Set(visitor, "basket");
  }
}

// The number of a flag --port=N; 0, which chooses a free one, without it.
int PortOf(int argc, char** argv) {
  constexpr char kFlag[] = "--port=";
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], kFlag, sizeof(kFlag) - 1) == 0) {
      return std::atoi(argv[i] + sizeof(kFlag) - 1);
    }
  }
  return 0;
}

void ShowCaches(httplib::Server& server) {
  server.Get("/metrics", [](const Request&, Response& response) {
    response.set_content(wheelcache::PrometheusText(),
                         wheelcache::kPrometheusContentType);
  });
  server.Get("/caches", [](const Request&, Response& response) {
    response.set_content(wheelcache::StatusPage(), "text/html");
  });
}

}  // namespace

int main(int argc, char** argv) {
  const auto users = CreateUsers();
  const auto sessions = CreateSessions();
  if (!users.ok() || !sessions.ok()) return 1;
  ServeVisitors(**sessions);

  httplib::Server server;
  ShowCaches(server);
  server.Get(R"(/users/(\w+))",
             [&](const Request& request, Response& response) {
               const std::string name = request.matches[1];
               const auto user = (*users)->GetOrLoad(name, [&] {
                 return absl::StatusOr<std::string>("The user " + name + "\n");
               });
               response.set_content(user.value_or("Nobody\n"), "text/plain");
             });

  constexpr char kHost[] = "127.0.0.1";
  int port = PortOf(argc, argv);
  if (port == 0) {
    port = server.bind_to_any_port(kHost);
  } else if (!server.bind_to_port(kHost, port)) {
    port = -1;
  }
  if (port < 0) {
    std::fprintf(stderr, "status_server: the port is not free\n");
    return 1;
  }
  std::printf("http://%s:%d/caches\n", kHost, port);
  std::fflush(stdout);
  return server.listen_after_bind() ? 0 : 1;
}
