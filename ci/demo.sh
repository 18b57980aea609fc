#!/bin/bash
# Runs the README's first command: it must serve the console's sample data. It is stopped as Ctrl-C does, and killed
# if that does not end it.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# timeout is the leader of a process group of its own, to which it passes the signal on, as a terminal does.
timeout --signal=INT --kill-after=10 240 go run ./cmd/dbq serve --demo --listen 127.0.0.1:0 >"$log" 2>&1 &
address() { sed -n 's/^serving .* on \(http[^;]*\);.*/\1/p' "$log"; }
served() { curl -fsSL --max-time 5 "$(address)" 2>/dev/null | grep -q '· dbq</title>'; }
for ((tries = 200; tries > 0; tries--)); do
  ! served || break
  sleep 1
done
kill -INT $!
wait $! || true # go run reports the signal
cat "$log"
[ "$tries" -gt 0 ] || { echo "demo: the console does not answer"; exit 1; }
