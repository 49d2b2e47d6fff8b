# SPDX-License-Identifier: MIT OR Apache-2.0
# apt inside of a folder: packages of Debian, downloaded and verified, with lists and an archive of the folder's own.
# The machine's apt and dpkg stay as they are. To be sourced.

# private_apt_folder FOLDER: what private_apt needs there, but for the file sources.list.
private_apt_folder() {
	mkdir -p "$1/state/lists/partial" "$1/cache/archives/partial" || return
	# A container's hooks after an update or an installation would act on the machine's own cache.
	cat >"$1/apt.conf" <<-'END'
	#clear APT::Update::Post-Invoke;
	#clear APT::Update::Post-Invoke-Success;
	#clear DPkg::Post-Invoke;
	Debug::NoLocking "1";
	APT::Sandbox::User "root";
	APT::Install-Recommends "0";
	Acquire::Languages "none";
	Acquire::Retries "3";
	Acquire::http::Timeout "30";
	Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
	Acquire::IndexTargets::deb::CNF::DefaultEnabled "false";
	END
}

# private_apt FOLDER COMMAND ARGUMENT...: with an empty status every dependency counts as missing, so that what is
# unpacked goes on working when the machine's own libraries change.
private_apt() {
	local root=$1 command=$2
	shift 2
	"$command" -q -c "$root/apt.conf" -o Dir::State="$root/state" -o Dir::State::status=/dev/null \
		-o Dir::Cache="$root/cache" -o Dir::Etc::SourceList="$root/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null "$@"
}

# The archives of Debian that this machine uses (a mirror perhaps), as lines "URI SUITE".
private_apt_archives() {
	apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Component: main' 2>/dev/null |
		awk '$1 == "Debian" {print $2, $3}' | sort -u
}

# private_apt_source URI SUITE: a line of sources.list.
private_apt_source() {
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $1 $2 main"
}
