# SPDX-License-Identifier: MIT OR Apache-2.0
# LTTng's kernel modules (Debian's lttng-modules-dkms) for Debian's stock kernel, in the cache: its modules and LTTng's as one tree, which a
# guest binds over /lib/modules.

# lttng_provide KERNEL: prints the folder that holds lib/modules/RELEASE.
lttng_provide() {
	local kernel=$1 headers release
	headers=$(headers_provide "$kernel") || return
	release=$(kernel_release "$kernel")
	provide "lttng/$release" make_lttng "$kernel" "$headers" || return
	echo "$cache/lttng/$release"
}

make_lttng() {
	local kernel=$1 headers=$2 new=$3 release source tools modules
	release=$(kernel_release "$kernel")
	modules=$new/lib/modules/$release
	mkdir "$new/package" && with_packages download_package lttng-modules-dkms "$new/package" || return
	dpkg-deb -x "$new"/package/*.deb "$new/package" || fail "cannot unpack lttng-modules-dkms"
	source=$(echo "$new"/package/usr/src/lttng-modules-*)
	# Their copy of this event's prototype is older than the kernel's, and a module with it does not compile.
	sed -i '/lttng-probe-timer\.o/d' "$source/src/probes/Kbuild"
	say "building LTTng's modules for $release (some 2 minutes)"
	tools=$(tools_libraries "$(tools_dir)")
	LD_LIBRARY_PATH=$tools make -s -j"$(nproc)" -C "$source" KERNELDIR="$headers" >"$new/log" 2>&1 </dev/null ||
		fail "LTTng's modules do not build: $(grep -m 3 -E 'error|Error|not found' "$new/log" || tail -n 3 "$new/log")"
	mkdir -p "$(dirname "$modules")" && cp -al "$(kernel_dir "$kernel")/root/lib/modules/$release/." "$modules" &&
		mkdir "$modules/extra" && find "$source" -name '*.ko' -exec mv -t "$modules/extra" {} + || return
	find "$modules" -maxdepth 1 -name 'modules.*' ! -name 'modules.order' ! -name 'modules.builtin*' -delete
	tool depmod -b "$new" "$release" || fail "depmod failed for $release"
	rm -rf "$new/package" "$new/log"
}
