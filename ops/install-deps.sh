#!/usr/bin/env bash
# Makes sure that the Debian packages named as arguments are there: installs them when root,
# otherwise says what to run. A PostgreSQL from elsewhere (pg_config on the PATH) counts too.
set -euo pipefail

present() {
    case "$1" in
    postgresql)
        compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null && return 0
        command -v pg_config >/dev/null && [ -x "$(pg_config --bindir)/postgres" ]
        ;;
    xfsprogs) PATH="$PATH:/usr/sbin:/sbin" command -v mkfs.xfs >/dev/null ;;
    btrfs-progs) PATH="$PATH:/usr/sbin:/sbin" command -v mkfs.btrfs >/dev/null ;;
    *) dpkg -s "$1" >/dev/null 2>&1 ;;
    esac
}

missing=()
for package in "$@"; do
    present "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    # Debian's postgresql would create and start a cluster of its own; nobody here needs one.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    apt-get update -qq >&2
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
else
    echo "missing: ${missing[*]}" >&2
    echo "hint: sudo apt-get install -y ${missing[*]}" >&2
    exit 1
fi
