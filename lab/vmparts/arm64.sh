# SPDX-License-Identifier: MIT OR Apache-2.0
# A virtual machine of 64-bit Arm, for emit/tests/aarch64.sh: Debian's kernel (arm64/kernels/stock holds Image and release)
# and QEMU. Its guests have an initramfs of their own: they cannot run this machine's programs.

# A cache of its own inside of the cache, because apt's lists are of one architecture.
arm64_kernel() {
	(
		cache=$cache/arm64
		apt_architecture=arm64
		provide kernels/stock make_arm64_kernel || exit
		echo "$cache/kernels/stock/Image"
	)
}

make_arm64_kernel() {
	local new=$1 release
	with_packages download_kernel linux-image-arm64 "$new" || return
	release=$(cat "$new/release")
	dpkg-deb --fsys-tarfile "$new"/linux-image-*.deb | tar -x -C "$new" "./boot/vmlinuz-$release" ||
		fail "the package of $release holds no boot/vmlinuz-$release"
	mv "$new/boot/vmlinuz-$release" "$new/Image" || return
	rm -rf "$new"/*.deb "$new/boot" "$new/download.log"
}

arm64_tools() {
	[ "$(uname -m)" = x86_64 ] || fail "only for x86-64 so far, and this is $(uname -m)"
	provide "tools-arm64/$(debian_codename)" make_tools qemu-system-aarch64 qemu-system-arm
}

# arm64_run ARGUMENT...: takes the place of this shell. -cpu max signs return addresses; in emulation a cheaper signature
# will do. The threads are those of tcg_threads.
arm64_run() {
	local image root version threads=multi
	image=$(arm64_kernel) || exit
	root=$cache/tools-arm64/$(debian_codename)
	version=$(sed -n '1s/.*version \([0-9.]*\).*/\1/p' "$root/version")
	[ "${version%%.*}" -ge 8 ] || threads=single
	LD_LIBRARY_PATH=$(tools_libraries "$root") exec "$root/usr/bin/qemu-system-aarch64" -L "$root/usr/share/qemu" \
		-M virt -cpu max,pauth-impdef=on -accel "tcg,thread=$threads" -nodefaults -no-user-config -display none -no-reboot \
		-kernel "$image" "$@"
}
