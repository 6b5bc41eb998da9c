#!/usr/bin/env bash
# One participant with curl: assign and act in one request, then report the outcome.
#
#   RARESWITCH_TOKEN=rsw_… RARESWITCH_URL=https://trial.example.org examples/service/curl.sh berlin:0042 2 0.5
#
# The arguments are the episode's id, which begins with the name of your site and a colon, the
# severity of the participant, and the reward. Every request may be sent again: the answer is the same.
set -euo pipefail

: "${RARESWITCH_TOKEN:?must be the token of a site}"
campaign="${RARESWITCH_URL:-http://127.0.0.1:8000}/v1/campaigns/${RARESWITCH_CAMPAIGN:-doses}"
id=$1 severity=$2 reward=$3

ask() { # the token comes from a file descriptor: arguments can be seen by everybody on the machine
  curl --silent --show-error --fail-with-body --max-time 20 \
    --retry 8 --retry-connrefused --retry-max-time 600 \
    --config <(printf 'header = "Authorization: Bearer %s"\n' "$RARESWITCH_TOKEN") \
    --header 'Content-Type: application/json' "$@"
}

# The policy's SHA-256 is its ETag: hold the file against it before you use it.
ask --output policy.bin --dump-header headers.txt "$campaign/policy" || {
  cat policy.bin >&2
  exit 1
}
expected=$(sed -n 's/^[Ee][Tt][Aa][Gg]: "\([0-9a-f]*\)".*/\1/p' headers.txt)
echo "$expected  policy.bin" | sha256sum --check --quiet
echo "policy $(sed -n 's/^[Xx]-[Vv]ersion: \([0-9]*\).*/version \1/p' headers.txt) verified"

acted=$(ask --data "{\"id\": \"$id\", \"observation\": {\"severity\": $severity}}" "$campaign/act") || {
  echo "$acted" >&2 # the reason of a refusal
  exit 1
}
echo "$acted"
action=$(sed -n 's/.*"action":"\([^"]*\)".*/\1/p' <<<"$acted")
version=$(sed -n 's/.*"version":\([0-9]*\).*/\1/p' <<<"$acted")

report=$(printf '{"id": "%s", "version": %s, "observations": [{"severity": %s}], "actions": ["%s"], "rewards": [%s]}' \
  "$id" "$version" "$severity" "$action" "$reward")
ask --data "$report" "$campaign/episodes"
echo
