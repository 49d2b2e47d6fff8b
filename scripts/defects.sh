#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Shows what the simulation of sessions is worth: puts defects that kymo-collect once had back, one at a time, into a copy
# of the tree, and runs the simulation, scenarios and random sessions. Fails if it finds fewer than nine, or if a defect can
# no longer be put back. The list of who finds what: tests/README.md.
# Usage: defects.sh (KYMO_DEFECT_S: simulated seconds for each, 200000)
set -u
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy"
export KYMO_SIMULATED_S=${KYMO_DEFECT_S:-200000} CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/defects CARGO_INCREMENTAL=1
found=0 broken=0
for patch in "$PWD"/host/kymo-collect/src/simulation/defects/*.patch; do
	name=$(basename "$patch" .patch)
	if ! (cd "$copy" && patch -sp1 --no-backup-if-mismatch <"$patch"); then
		echo "FAILED $name: the defect cannot be put back; make the patch anew"
		broken=$((broken + 1))
		continue
	fi
	said=$(cd "$copy" && ${CARGO:-cargo} test -q --release -p kymo-collect --lib simulation 2>&1)
	status=$?
	if [ $status = 0 ]; then
		echo "not found: $name"
	elif grep -q '^test result: FAILED' <<<"$said"; then
		found=$((found + 1))
		echo "found: $name: $(grep -oP '^    simulation::(scenarios::)?\K\S+' <<<"$said" | sort -u | paste -sd ' ')" \
			"$(grep -m 1 -o 'KYMO_SEED=[0-9]* repeats it' <<<"$said")"
	else
		printf '%s\n' "$said" | tail -n 20
		echo "FAILED $name: it does not build"
		broken=$((broken + 1))
	fi
	(cd "$copy" && patch -sRp1 --no-backup-if-mismatch <"$patch")
done
echo "$found found"
if [ $broken = 0 ] && [ $found -ge 9 ]; then echo "1 passed, 0 failed"; else echo "0 passed, 1 failed"; exit 1; fi
