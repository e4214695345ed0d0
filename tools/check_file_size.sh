#!/usr/bin/env bash
# A file holds one thing: at most 500 lines of C++, Python, shell, CMake or Makefile. Prints those above.
set -u
cd "$(dirname "$0")/.." || exit 1
limit=500
status=0
while IFS= read -r -d '' file; do
  case $file in
    *.cpp | *.h | *.py | *.sh | *.cmake | *CMakeLists.txt | Makefile | .ci/run) ;;
    *) continue ;;
  esac
  [ -f "$file" ] || continue
  lines=$(wc -l <"$file")
  if [ "$lines" -gt $limit ]; then
    echo "$file: $lines lines, the limit is $limit: is it two things?"
    status=1
  fi
done < <(git ls-files -z --cached --others --exclude-standard)
exit $status
