// The address of a port of this machine.

#ifndef WHEELCACHE_TESTS_TESTING_LOOPBACK_H_
#define WHEELCACHE_TESTS_TESTING_LOOPBACK_H_

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>

namespace wheelcache::testing {

inline sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_LOOPBACK_H_
