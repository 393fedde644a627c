# shellcheck disable=SC2030,SC2031,SC2034  # lanes are subshells; for the scripts that source this
#
# Steps that pass or fail, and lanes of them that run beside each other: what
# .ci/run and tools/nightly share. They source this in the root of the project.
#
#   step "format" tools/lint format
#   test_step "default" //...
#   finish
#
# With verbose=1 a step shows what its command says; without, a failure does.
# The folder ${folder} is there until the script ends.

readonly PROGRAM_TIMEOUT=300s

verbose=0
passed=0
failed=0
failures=()
folder="$(mktemp --directory)"
readonly folder
log="${folder}/log"
trap 'rm -rf -- "${folder}"' EXIT
exec </dev/null
export CI=true

# Prints a step's outcome and counts it.
report() {
  local -r status="$1" name="$2" seconds="$3"
  if ((status == 0)); then
    passed=$((passed + 1))
    printf 'PASS  %4d s  %s\n' "${seconds}" "${name}"
  else
    failed=$((failed + 1))
    failures+=("${name}")
    printf 'FAIL  %4d s  %s\n' "${seconds}" "${name}"
    ((verbose)) || tail --lines=100 -- "${log}" | sed 's/^/    /'
  fi
}

# Runs a command as one step that passes or fails as a whole.
step() {
  local -r name="$1" start="${SECONDS}"
  shift
  if ((verbose)); then
    echo "== ${name}"
    "$@"
  else
    "$@" >"${log}" 2>&1
  fi
  report "$?" "${name}" "$((SECONDS - start))"
}

bazel() {
  local -r command="$1"
  shift
  ./bazelw "${command}" --noshow_progress --color=no "$@"
}

# The labels that a query gives; none if its package does not exist.
labels() { ./bazelw query --noshow_progress "$1" 2>/dev/null; }

# Runs tests, each of which counts; the log shows them one by one.
test_step() {
  local -r name="$1" start="${SECONDS}"
  shift
  bazel test --keep_going --test_summary=short "$@" >"${log}" 2>&1
  local -r status="$?"
  local good bad line
  good="$(grep --count --extended-regexp '^//.* PASSED( in|$)' "${log}")"
  bad="$(grep --extended-regexp '^//.* (FAILED|TIMEOUT|NO STATUS|FLAKY|INCOMPLETE)' "${log}")"
  passed=$((passed + good))
  if [[ -n "${bad}" ]]; then
    failed=$((failed + $(wc --lines <<<"${bad}")))
    while read -r line; do failures+=("${name}: ${line}"); done <<<"${bad}"
  fi
  # What did not build counts as the step itself, which counts in no other case.
  if ((status != 0)) && [[ -z "${bad}" ]] || ((good == 0)); then
    report 1 "${name}" "$((SECONDS - start))"
    return
  fi
  printf '%s  %4d s  %s: %d tests\n' "$( ((status)) && echo FAIL || echo PASS)" \
    "$((SECONDS - start))" "${name}" "${good}"
  ((status == 0)) || sed 's/^/    /' "${log}"
}

# Runs a function next to what follows, until `end_lane` prints what its steps
# report and counts them.
start_lane() {
  lane="$1"
  (
    log="${folder}/${lane}.log"
    passed=0
    failed=0
    failures=()
    "${lane}"
    printf '%s\n' "${passed}" "${failed}" "${failures[@]}" >"${folder}/${lane}.counts"
  ) >"${folder}/${lane}.report" 2>&1 &
  lane_pid="$!"
}

end_lane() {
  wait "${lane_pid}"
  cat -- "${folder}/${lane}.report"
  local counts=(0 1 "${lane}, which ended early")
  [[ -s "${folder}/${lane}.counts" ]] && readarray -t counts <"${folder}/${lane}.counts"
  passed=$((passed + counts[0]))
  failed=$((failed + counts[1]))
  failures+=("${counts[@]:2}")
}

# Remembers where the outputs of the last build are, by the name of its
# configuration: the link bazel-bin follows the next build.
remember_outputs() { readlink -- bazel-bin >"${folder}/$1.outputs"; }

# Where the program of a label lies, in a configuration that is remembered.
path_of() {
  local -r path="${2#//}"
  echo "$(<"${folder}/$1.outputs")/${path/://}"
}

# Lists the programs that start_programs and start_fuzzers start. To be called
# outside of a lane: Bazel answers one command at a time.
find_programs() {
  # //examples:trace_replay is an alias, which the query does not follow. Nor
  # does `build` with dots take what is tagged manual.
  readarray -t examples < <(labels 'kind(cc_binary, //examples/... + //tools/trace_replay) except attr(tags, "\bmanual\b", //examples/...)')
  readarray -t benchmarks < <(labels 'attr(tags, "\bbenchmark\b", //benchmarks/...)')
  readarray -t fuzzers < <(labels 'attr(tags, "\bfuzz\b", //tests/...)')
}

# Starts the first case of each family of a benchmark program for an instant. A
# family is what has the same name up to one of the separators: `/` for each
# function with each subject, `/<` for each function with the first one.
start_benchmark() {
  local -r program="$1" separators="$2"
  local filter
  filter="$("${program}" --benchmark_list_tests | grep '^BM_' |
    awk -F "[${separators}]" '!seen[$1]++' |
    sed 's/[].[*^$+?(){}|\\]/\\&/g' | paste --serial --delimiters='|')"
  [[ -n "${filter}" ]] &&
    timeout "${PROGRAM_TIMEOUT}" "${program}" --benchmark_min_time=0.001 --benchmark_filter="^(${filter})\$"
}

# Starts each example and each benchmark of a configuration, with these
# separators.
start_programs() {
  local label
  for label in "${examples[@]}"; do
    step "run ${label}" timeout "${PROGRAM_TIMEOUT}" "$(path_of "$1" "${label}")"
  done
  for label in "${benchmarks[@]}"; do
    step "run ${label}" start_benchmark "$(path_of "$1" "${label}")" "$2"
  done
}

# Prints the closing line. Its status is that of the script.
finish() {
  printf '\n%d min %d s\n' "$((SECONDS / 60))" "$((SECONDS % 60))"
  ((${#failures[@]})) && printf 'FAILED  %s\n' "${failures[@]}"
  echo "${passed} passed, ${failed} failed"
  ((failed == 0))
}
