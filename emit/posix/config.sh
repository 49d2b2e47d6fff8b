#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes a configuration as a header, to standard output: CONFIG_KYMO_POSIX_X=y is 1, =n or "is not set" is 0, a number
# is itself. What the configuration does not name is as in the complete build; a name that is not known is an error.
set -eu
config=$1
default=$(dirname "$0")/../include/kymo/posix/config.h
[ -r "$config" ] || { echo "config.sh: cannot read $config; there are: $(cd "$(dirname "$0")/configs" && echo *)" >&2; exit 1; }
unknown=$(sed -nE 's/^(# )?CONFIG_(KYMO_POSIX_[A-Z_]+)(=| is not set).*/\2/p' "$config" | while read -r name; do
	grep -q "^#define $name " "$default" || echo "$name"
done)
[ -z "$unknown" ] || { echo "config.sh: $config names what there is not:" $unknown >&2; exit 1; }
awk -v config="$config" '
BEGIN {
	while ((getline line < config) > 0) {
		if (line ~ /^# CONFIG_KYMO_POSIX_.* is not set/) { split(line, part, " "); value[substr(part[2], 8)] = "0" }
		else if (line ~ /^CONFIG_KYMO_POSIX_/) {
			at = index(line, "="); name = substr(line, 8, at - 8); given = substr(line, at + 1)
			value[name] = given == "y" ? "1" : given == "n" ? "0" : given
		}
	}
	# What a menu leaves out because something it needs is off, is off.
	if (off("HOSTED")) { drop("INHERIT"); drop("RETRIEVAL"); drop_kernel() }
	if (off("ONLINE") && off("LOG")) { drop("USER_EVENTS"); drop("FILTER"); drop("INHERIT"); drop_kernel() }
	if (off("FILTER")) drop("EVENT_FILTER")
	if (off("LOG")) drop("EVENT_FLUSH")
}
function off(unit) { return (("KYMO_POSIX_" unit) in value) && value["KYMO_POSIX_" unit] == "0" }
function drop(unit) { if (!(("KYMO_POSIX_" unit) in value)) value["KYMO_POSIX_" unit] = "0" }
function drop_kernel() { drop("EVENT_CONTEXT_SWITCH"); drop("EVENT_SYSTEM_CALL"); drop("EVENT_LOCK") }
/^#define KYMO_POSIX_[A-Z_]+ / && ($2 in value) { print "#define " $2 " " value[$2]; next }
{ print }' "$default"
