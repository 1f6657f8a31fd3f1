#!/usr/bin/env bash
# What action.yml runs: vramplan changed, its answer as a summary and as the comment of this action. BASE, FILES (one a
# line), GPU, COMMENT and NUMBER (of the pull request) are its inputs; vramplan, git and gh have to be in the PATH.
set -euo pipefail

# The line by which the comment is found again.
mark='<!-- vramplan changed -->'

options=(--output markdown --base "${BASE:-HEAD^}")
[ -z "${GPU:-}" ] || options+=(--gpu "$GPU")
files=()
while IFS= read -r file; do
  [ -z "$file" ] || files+=("$file")
done <<< "${FILES:-}"

code=0
answer=$(vramplan changed "${options[@]}" -- ${files[@]+"${files[@]}"}) || code=$?
printf '%s\n' "$answer" >> "${GITHUB_STEP_SUMMARY:-/dev/stdout}"
[ "$code" = 0 ] || echo "::error::vramplan changed ended with $code; the summary says why"

if [ "${COMMENT:-false}" = true ] && [ -n "${NUMBER:-}" ]; then
  # A comment is an extra: where it may not be written, as on a pull request from a fork, the verdict stands.
  body=$(mktemp)
  trap 'rm -f "$body"' EXIT
  printf '%s\n%.60000s\n' "$mark" "$answer" > "$body"
  comments="repos/$GITHUB_REPOSITORY/issues"
  if own=$(gh api --paginate "$comments/$NUMBER/comments" --jq ".[] | select(.body | startswith(\"$mark\")) | .id"); then
    own=${own%%$'\n'*}
    if [ -n "$own" ]; then
      gh api --method PATCH "$comments/comments/$own" --field "body=@$body" --silent || echo "::warning::the comment could not be changed"
    else
      gh api --method POST "$comments/$NUMBER/comments" --field "body=@$body" --silent || echo "::warning::the comment could not be written"
    fi
  else
    echo "::warning::the comments of the pull request could not be read"
  fi
fi
exit "$code"
