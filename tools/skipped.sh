#!/usr/bin/env bash
# Counts the tests, and the parts of tests and wheels, that could not run, by reason. Fails if all had to run.
set -euo pipefail
if [[ ! -s $CATNIP_SKIPPED ]]; then
  echo "skipped: nothing"
  exit
fi
# Each layer says anew what it lacks.
sort -u -o "$CATNIP_SKIPPED" "$CATNIP_SKIPPED"
echo "skipped: $(wc -l <"$CATNIP_SKIPPED"), listed in $CATNIP_SKIPPED"
sed 's/^[^ ]*: //' "$CATNIP_SKIPPED" | sort | uniq -c | sort -rn
[[ -z ${CATNIP_TESTS_MUST_RUN:-} ]]
