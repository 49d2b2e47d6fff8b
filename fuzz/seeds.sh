#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# seeds.sh: fills corpus/ from the tests' metadata, pages, format texts, filters and results of other tools, so that fuzzing begins behind the first brace or head.
# Writes nothing else.
set -eu
cd "$(dirname "$0")"
tests=../host/kymo-ctf/tests
mkdir -p corpus/ctf_metadata corpus/ctf_trace
cp "$tests"/hostile.tsdl "$tests"/metadata/*.tsdl corpus/ctf_metadata/
# Good and bad cases have the same names.
for file in "$tests"/metadata_valid/*.tsdl; do
	cp "$file" "corpus/ctf_metadata/valid_$(basename "$file")"
done
for file in "$tests"/metadata_valid/*.ctf2; do
	sed 's/␞/\x1e/g' "$file" > "corpus/ctf_metadata/valid_$(basename "$file")"
done
for file in "$tests"/metadata/*.ctf2; do
	sed 's/␞/\x1e/g' "$file" > "corpus/ctf_metadata/$(basename "$file")"
done
for file in corpus/ctf_metadata/*; do
	size=$(wc -c < "$file")
	{
		# Length of the metadata as two bytes, little endian.
		printf "\\$(printf %o $((size % 256)))\\$(printf %o $((size / 256)))"
		cat "$file"
		printf '\2\1\11\4\2\11\3\7\7\7'
	} > "corpus/ctf_trace/$(basename "$file")"
done
# Behind a byte that says how it is cut.
mkdir -p corpus/ctf_packets
for file in corpus/ctf_metadata/*; do
	{ printf '\22'; cat "$file"; } > "corpus/ctf_packets/$(basename "$file")"
done
mkdir -p corpus/ctf_tsdl corpus/ctf_json corpus/ctf_stream
cp corpus/ctf_metadata/*.tsdl corpus/ctf_tsdl/
cp corpus/ctf_metadata/*.ctf2 corpus/ctf_json/
printf '\2\1\11\4\2\11\3\7\7\7' > corpus/ctf_stream/records
tests=../host/kymo-ftrace/tests
mkdir -p corpus/ftrace_format corpus/ftrace_page
cp "$tests"/formats/* corpus/ftrace_format/
cp "$tests"/pages/*.page corpus/ftrace_page/
tests=../host/kymo-filter/tests
mkdir -p corpus/filter
for file in "$tests"/errors/*.txt; do
	head -n 1 "$file" | tr -d '\n' > "corpus/filter/$(basename "$file" .txt)"
done
number=0
grep -v '^#' "$tests/vectors.txt" | cut -d ' ' -f 6- | grep -v '^#' | sort -u | while IFS= read -r filter; do
	number=$((number + 1))
	printf '%s' "$filter" > "corpus/filter/good_$number"
done
mkdir -p corpus/lab_import
for file in ../host/kymo-lab/tests/import/*; do
	case $file in
	*.expect) ;;
	*) cp "$file" corpus/lab_import/ ;;
	esac
done
mkdir -p corpus/ftrace_report
cp ../host/kymo-ftrace/tests/reports/*.txt corpus/ftrace_report/
mkdir -p corpus/symbols
# An address, then a program with symbols (any small one), or a kernel's text.
{ printf '\0\020\0\0\0\0\0\0'; cat /bin/true; } > corpus/symbols/program
{ printf '\0\0\0\201\377\377\377\377'; printf 'ffffffff81000000 T _stext\nffffffffc0000000 t probe_it\t[e1000]\n'; } > corpus/symbols/kernel
# Files of trace-cmd and logs of POSIX Trace streams: those that the crates' tests make.
mkdir -p corpus/posix_log corpus/import_dat corpus/import_text
seeds=$PWD/corpus
(cd .. && KYMO_FUZZ_SEEDS=$seeds "${CARGO:-cargo}" test --release -q -p kymo-export dat:: >/dev/null)
(cd .. && KYMO_FUZZ_SEEDS=$seeds "${CARGO:-cargo}" test --release -q -p kymo-posix --test logs >/dev/null)
cp ../host/kymo-ftrace/tests/reports/*.txt corpus/import_text/
printf '%s\n' 'prog 7/7 [000] 1.000001: sched:sched_switch: prev_comm=a prev_pid=7 ==> next_comm=b next_pid=9' \
	'	ffffffff81000010 do_one+0x10 ([kernel.kallsyms])' '	    7f0000001234 main+0x4 (/bin/a)' '' > corpus/import_text/perf
# Lines of a small target, made by its crate's tests.
mkdir -p corpus/target_line
(cd .. && KYMO_FUZZ_SEEDS=$seeds "${CARGO:-cargo}" test --release -q -p kymo-target --test line whole_stream >/dev/null)
# A relay daemon's answers behind the version: no session, and a session with one stream.
mkdir -p corpus/live
printf '\0\0\0\0' > corpus/live/nothing
{ printf '\0\0\0\1'; head -c 339 /dev/zero; printf '\0\0\0\1\0\0\0\1\0\0\0\1'; head -c 4371 /dev/zero
	printf '\0\0\0\2\0\0\0\0'; head -c 64 /dev/zero; } > corpus/live/session
# Questions with parameters, and heads of requests.
mkdir -p corpus/query corpus/serve_head
number=0
for question in 'summary?limit=3' 'overview?bins=10' 'cpus?from=@0&to=@900&pixels=100&cpus=0,1' 'threads?by=name&limit=5' \
	'states?tids=10,20&pixels=50&calls=1' 'slices?span=axis:begin,axis:end&lead=1' 'arrows?limit=9' 'schema?' \
	'values?field=motor:step.position&bins=4' 'latencies?what=wakeup&by=name' 'worst?what=irq&limit=2' 'places?' \
	'records?at=@5&limit=3' 'search?filter=axis:begin&direction=next'; do
	number=$((number + 1))
	printf '%s' "$question" > "corpus/query/$number"
	printf 'GET\n/$/q/%s\n%s\nlocalhost:80\nhttp://localhost:80\nsame-origin' "${question%%\?*}" "${question#*\?}" \
		> "corpus/serve_head/$number"
done
printf 'GET\n/$/main-1.js\n\n127.0.0.1:8000\n\nnone' > corpus/serve_head/file
