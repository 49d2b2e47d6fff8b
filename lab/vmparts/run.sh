# SPDX-License-Identifier: MIT OR Apache-2.0
# One guest: its folder on the machine, its QEMU, its outputs and its status.

run_usage() {
	cat <<-'END'
	lab/vm run [OPTION...] -- COMMAND [ARGUMENT...]

	  --kernel stock|rt|full|rt-full   which kernel (default stock); made on demand
	  --icount          counted time: 2 ns for each instruction, one CPU; latencies repeat, and the guest is slow
	  --smp N           CPUs (default 2; 1 with --icount)
	  --memory MB       (default 2048)
	  --timeout S       for the whole guest, in seconds (default 600); then status 124
	  --accel kvm|tcg   without it KVM where a trial boot has shown that it works, else emulation
	  --append ARGS     more arguments for the kernel
	  --out DIR         COMMAND's $VM_OUT: what it writes there is in DIR afterwards
	  --share DIR       DIR can be written from inside, under the same path (several times)

	COMMAND runs as root, in the current directory, on this machine's files: what it changes is forgotten, except
	below $VM_OUT and --share. /proc /sys /dev /run are the guest's own, with tracefs, debugfs and cgroup2 in their
	places. PATH, HOME, USER, LANG, LC_*, CARGO*, RUST* and KYMO* go along. There is no input and no network but lo.

	Status: COMMAND's; 128+N if signal N ended it; 124 after the timeout; 125 if the guest failed (then the end of
	its console is shown).
	END
}

# Sets the variables of the options; what remains is in `command`.
run_options() {
	kernel=stock icount=no smp= memory=2048 timeout=600 accel= append= out= shares=()
	while [ $# -gt 0 ]; do
		case $1 in
		--icount) icount=yes ;;
		--kernel | --smp | --memory | --timeout | --accel | --append | --out | --share)
			[ $# -gt 1 ] || fail "$1 needs a value: lab/vm run --help"
			run_option "$1" "$2"
			shift
			;;
		--)
			shift
			command=("$@")
			break
			;;
		*) fail "'$1' is not an option (the command comes after --): lab/vm run --help" ;;
		esac
		shift
	done
	[ "${#command[@]}" -gt 0 ] || fail "no command: lab/vm run [OPTION...] -- COMMAND..."
	[ "$icount" = no ] || [ "$accel" != kvm ] || fail "--icount counts emulated instructions: not with --accel kvm"
	[ -n "$smp" ] || if [ "$icount" = yes ]; then smp=1; else smp=2; fi
}

run_option() {
	case $1 in
	--kernel)
		kernel_known "$2" || fail "no kernel is called '$2': stock, rt, full or rt-full"
		kernel=$2
		;;
	--smp) positive "$1" "$2" && smp=$2 ;;
	--memory) positive "$1" "$2" && memory=$2 ;;
	--timeout) positive "$1" "$2" && timeout=$2 ;;
	--accel)
		case $2 in kvm | tcg) accel=$2 ;; *) fail "--accel is kvm or tcg, not '$2'" ;; esac
		;;
	--append) append=$2 ;;
	--out) mkdir -p "$2" && out=$(realpath -e "$2") || fail "--out: cannot write to $2" ;;
	--share)
		[ -d "$2" ] || fail "--share: $2 is not a folder"
		shares+=("$(realpath -e "$2")")
		;;
	esac
}

