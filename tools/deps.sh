#!/usr/bin/env bash
# deps.sh: install what the tests need beside Go, as Debian packages.
# It changes nothing when all is there. Where it may not install, it says what
# is missing and fails.
set -euo pipefail

# What has to be there, and the package that brings it.
needs=(
  "gcc                                  gcc"         # the race detector links with cgo
  "/usr/include/stdio.h                 libc6-dev"
  "wget                                 wget"        # the crawler that ours is compared with
  "/usr/share/doc/git-doc/index.html    git-doc"     # real HTML
  "/usr/share/doc/sqlite3/index.html    sqlite3-doc"
)

# missing prints the packages whose file or command is not there.
missing() {
  local what package
  for need in "${needs[@]}"; do
    read -r what package <<<"$need"
    case $what in
      /*) [[ -e $what ]] || echo "$package" ;;
      *) command -v "$what" >/dev/null || echo "$package" ;;
    esac
  done
}

refuse() {
  echo "deps: $1; missing: $(missing | xargs)" >&2
  exit 1
}

mapfile -t packages < <(missing)
if ((${#packages[@]} == 0)); then
  exit 0
fi
command -v apt-get >/dev/null || refuse "not a Debian system, install these by its own means"
as_root=()
if ((EUID != 0)); then
  sudo -n true 2>/dev/null || refuse "neither root nor sudo without a password"
  as_root=(sudo -n)
fi

echo "deps: installing ${packages[*]}"
# Slim images leave documentation out of packages: the two that are nothing
# else are let in. A package that is installed without its files comes again.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends --reinstall \
  -o 'Dpkg::Options::=--path-include=/usr/share/doc/git-doc/*' \
  -o 'Dpkg::Options::=--path-include=/usr/share/doc/sqlite3/*' \
  "${packages[@]}" >/dev/null
[[ -z $(missing) ]] || refuse "apt-get installed the packages, but what they should bring is not there"
