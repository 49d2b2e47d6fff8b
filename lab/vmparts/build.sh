# SPDX-License-Identifier: MIT OR Apache-2.0
# Kernels built from Debian's linux-source-6.12, small and with every latency tracer. Made on demand, without modules.

build_packages='gcc libc6-dev make bc flex bison libelf-dev'

build_tools_provide() {
	local package missing=
	for package in $build_packages; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	[ "$(id -u)" = 0 ] || fail "to build a kernel install:  sudo apt-get install --no-install-recommends$missing"
	say "installing$missing"
	# shellcheck disable=SC2086 # a list of names
	{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing; } \
		>"$cache/install.log" 2>&1 </dev/null || fail "could not install$missing: $(tail -n 1 "$cache/install.log")"
	rm -f "$cache/install.log"
}

# Kept as it comes: unpacked it has 1.7 GB.
make_source() {
	say "downloading linux-source-6.12 (150 MB)"
	with_packages download_package linux-source-6.12 "$1" || return
	dpkg-deb --fsys-tarfile "$1"/*.deb | tar -xO --wildcards './usr/src/linux-source-6.12.tar.xz' >"$1/source.tar.xz" ||
		fail "linux-source-6.12 holds no linux-source-6.12.tar.xz"
	rm -f "$1"/*.deb "$1/download.log"
}

unpack_source() {
	mkdir "$1" && tool xz -dc "$cache/source/linux-6.12/source.tar.xz" | tar -x -C "$1" --strip-components=1 ||
		fail "cannot unpack the kernel's source: is there room for 1.7 GB in $cache?"
}

make_built_kernel() {
	local name=$1 new=$2 log=$cache/failed/build-$1.log
	build_tools_provide || return
	provide source/linux-6.12 make_source || return
	mkdir -p "$cache/failed" || return
	say "building $name (some 7 minutes; log: $log)"
	unpack_source "$new/source" || return
	build_kernel "$new/source" "$new/build" "$here/vmparts"/{kernel,kernel-"$name"}.config >"$log" 2>&1 </dev/null ||
		fail "building $name failed, see $log: $(tail -n 1 "$log")"
	strip -g -o "$new/vmlinux" "$new/build/vmlinux" || fail "cannot strip the kernel"
	mv "$new/build/include/config/kernel.release" "$new/release" && mv "$new/build/.config" "$new/config" || return
	rm -rf "$new/source" "$new/build" "$log"
}

# build_kernel SOURCE BUILD FRAGMENT...: tinyconfig plus the fragments, each line of which has to hold.
build_kernel() {
	local source=$1 build=$2 line
	shift 2
	mkdir -p "$build" && make -s -C "$source" O="$build" tinyconfig || return
	grep -hv '^#' "$@" >>"$build/.config"
	make -s -C "$source" O="$build" olddefconfig || return
	while read -r line; do
		[ -z "$line" ] || grep -qxF "$line" "$build/.config" || { echo "not possible in this kernel: $line"; return 1; }
	done < <(grep -hv '^#' "$@")
	nice make -s -C "$source" O="$build" -j"$(nproc)" vmlinux
}
