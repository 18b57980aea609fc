# shellcheck shell=bash
# Sourced by the scripts that check a whole clone: it runs steps, and stops what they started. After the last step, call
# finish. Nothing from outside decides what is tested.
exec </dev/null
export CI=true
for variable in $(compgen -e | grep '^DBQ_TEST_' || true); do unset "$variable"; done
DBQ_ENGINES_STATE=$(mktemp -d)
export DBQ_ENGINES_STATE
# Paths are no part of what is built, so that a second clone finds it in the cache.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath"
logs=$(mktemp -d)
passed=0 failed='' times='' running=''

# shellcheck disable=SC2317  # called by the trap
cleanup() {
  [ -z "$running" ] || { kill -TERM "$running" && wait "$running"; } 2>/dev/null || true
  ci/engines/native.sh stop || true
  rm -rf "$DBQ_ENGINES_STATE" "$logs"
}
trap cleanup EXIT
trap 'exit 143' INT TERM

# step NAME SECONDS COMMAND... notes whether the command succeeds; finish fails when one did not.
step() {
  local name=$1 limit=$2 begin=$SECONDS code=0
  local log="$logs/$1"
  shift 2
  echo
  echo "=== $name"
  # In the background, so that a signal ends it; it does not wait for servers that keep the pipe.
  timeout --kill-after=30 "$limit" "$@" > >(tee "$log") 2>&1 &
  running=$!
  wait "$running" || code=$?
  running=''
  times="$times$(printf '%5ds  %s' $((SECONDS - begin)) "$name")"$'\n'
  if [ "$code" = 0 ]; then passed=$((passed + 1)); return; fi
  [ "$code" != 124 ] || echo "=== $name: over $limit s"
  echo "=== $name: FAILED ($code)"
  failed="$failed$name"$'\n'
}

# need NAME SECONDS COMMAND... is a step without which the others make no sense.
need() {
  local before=$failed
  step "$@"
  [ "$failed" = "$before" ] || finish
}

# start TARGET... starts servers, and puts what names them into the array dsns.
start() {
  local lines
  # shellcheck disable=SC2016  # $@ is the inner shell's
  need "start" 180 bash -euc 'ci/engines/native.sh start "$@" >"$DBQ_ENGINES_STATE/dsn"' start "$@"
  mapfile -t lines < <(sed "s/^export //; s/'//g" "$DBQ_ENGINES_STATE/dsn")
  dsns+=("${lines[@]}")
}
dsns=()

commas() { echo "$*" | tr ' ' ','; }

# failures prints the end of a step that failed: a reader may have only the end of the output.
failures() { printf '\n=== failures of %s\n' "$1" && tail -n 60 "$logs/$1" | cut -c1-300; }

finish() {
  local count name
  count=$(printf '%s' "$failed" | grep -c . || true)
  while read -r name; do [ -z "$name" ] || failures "$name"; done <<<"$failed"
  echo
  printf '%s%5ds  in all\n' "$times" "$SECONDS"
  [ -z "$failed" ] || printf 'failed: %s\n' "${failed%$'\n'}"
  echo "steps: $passed passed, $count failed"
  [ "$count" = 0 ] || exit 1
  exit 0
}
