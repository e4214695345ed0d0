#!/usr/bin/env bash
# quietly.sh LOG COMMAND...: runs the command with its output in LOG, and shows the log only when the command fails.
set -u
log=$1
shift
mkdir -p "$(dirname "$log")"
if ! "$@" >"$log" 2>&1 </dev/null; then
  tail -n 60 "$log" >&2
  echo "failed: $* (whole output: $log)" >&2
  exit 1
fi