positive() {
	[[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || fail "$1 takes a whole number, not '$2'"
}

run() {
	local command=() kernel icount smp memory timeout accel append out shares
	run_options "$@"
	cache_use
	tools_provide || exit
	kernel_provide "$kernel" || exit
	if [ -z "$accel" ]; then
		accel=tcg
		if [ "$icount" = no ] && kvm_works "$kernel"; then accel=kvm; fi
	fi
	boot
}

# The trial of KVM: the shortest guest. Runs in a subshell, since it ends it.
trial_boot() {
	local command=(true) kernel=$1 icount=no smp=2 memory=512 timeout=$2 accel=kvm append= out= shares=()
	trial=yes
	boot
}

# Runs the guest that the variables of run_options describe, and exits with its status.
boot() {
	local initramfs status
	initramfs=$(initramfs_provide "$kernel") || exit
	folder=$(mktemp -d "${TMPDIR:-/tmp}/kymo-vm.XXXXXX") || fail "cannot make a folder in ${TMPDIR:-/tmp}"
	guest=
	trap 'end_guest' EXIT
	trap 'exit 130' INT
	trap 'exit 141' PIPE
	trap 'exit 143' TERM
	trap 'exit 129' HUP
	write_share "$folder/share"
	open_outputs
	begin_guest "$initramfs"
	wait "$guest"
	status=$?
	guest=
	exec 3>&- 4>&-
	wait
	finish $status
}

# Whatever ends this process ends QEMU, and the folder goes.
end_guest() {
	if [ -n "$guest" ]; then
		kill -TERM "$guest" 2>/dev/null
		wait "$guest" 2>/dev/null
	fi
	rm -rf "$folder"
}

# What the guest's first program reads: the command, the shares, where the kernel's modules are.
write_share() {
	local share=$1 number root
	mkdir -p "$share" "$folder/out" || fail "cannot write to $folder"
	{
		write_environment
		echo ': >/vm/begun'
		printf 'cd %q || exit 125\nexec --' "$PWD"
		printf ' %q' "${command[@]}"
		echo
	} >"$share/start"
	shares=("${out:-$folder/out}" "${shares[@]}")
	echo "share0 /vm/out" >"$share/shares"
	for ((number = 1; number < ${#shares[@]}; number++)); do
		echo "share$number ${shares[number]}" >>"$share/shares"
	done
	root=$(kernel_dir "$kernel")/root
	if [ -d "$root" ]; then realpath "$root/lib/modules/$(kernel_release "$kernel")"; else echo; fi >"$share/modules"
}

# Not KYMO_TRACEFS and the runtime directories: those of the machine mean nothing inside.
write_environment() {
	local name
	for name in $(compgen -e); do
		case $name in
		KYMO_TRACEFS | KYMO_VM_CACHE) ;;
		PATH | HOME | USER | LANG | LC_* | CARGO* | RUST* | KYMO | KYMO_*) printf 'export %s=%q\n' "$name" "${!name}" ;;
		esac
	done
	printf 'export VM_OUT=/vm/out VM_KERNEL=%q\n' "$kernel"
}

# Starts the guest, and returns when its command begins, or when it has ended. QEMU that emulates on a busy machine at
# times never delivers the timer of one CPU from the boot on: the guest's kernel says so after 21 s, and nothing goes on.
# Then the command has not begun, and the guest is started again.
begin_guest() {
	local starts=0
	while :; do
		start_guest "$1"
		starts=$((starts + 1))
		while kill -0 "$guest" 2>/dev/null && [ ! -e "$folder/share/begun" ] && { [ $starts = 3 ] || ! has_lost_a_timer; }; do
			sleep 0.2
		done
		if [ -e "$folder/share/begun" ] || [ $starts = 3 ] || ! has_lost_a_timer; then return; fi
		say "the emulated guest lost the timer of a CPU; it is started again"
		kill -TERM "$guest" 2>/dev/null
		wait "$guest" 2>/dev/null
		rm -f "$folder/console.log"
	done
}

has_lost_a_timer() {
	grep -qs "kthread timer wakeup didn't happen" "$folder/console.log"
}

# The shell keeps both pipes open for reading and writing: neither side waits in open().
open_outputs() {
	local self=$BASHPID
	mkfifo "$folder/stdout" "$folder/stderr" || fail "cannot write to $folder"
	exec 3<>"$folder/stdout" 4<>"$folder/stderr" 5<"$folder/stdout" 6<"$folder/stderr"
	# As in a pipe of two programs: nobody reads on, so the guest ends.
	{
		trap '' INT
		cat <&5
		case $? in 1 | 141) kill -PIPE "$self" ;; esac
	} 3>&- 4>&- 6<&- 8>&- &
	cat <&6 >&2 3>&- 4>&- 5<&- 6<&- 8>&- &
	exec 5<&- 6<&-
}

# Starts QEMU in the background.
start_guest() {
	local arguments number tools
	mapfile -t arguments < <(
		qemu_accelerator "$accel" "$icount"
		qemu_share 100 machine / ,readonly=on
		qemu_share 101 vm "$folder/share"
		for ((number = 0; number < ${#shares[@]}; number++)); do qemu_share "$number" "share$number" "${shares[number]}"; done
		echo -device
		echo virtio-serial-pci
		qemu_port stdout "$folder/stdout"
		qemu_port stderr "$folder/stderr"
	)
	tools=$(tools_dir)
	# If this process is killed, timeout and QEMU go with it.
	setpriv --pdeathsig TERM timeout -k 5 "$timeout" \
		setpriv --pdeathsig KILL env LD_LIBRARY_PATH="$(tools_libraries "$tools")" \
		"$tools/usr/bin/qemu-system-x86_64" -L "$tools/usr/share/qemu" -L "$tools/usr/share/seabios" \
		-nodefaults -no-user-config -no-reboot -display none -machine q35 -smp "$smp" -m "$memory" \
		-serial "file:${folder//,/,,}/console.log" -kernel "$(kernel_dir "$kernel")/vmlinux" -initrd "$1" \
		-append "console=ttyS0 panic=-1 oops=panic quiet mitigations=off tsc=reliable $append" \
		"${arguments[@]}" </dev/null >"$folder/qemu.log" 2>&1 3>&- 4>&- 8>&- &
	guest=$!
}

# finish STATUS_OF_TIMEOUT: exits with the command's status, or says why there is none.
finish() {
	local status log
	if [ -s "$folder/share/status" ]; then
		read -r status <"$folder/share/status"
		exit "$status"
	fi
	if [ -n "${trial:-}" ]; then
		case $1 in 124 | 137) fail "no end within $timeout s" ;; *) fail "QEMU: $(tail -n 1 "$folder/qemu.log")" ;; esac
	fi
	log=$(keep_log)
	case $1 in
	124 | 137)
		say "the guest ran for $timeout s (--timeout) and was ended; its console is in $log"
		exit 124
		;;
	esac
	say "the guest ended without a status (QEMU: $1)"
	console_end "$log" >&2
	fail "its console is in $log"
}

# The end of a console, or the panic that stands in front of it.
console_end() {
	if grep -qE 'Kernel panic|BUG:|Oops' "$1"; then
		grep -m 1 -A 15 -E 'Kernel panic|BUG:|Oops' "$1"
	else
		tail -n 15 "$1"
	fi
}

# Keeps QEMU's messages and the console of a guest that failed, and the last ten of others.
keep_log() {
	local log
	mkdir -p "$cache/failed"
	log=$cache/failed/$(date +%Y%m%d-%H%M%S)-$$.log
	cat "$folder/qemu.log" "$folder/console.log" >"$log" 2>/dev/null
	find "$cache/failed" -name '*.log' | sort | head -n -10 | xargs -r rm -f
	echo "$log"
}
