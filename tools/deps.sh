#!/usr/bin/env bash
# deps.sh: install what the tests need beside Go, as Debian packages.
#   deps.sh            install the packages
#   deps.sh proof      install npm, which is optional for the proofs
#   deps.sh missing    print the packages that are missing, and install nothing
# It changes nothing if all packages are installed. It needs a Debian system, and root
# rights or sudo without a password. Without these, it prints the packages that are
# missing, and the tests that need them are skipped. With CRAWLER_TEST_SERVERS=require, as
# in CI, it fails instead.
set -euo pipefail

# A file or command that must exist, and the package that contains it.
needs=(
  "gcc                                  gcc"         # the race detector links with cgo
  "/usr/include/stdio.h                 libc6-dev"
  "wget                                 wget"        # a crawler for comparison with ours
  "/usr/share/doc/git-doc/index.html    git-doc"     # real HTML
  "/usr/share/doc/sqlite3/index.html    sqlite3-doc"
  "redis-server                         redis-server"
  "postgres                             postgresql"
  "nats-server                          nats-server"
  "/usr/sbin/squid                      squid"       # proxies as shipped
  "tinyproxy                            tinyproxy"
  "/usr/sbin/nginx                      nginx"       # answers conditional requests
  "/usr/sbin/varnishd                   varnish"     # a cache before it
  "promtool                             prometheus"  # checks the files of deploy/
  "docker-compose                       docker-compose"
  "systemd-analyze                      systemd"
  "pgbouncer                            pgbouncer"   # a pooler before Postgres
  "npm                                  npm"         # installs DuckDB, which reads our Parquet files
  "/usr/share/doc/python3-networkx      python3-networkx" # reads our graphs of links
  "chromium                             chromium"    # looks at the dashboard
  "jq                                   jq"          # the guides look at records with it
)
if [[ ${1:-} == proof ]]; then
  needs=("npm npm") # installs warcio, which reads our WARC files
fi

# there reports whether a file or command exists. Debian does not put the programs of
# the Postgres server in PATH.
there() {
  case $1 in
    /*) [[ -e $1 ]] ;;
    postgres) command -v postgres || compgen -G '/usr/lib/postgresql/*/bin/postgres' ;;
    *) command -v "$1" ;;
  esac >/dev/null
}

# missing prints the packages whose file or command does not exist.
missing() {
  local what package
  for need in "${needs[@]}"; do
    read -r what package <<<"$need"
    there "$what" || echo "$package"
  done
}

# skip prints the packages that are missing and cannot be installed, and ends the script.
# With CRAWLER_TEST_SERVERS=require this is a failure, and otherwise a success.
skip() {
  if [[ ${CRAWLER_TEST_SERVERS:-} == require ]]; then
    echo "deps: $1; missing: ${packages[*]}" >&2
    exit 1
  fi
  echo "deps: $1: tests that need ${packages[*]} are skipped" >&2
  exit 0
}

mapfile -t packages < <(missing)
if ((${#packages[@]} == 0)); then
  exit 0
fi
if [[ ${1:-} == missing ]]; then
  echo "${packages[*]}"
  exit 0
fi
command -v apt-get >/dev/null || skip "not a Debian system"
as_root=()
if ((EUID != 0)); then
  sudo -n true 2>/dev/null || skip "neither root nor sudo without a password"
  as_root=(sudo -n)
fi

# The tests start servers of their own. The servers of the packages must not run, now or
# at the next boot, and Postgres must create no database. The files that prevent this
# during the installation are removed afterwards.
held=()
hold() { # hold FILE MODE TEXT creates a file, unless it exists
  [[ ! -e $1 ]] || return 0
  "${as_root[@]}" mkdir -p "${1%/*}"
  "${as_root[@]}" tee "$1" <<<"$3" >/dev/null
  "${as_root[@]}" chmod "$2" "$1"
  held+=("$1")
}
release() { ((${#held[@]} == 0)) || "${as_root[@]}" rm -f "${held[@]}"; }
trap release EXIT
hold /usr/sbin/policy-rc.d 755 $'#!/bin/sh\nexit 101'
hold /etc/postgresql-common/createcluster.d/crawler-tests.conf 644 'create_main_cluster = false'

echo "deps: installing ${packages[*]}"
# Slim images leave out the documentation of packages. These options keep it for the two
# packages that contain only documentation. --reinstall also repairs a package that was
# installed without its files.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends --reinstall \
  -o 'Dpkg::Options::=--path-include=/usr/share/doc/git-doc/*' \
  -o 'Dpkg::Options::=--path-include=/usr/share/doc/sqlite3/*' \
  "${packages[@]}" >/dev/null
for server in redis-server nats-server pgbouncer squid tinyproxy prometheus nginx varnish varnishncsa; do
  if [[ " ${packages[*]} " == *" ${server%ncsa} "* ]] && command -v systemctl >/dev/null; then
    "${as_root[@]}" systemctl disable --quiet "$server"
  fi
done
if [[ -n $(missing) ]]; then
  echo "deps: apt-get installed the packages, but what they should bring is not there: $(missing)" >&2
  exit 1
fi
