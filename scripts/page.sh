#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the page of kymo view into view/dist, where node is there. Without it kymo builds, too, and serves the answers
# without a page. Usage: page.sh [--check]: types and unit tests as well.
set -eu
cd "$(dirname "$0")/../view"

without() {
	echo "SKIP the page of kymo view: $1" >&2
	exit 0
}

command -v node >/dev/null && command -v npm >/dev/null || without "it needs node 18 and npm (Debian: apt-get install nodejs npm)"
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' || without "node $(node --version) is older than 18"

# Only the packages of package-lock.json, by their sums; no script of theirs is run.
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
	log=$(mktemp)
	if ! npm ci --ignore-scripts --no-audit --no-fund >"$log" 2>&1; then
		tail -n 5 "$log" >&2
		rm -f "$log"
		without "npm could not get its tools (esbuild, typescript), see above"
	fi
	rm -f "$log"
	touch node_modules/.package-lock.json
fi
if [ ! -e dist/app.js ] || [ -n "$(find src build.mjs package-lock.json -newer dist/app.js)" ]; then
	node build.mjs
fi
[ "${1:-}" = --check ] || exit 0
npx --no-install tsc --noEmit
echo "ok types of the page"
node test/run.mjs | awk '/^# pass/ {pass = $3} /^# fail/ {fail = $3} {print} END {
	if (pass == "") fail = 1
	printf "%d passed, %d failed, 0 skipped\n", pass, fail
}'
