# SPDX-License-Identifier: MIT OR Apache-2.0
# Modules of this tree for Debian's kernels: their headers, unpacked in the cache like the kernels, and what is built against them.

# headers_provide KERNEL: prints the folder to build modules in.
headers_provide() {
	local release
	case $1 in
	stock | rt) ;;
	*) fail "modules can be built for stock and rt only: of a built kernel nothing but its image is kept" ;;
	esac
	kernel_provide "$1" || return
	release=$(kernel_release "$1")
	provide "headers/$release" make_headers "$release" || return
	echo "$cache/headers/$release/usr/src/linux-headers-$release"
}

# The headers' own package, what all flavours share, and the build programs: those that it depends on.
download_headers() {
	local release=$1 folder=$2 package
	say "downloading the headers of $release (12 MB)"
	for package in "linux-headers-$release" $(private_apt "$cache/packages" apt-cache depends "linux-headers-$release" |
		awk '$1 == "Depends:" && $2 ~ /^linux-(headers|kbuild)-/ {print $2}'); do
		download_package "$package" "$folder" || return
	done
}

make_headers() {
	local release=$1 new=$2 package file
	with_packages download_headers "$release" "$new" || return
	for package in "$new"/*.deb; do
		dpkg-deb -x "$package" "$new" || fail "cannot unpack ${package##*/}"
	done
	rm -rf "$new"/*.deb "$new/download.log" "$new/usr/share"
	# They name each other by the paths that they would be installed at. Where that will be is the name without .new.
	for file in "$new/usr/src/linux-headers-$release"/{Makefile,.kernelvariables}; do
		[ ! -f "$file" ] || sed -i "s, /usr/\(src\|lib\)/, ${new%.new}/usr/\1/,g" "$file"
	done
	[ -f "$new/usr/src/linux-headers-$release/Makefile" ] || fail "linux-headers-$release holds no Makefile"
}

# module_provide KERNEL FOLDER: builds the module whose Kbuild file is in FOLDER, prints the path of its .ko.
module_provide() {
	local kernel=$1 source name part headers
	source=$(realpath -e "$2") && [ -f "$source/Kbuild" ] || fail "$2 has no Kbuild file"
	headers=$(headers_provide "$kernel") || return
	name=$(sed -n 's/^obj-m *[:+]*= *\([a-z_]*\)\.o.*/\1/p' "$source/Kbuild")
	[ -n "$name" ] || fail "$source/Kbuild names no module (obj-m := NAME.o)"
	part=modules/$(kernel_release "$kernel")/$name-$(cat "$source"/* | sha256sum | cut -c1-12)
	provide "$part" make_module "$headers" "$source" "$name" || return
	echo "$cache/$part/$name.ko"
}

make_module() {
	local headers=$1 source=$2 name=$3 new=$4 tools
	tools=$(tools_libraries "$(tools_dir)")
	mkdir "$new/build" && cp "$source"/* "$new/build" || return
	LD_LIBRARY_PATH=$tools make -s -C "$headers" M="$new/build" modules >"$new/log" 2>&1 </dev/null ||
		fail "$name does not build: $(grep -m 3 -E 'error|Error|not found' "$new/log" || tail -n 3 "$new/log")"
	mv "$new/build/$name.ko" "$new/$name.ko" && rm -rf "$new/build" "$new/log"
}
