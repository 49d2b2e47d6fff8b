#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks that hold spec and code together. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
passed=0 failed=0

check() {
	if [ "$2" = 0 ]; then
		passed=$((passed + 1))
	else
		echo "FAILED $1${3:+: $3}"
		failed=$((failed + 1))
	fi
}

# A changed ABI header needs a look at spec/ring.md, event.md and session.md; the digest says it was taken. types.h has a
# test of its own (host/kymo-abi/tests/field_types.rs).
digest=$(cat $(ls emit/include/kymo/abi/*.h | grep -v /types.h) | sha256sum | cut -c1-16)
if [ "${1:-}" = --bless ]; then
	sed -i "s/^ABI headers digest: \`[^\`]*\`/ABI headers digest: \`$digest\`/" spec/ring.md
fi
grep -q "^ABI headers digest: \`$digest\`" spec/ring.md
check "spec/ring.md knows the ABI headers" $? "look over the spec, then scripts/tidy.sh --bless"

for file in $(git ls-files 'emit/*.c' 'emit/*.h'); do
	grep -q 'SPDX-License-Identifier: MIT OR Apache-2.0' "$file"
	check "$file names its licence" $?
	! grep -nP '^ +[^ *\\]' "$file" | grep -q .
	check "$file is indented with tabs" $?
done
long=$(git ls-files 'emit/*.c' 'emit/*.h' 'examples/*.c' | xargs awk 'length($0) > 120 {print FILENAME ":" FNR}' | head -n 5)
[ -z "$long" ]
check "no line of C is longer than 120 characters" $? "$long"
for file in $(git ls-files '*.rs' '*.sh' '*.py' | grep -v '^fuzz/'); do
	head -n 4 "$file" | grep -q 'SPDX-License-Identifier: MIT OR Apache-2.0' || unlicensed="${unlicensed:-} $file"
done
[ -z "${unlicensed:-}" ]
check "every source file names its licence" $? "${unlicensed:-}"
# Texts in quotes cannot be broken; rustfmt holds the rest of the code.
long=$(git ls-files '*.rs' | xargs awk 'length($0) > 120 && /^ *\/\// && !/^ *\/\/[\/!]? \|/ {print FILENAME ":" FNR}' | head -n 5)
[ -z "$long" ]
check "no comment of Rust is longer than 120 characters" $? "$long"
# A longer one has a second subject.
large=$(git ls-files '*.rs' '*.c' '*.h' '*.cc' '*.S' '*.py' '*.sh' | xargs wc -l | awk '$1 > 600 && $2 != "total" {print $2 ":" $1}' | head -n 5)
[ -z "$large" ]
check "no source file has more than 600 lines" $? "$large"
long=$(git ls-files '*.md' | xargs awk 'FNR == 1 {code = 0} /^```/ {code = !code} length($0) > 120 && !code && !/^(\||    )/ {print FILENAME ":" FNR}' | head -n 5)
[ -z "$long" ]
check "no line of prose is longer than 120 characters" $? "$long"
# Diagnostics go through tracing or the one printer of each verb; a library prints nothing. kymo-command is a part of the
# command line.
loud=$(git grep -nE '\b(print|println|eprint|eprintln|dbg)!' -- 'host/kymo-*/src/*.rs' | grep -vE '^host/kymo-(testing|command)/|tests\.rs:|:\s*//' | head -n 5)
[ -z "$loud" ]
check "no library prints" $? "$loud"
# A skip that one helper counts is seen; one that a test prints itself passes for a success.
silent=$(git grep -nE '"(\\n)?(SKIP(PED)?|[Ss]kip(ped)?)( |:)' -- '*.rs' | grep -vE '^host/kymo-testing/src/lib\.rs:|contains\(' | head -n 5)
[ -z "$silent" ]
check "tests of Rust skip through kymo_testing::skip alone" $? "$silent"
# Arrow and Parquet take as long to build as half of the rest: kymo-sql and kymo-tables have them, and nothing else waits.
users=$(git grep -lE '^(arrow-|parquet|kymo-sql)[a-z-]*(\.workspace)? *=' -- '*/Cargo.toml' | grep -vE '^(host/kymo-(sql|tables)|python)/')
[ -z "$users" ]
check "only kymo-sql, kymo-tables and the Python package depend on Arrow and Parquet" $? "$users"
# Who imports whom, without circles, and in kymo-collect only what is below.
circles=$(scripts/circles.py --most 0)
check "no files import each other in a circle, and none what a later layer has" $? "$circles"
# What neither the compiler nor clippy holds.
for kind in functions types files tuples calls tests; do
	faults=$(scripts/rust_shape.py $kind)
	check "scripts/rust_shape.py $kind" $? "$faults"
done
# A crate whose tests are one program names its files there: cargo does not look for others.
unnamed=$(git ls-files 'host/*/tests/all.rs' | while read -r all; do
	for file in "${all%/*}"/*.rs; do
		name=$(basename "$file" .rs)
		[ "$name" = all ] || grep -qx "mod $name;" "$all" || echo "$file"
	done
done)
[ -z "$unnamed" ]
check "each file of tests is in the one program of its crate" $? "$unnamed"
# They are put back in make stress only: whether they still can be is seen here.
stale=$(for patch in host/kymo-collect/src/simulation/defects/*.patch; do
	patch -sp1 --dry-run <"$patch" >/dev/null 2>&1 || echo "$patch"
done)
[ -z "$stale" ]
check "each defect of the simulation can be put back" $? "$stale"
unfinished=$(git grep -nE '\b(TODO|FIXME|XXX)\b' -- '*.c' '*.h' '*.rs' '*.sh' | grep -v scripts/tidy.sh)
[ -z "$unfinished" ]
check "nothing is marked as unfinished" $? "$unfinished"

# Cargo.toml promises a version of Rust; no dependency may ask for a later one, but for what kymo-sql alone needs, which says
# so itself.
if command -v cargo >/dev/null && promised=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) && [ -n "$promised" ]; then
	late=$(cargo metadata --format-version 1 --locked 2>/dev/null |
		python3 -c 'import json, sys
version = lambda text: [int(part) for part in text.split(".")[:2]]
metadata = json.load(sys.stdin)
needs = {node["id"]: [dependency["pkg"] for dependency in node["deps"]] for node in metadata["resolve"]["nodes"]}
todo = [package["id"] for package in metadata["packages"]
        if package["id"] in metadata["workspace_members"] and package["name"] != "kymo-sql"]
seen = set()
while todo:
    package = todo.pop()
    if package not in seen:
        seen.add(package)
        todo += needs.get(package, [])
for package in metadata["packages"]:
    if package["id"] in seen and version(package["rust_version"] or "1.0") > version(sys.argv[1]):
        print(package["name"], package["version"], "needs Rust", package["rust_version"])' "$promised" 2>&1)
	[ -z "$late" ]
	check "every dependency builds with Rust $promised" $? "$late"
else
	echo "SKIP versions of Rust that dependencies need: no cargo"
fi

echo "$passed passed, $failed failed"
[ $failed = 0 ]
