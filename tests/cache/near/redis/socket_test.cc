#include "wheelcache/cache/near/internal/redis/socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"

namespace wheelcache::internal {
namespace {

class SocketTest : public ::testing::Test {
 protected:
  SocketTest() {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_ = absl::StrCat("/tmp/wheelcache-socket-test-", getpid());
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM, 0);
    const auto* const any = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, any, sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
  }
  ~SocketTest() override {
    close(listener_);
    unlink(path_.c_str());
  }

  Socket Connect() {
    return *Socket::Connect(*ParseServerUrl(absl::StrCat("unix://", path_)));
  }

  std::string path_;
  int listener_ = -1;
};

bool IsOpen(int fd) {
  const int copy = dup(fd);
  if (copy >= 0) close(copy);
  return copy >= 0;
}

TEST_F(SocketTest, ConnectionMovesAndEndsWithItsOwner) {
  int fd = -1;
  {
    Socket first = Connect();
    fd = first.fd();
    const Socket second = std::move(first);
    EXPECT_EQ(second.fd(), fd);
    EXPECT_EQ(first.fd(), -1);  // NOLINT(bugprone-use-after-move): none.
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST_F(SocketTest, AssignedConnectionReplacesTheOneBefore) {
  Socket socket = Connect();
  const int before = socket.fd();
  Socket other = Connect();
  const int after = other.fd();
  socket = std::move(other);
  EXPECT_EQ(socket.fd(), after);
  { const Socket end = std::move(other); }  // NOLINT: what it was swapped for.
  EXPECT_FALSE(IsOpen(before));
  EXPECT_TRUE(IsOpen(after));
}

}  // namespace
}  // namespace wheelcache::internal
