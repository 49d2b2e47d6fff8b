# SPDX-License-Identifier: MIT OR Apache-2.0
# QEMU: its arguments, and the trial boot that says whether KVM works for a kernel.

# How long a guest may take to come up under KVM, in seconds. Debian's kernels hang under some nested virtualisation.
kvm_trial_s=8

qemu_version() {
	sed -n '1s/.*version \([0-9.]*\).*/\1/p' "$(tools_dir)/version"
}

# Emulated CPUs get a thread each, except before version 8, which hangs when the kernel patches its code under load.
tcg_threads() {
	local version
	version=$(qemu_version)
	if [ "${version%%.*}" -ge 8 ]; then echo multi; else echo single; fi
}

# qemu_accelerator ACCEL ICOUNT: arguments, one per line.
qemu_accelerator() {
	if [ "$1" = kvm ]; then
		printf '%s\n' -accel kvm -cpu host
	elif [ "$2" = yes ]; then
		# Two nanoseconds for each instruction; idle time is skipped.
		printf '%s\n' -accel tcg,thread=single -cpu max -icount shift=1,sleep=off
	else
		printf '%s\n' -accel "tcg,thread=$(tcg_threads)" -cpu max
	fi
}

# qemu_share NUMBER TAG FOLDER [OPTIONS]: a 9p file system, arguments one per line.
qemu_share() {
	printf '%s\n' -fsdev "local,id=share$1,path=${3//,/,,},security_model=none,multidevs=remap${4:-}" \
		-device "virtio-9p-pci,fsdev=share$1,mount_tag=$2"
}

# qemu_port NAME FILE: a port of the guest whose bytes go to FILE, arguments one per line.
qemu_port() {
	printf '%s\n' -chardev "file,id=$1,path=${2//,/,,}" -device "virtserialport,chardev=$1,name=$1"
}

# Where the trial's answer is kept: it holds for this kernel, QEMU, machine and processor.
kvm_part() {
	local key processor
	processor=$(sed -n 's/^model name.*: //p; s/^microcode.*: //p' /proc/cpuinfo | sort -u)
	key="$(qemu_version) $(kernel_release "$1") $(uname -r) $processor"
	echo "kvm/$1-$(sha256sum <<<"$key" | cut -c1-12)"
}

# kvm_works KERNEL: true or false; the first call for a kernel boots it.
kvm_works() {
	kvm_openable || return
	provide "$(kvm_part "$1")" make_kvm_answer "$1" || return
	[ "$(cat "$cache/$(kvm_part "$1")/answer")" = kvm ]
}

kvm_openable() {
	[ -r /dev/kvm ] && [ -w /dev/kvm ]
}

make_kvm_answer() {
	local kernel=$1 new=$2
	say "trying KVM for $kernel (once, at most $kvm_trial_s s)"
	(trial_boot "$kernel" "$kvm_trial_s") 2>"$new/why"
	case $? in
	0) echo kvm >"$new/answer" ;;
	129 | 130 | 143) return 130 ;;
	*) echo "tcg (KVM failed in a trial boot: $(sed -n '1s/^lab.vm: //p' "$new/why"))" >"$new/answer" ;;
	esac
}

# What `lab/vm list` says about a cached kernel.
kvm_answer() {
	local answer
	answer=$cache/$(kvm_part "$1" 2>/dev/null)/answer
	if ! kvm_openable; then
		echo "tcg (/dev/kvm cannot be opened)"
	elif [ -e "$answer" ]; then
		cat "$answer"
	else
		echo "KVM not tried yet"
	fi
}
