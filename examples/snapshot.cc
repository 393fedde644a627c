// A warm start: loads what the cache held when the last process ended, and
// saves what it holds when this one gets a SIGTERM.
//
//   snapshot /var/lib/visits.snapshot
//
// Each letter on the standard input is a visit of the user that it names, whom
// the program forgets after an hour.

#include "wheelcache/cache/snapshot/snapshot.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"

namespace {

// From a user's name to the number of visits.
using Visits = wheelcache::Cache<char, int>;

void Load(const std::string& path, Visits& visits) {
  const auto loaded = wheelcache::LoadSnapshotFile(visits, path);
  if (loaded.ok()) {
    std::cout << loaded->stored << " user(s) are known" << std::endl;
    if (!loaded->status.ok()) std::cerr << loaded->status << std::endl;
  } else {
    std::cout << "a cold start: " << loaded.status().code() << std::endl;
  }
}

bool Save(const std::string& path, Visits& visits) {
  const auto saved = wheelcache::SaveSnapshotFile(visits, path);
  if (saved.ok()) return true;
  std::cerr << saved.status() << std::endl;
  return false;
}

void Serve(char user, Visits& visits) {
  visits.Update(user, [user](const Visits::Handle& old) {
    const int visit = old ? *old + 1 : 1;
    std::cout << user << ": visit " << visit << std::endl;
    return Visits::Decision::Set(visit, absl::Hours(1));
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: snapshot FILE" << std::endl;
    return 2;
  }
  // Before any other thread begins, so that none takes the signal.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, nullptr);

  const auto visits = Visits::Create({});
  if (!visits.ok()) return 1;
  Load(argv[1], **visits);

  pollfd sources[] = {{signalfd(-1, &ends, SFD_CLOEXEC), POLLIN, 0},
                      {STDIN_FILENO, POLLIN, 0}};
  char user;
  while (poll(sources, 2, -1) > 0 && sources[0].revents == 0 &&
         read(STDIN_FILENO, &user, 1) == 1) {
    Serve(user, **visits);
  }
  return Save(argv[1], **visits) ? 0 : 1;
}
