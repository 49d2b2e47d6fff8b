# SPDX-License-Identifier: MIT OR Apache-2.0
# Kernels: kernels/NAME holds vmlinux, release, the initramfs, and for packaged ones root/, the unpacked package.

# Debian builds these as modules; the guest needs them before it has a file system.
guest_modules='virtio_pci virtio_console 9pnet_virtio 9p overlay'

kernel_known() {
	case $1 in stock | rt | full | rt-full) ;; *) return 1 ;; esac
}

kernel_dir() {
	echo "$cache/kernels/$1"
}

kernel_cached() {
	[ -e "$(kernel_dir "$1")" ]
}

kernel_release() {
	cat "$(kernel_dir "$1")/release"
}

kernel_provide() {
	case $1 in
	stock) provide "kernels/$1" make_packaged_kernel linux-image-amd64 ;;
	rt) provide "kernels/$1" make_packaged_kernel linux-image-rt-amd64 ;;
	full | rt-full) provide "kernels/$1" make_built_kernel "$1" ;;
	esac
}

# The package that a metapackage such as linux-image-amd64 stands for.
kernel_package() {
	private_apt "$cache/packages" apt-cache depends "$1" | awk '/Depends: linux-image-/ {print $2; exit}'
}

download_kernel() {
	local package
	package=$(kernel_package "$1")
	[ -n "$package" ] || fail "apt does not know $1"
	say "downloading $package"
	echo "${package#linux-image-}" >"$2/release"
	download_package "$package" "$2"
}

make_packaged_kernel() {
	local package=$1 new=$2 release
	with_packages download_kernel "$package" "$new" || return
	release=$(cat "$new/release")
	dpkg-deb -x "$new"/linux-image-*.deb "$new/root" || fail "cannot unpack the package of $release"
	# Newer packages have usr/lib/modules only, where depmod looks in lib/modules.
	[ -e "$new/root/lib" ] || ln -s usr/lib "$new/root/lib"
	rm -f "$new"/*.deb "$new/download.log"
	drop_foreign_modules "$new/root/lib/modules/$release/kernel" || return
	tool depmod -b "$new/root" "$release" || fail "depmod failed for $release"
	extract_vmlinux "$new/root/boot/vmlinuz-$release" "$new/vmlinux"
}

# Of 390 MB of modules four fifths are drivers for hardware that no guest has.
drop_foreign_modules() {
	local folder
	rm -rf "$1/sound" "$1"/drivers/net/{ethernet,wireless}
	for folder in "$1"/drivers/*; do
		case ${folder##*/} in block | char | net | vhost | virtio) ;; *) rm -rf "$folder" ;; esac
	done
}

# byte_at FILE OFFSET, word_at FILE OFFSET: an unsigned number of one or four bytes.
byte_at() { od -An -tu1 -j"$(($2))" -N1 "$1" | tr -d ' '; }
word_at() { od -An -tu4 -j"$(($2))" -N4 "$1" | tr -d ' '; }

# extract_vmlinux IMAGE VMLINUX: the ELF file in a bzImage. QEMU enters it directly (PVH): the guest need not unpack it.
# Offsets are those of the kernel's x86 boot protocol: setup_sects, payload_offset, payload_length.
extract_vmlinux() {
	local image=$1 vmlinux=$2 sectors offset length magic
	[ "$(od -An -c -j$((0x202)) -N4 "$image" | tr -d ' ')" = HdrS ] || fail "$image is not a bzImage"
	sectors=$(byte_at "$image" 0x1f1)
	[ "$sectors" != 0 ] || sectors=4
	offset=$(((sectors + 1) * 512 + $(word_at "$image" 0x248)))
	length=$(word_at "$image" 0x24c)
	[ $((offset + length)) -le "$(stat -c %s "$image")" ] && [ "$length" -gt 4 ] || fail "$image is cut short"
	head -c $((offset + length)) "$image" | tail -c "$length" >"$vmlinux.payload"
	magic=$(od -An -tx1 -N4 "$vmlinux.payload" | tr -d ' ')
	# The kernel's build puts the unpacked size, four bytes, behind what xz and zstd wrote; gzip's own file ends with it.
	case $magic in
	fd377a58) head -c -4 "$vmlinux.payload" | tool xz -dc >"$vmlinux" ;;
	28b52ffd) head -c -4 "$vmlinux.payload" | tool zstd -qdc >"$vmlinux" ;;
	1f8b*) gzip -dc "$vmlinux.payload" >"$vmlinux" ;;
	*) fail "$image is packed in an unknown way (its payload begins with $magic)" ;;
	esac
	rm -f "$vmlinux.payload"
	[ "$(od -An -tx1 -N4 "$vmlinux" | tr -d ' ')" = 7f454c46 ] || fail "$image does not hold an ELF file"
}

# The initramfs changes with the guest's first program, so its name has that program's digest in it.
initramfs_provide() {
	local part
	part=kernels/$1/initramfs-$(sha256sum <"$here/vmparts/guest-init" | cut -c1-12)
	provide "$part" make_initramfs "$1" || return
	echo "$cache/$part/cpio"
}

make_initramfs() {
	local kernel=$1 new=$2 name
	mkdir -p "$new/tree"/{bin,dev,proc,sys,modules,machine,upper,root} || return
	cp "$(tools_dir)/bin/busybox" "$new/tree/bin/busybox" || fail "busybox-static holds no bin/busybox"
	for name in sh mount mkdir insmod mkfifo cat ip hostname chroot sync umount poweroff sleep ln kill grep ls; do
		ln -s busybox "$new/tree/bin/$name"
	done
	install -m 755 "$here/vmparts/guest-init" "$new/tree/init" || return
	copy_modules "$kernel" "$new/tree/modules" || return
	# Not compressed: the guest would unpack it in emulation.
	(cd "$new/tree" && find . | tool busybox cpio -o -H newc 2>/dev/null) >"$new/cpio" || fail "cannot write the initramfs"
	rm -rf "$new/tree"
}

# Copies the modules that the guest needs, unpacked, and their order to `order`.
copy_modules() {
	local kernel=$1 folder=$2 root file name
	: >"$folder/order"
	root=$(kernel_dir "$kernel")/root
	[ -d "$root" ] || return 0
	# shellcheck disable=SC2086 # a list of names
	for name in $guest_modules; do
		tool modprobe -d "$root" -S "$(kernel_release "$kernel")" --show-depends "$name" ||
			fail "$(kernel_release "$kernel") has no module $name"
	done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r file; do
		name=${file##*/}
		name=${name%.ko*}.ko
		case $file in
		*.xz) tool xz -dc "$file" >"$folder/$name" ;;
		*.zst) tool zstd -qdc "$file" >"$folder/$name" ;;
		*) cp "$file" "$folder/$name" ;;
		esac || exit
		echo "$name" >>"$folder/order"
	done
	[ -s "$folder/order" ] || fail "no modules for $(kernel_release "$kernel")"
}

