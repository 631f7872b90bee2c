#!/usr/bin/env bash
# Judges every kernel file that changed since $BASE; used by action.yml. Exit code 1 if one is not accepted.
set -uo pipefail
git fetch --quiet --depth=1 origin "$BASE" 2>/dev/null || true
failed=0
judged=0
while IFS= read -r kernel; do
  task="${kernel%"$SUFFIX".py}.py"
  if [ ! -f "$task" ]; then
    echo "::error file=$kernel::no task $task beside it"
    failed=1
    continue
  fi
  judged=$((judged + 1))
  echo "== $kernel for $task"
  kernelwright verify --task "$task" --kernel "$kernel" ${JUDGE:+--judge "$JUDGE"}
  case $? in
    0) ;;
    1) echo "::error file=$kernel::rejected"; failed=1 ;;
    *) echo "::error file=$kernel::not judged"; failed=1 ;;
  esac
done < <(git diff --name-only --diff-filter=AM "$BASE" -- "$PATTERN")
echo "$judged kernels judged"
exit "$failed"
