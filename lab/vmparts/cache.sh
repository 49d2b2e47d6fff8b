# SPDX-License-Identifier: MIT OR Apache-2.0
# The cache: each part of it appears whole or not at all, made by one caller while others wait.
# Sourced by lab/vm, which sets `cache`.

# Says what is wrong and ends with 125, the status of everything that fails outside of the guest's command.
fail() {
	printf 'lab/vm: %s\n' "$*" >&2
	exit 125
}

say() {
	printf 'lab/vm: %s\n' "$*" >&2
}

# provide PART FUNCTION ARGUMENT...: makes $cache/PART by calling FUNCTION with a new folder as its last argument.
provide() {
	local part=$1 target=$cache/$1
	shift
	[ -e "$target" ] && return
	mkdir -p "$cache/locks" "$(dirname "$target")" || fail "cannot write to $cache: set KYMO_VM_CACHE to a folder of yours"
	(
		flock 9
		[ -e "$target" ] && exit 0
		rm -rf "$target.new"
		trap 'rm -rf "$target.new"' EXIT
		mkdir "$target.new" && "$@" "$target.new" && mv -T "$target.new" "$target"
	) 9>"$cache/locks/${part//\//_}"
}

# A guest uses files of the cache for as long as it runs: it holds this lock shared, and cleaning needs it alone.
cache_use() {
	mkdir -p "$cache/locks" || fail "cannot write to $cache: set KYMO_VM_CACHE to a folder of yours"
	exec 8>"$cache/locks/use"
	flock -s 8
}

cache_clean() {
	local name
	[ -d "$cache" ] || return 0
	mkdir -p "$cache/locks"
	exec 8>"$cache/locks/use"
	flock -n 8 || fail "a virtual machine is running from $cache: end it first"
	if [ $# = 0 ]; then
		for name in packages tools tools-arm64 arm64 kernels headers modules lttng source kvm failed locks; do rm -rf "${cache:?}/$name"; done
		rmdir "$cache" 2>/dev/null
		return 0
	fi
	for name in "$@"; do
		kernel_known "$name" || fail "no kernel is called '$name': stock, rt, full or rt-full"
		rm -rf "${cache:?}/kernels/$name"
	done
}
