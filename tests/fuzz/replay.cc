// Runs a fuzz target without libFuzzer, so that fuzzers are ordinary tests as
// well: on each file that the command line names, which is how a finding is
// kept from coming back, and then on inputs drawn from a fixed seed.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

namespace {

constexpr int kInputs = 500;
constexpr std::size_t kMaxSize = 512;

bool RunFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read the input %s\n", path);
    return false;
  }
  const std::vector<char> input{std::istreambuf_iterator<char>(file), {}};
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()),
                         input.size());
  return true;
}

void RunRandomInputs() {
  std::minstd_rand random(1);
  std::vector<std::uint8_t> input;
  for (int i = 0; i < kInputs; ++i) {
    input.resize(random() % (kMaxSize + 1));
    for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random());
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!RunFile(argv[i])) return 1;
  }
  RunRandomInputs();
}
