#!/bin/sh
# Installs toolbus for the user who runs it, or takes it away again. Nothing here asks for another
# user's rights, and no file of a shell is edited.
set -eu

releases=https://github.com/toolbus/toolbus/releases

usage() {
    cat <<'EOF'
Usage: install.sh [--from URL|DIR] [--version V] [--prefix DIR] [--dry-run]
       install.sh --uninstall [--prefix DIR] [--dry-run]

  --from URL|DIR  Take the archive and SHA256SUMS from here [default: the releases of the project]
  --version V     This version [default: the one that is there, or the latest]
  --prefix DIR    Install below this folder [default: ~/.local]
  --dry-run       Say what would be written or removed, and do nothing
  --uninstall     Remove what was installed, and nothing else
EOF
}

fail() { # message
    printf 'error: %s\n' "$1" >&2
    exit 1
}

wrong() { # message
    printf 'error: %s\nhint: install.sh --help\n' "$1" >&2
    exit 2
}

from='' version='' prefix='' is_dry='' is_uninstall=''
while [ $# -gt 0 ]; do
    option=$1
    shift
    case $option in
        --from=* | --version=* | --prefix=*)
            value=${option#*=}
            option=${option%%=*}
            ;;
        --from | --version | --prefix)
            [ $# -gt 0 ] || wrong "\`$option\` needs a value"
            value=$1
            shift
            ;;
    esac
    case $option in
        --from) from=$value ;;
        --version) version=${value#v} ;;
        --prefix) prefix=$value ;;
        --dry-run) is_dry=1 ;;
        --uninstall) is_uninstall=1 ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) wrong "there is no option \`$option\`" ;;
    esac
done

if [ -z "$prefix" ]; then
    [ -n "${HOME:-}" ] || fail 'there is no HOME; name a folder by --prefix'
    prefix=$HOME/.local
fi
case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
prefix=${prefix%/}
list=share/toolbus/installed

# Folders in the list end in `/`; they go once they are empty.
uninstall() {
    [ -f "$prefix/$list" ] || fail "nothing was installed below $prefix"
    while IFS= read -r name; do
        case $name in
            '' | /* | ../* | */../* | */..) fail "$prefix/$list is not ours: $name" ;;
        esac
    done <"$prefix/$list"
    names=$(cat "$prefix/$list")
    printf '%s\n' "$names" | while IFS= read -r name; do
        case $name in
            */) [ -n "$is_dry" ] || rmdir "$prefix/${name%/}" 2>/dev/null || : ;;
            *)
                printf 'removes %s\n' "$prefix/$name"
                [ -n "$is_dry" ] || rm -f "$prefix/$name"
                ;;
        esac
    done
}

if [ -n "$is_uninstall" ]; then
    uninstall
    exit 0
fi

processor=$(uname -m)
case $processor in
    amd64) processor=x86_64 ;;
    arm64) processor=aarch64 ;;
esac
case $(uname -s) in
    Linux)
        systems='unknown-linux-gnu unknown-linux-musl'
        if [ -e "/lib/ld-musl-$processor.so.1" ]; then
            systems='unknown-linux-musl unknown-linux-gnu'
        fi
        ;;
    Darwin) systems=apple-darwin ;;
    *) fail "there is no archive for $(uname -s)" ;;
esac

if [ -z "$from" ]; then
    from=$releases/latest/download
    [ -z "$version" ] || from=$releases/download/v$version
fi
from=${from%/}

work=$(mktemp -d "${TMPDIR:-/tmp}/toolbus-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fetch() { # name
    case $from in
        http://* | https://*)
            if command -v curl >/dev/null 2>&1; then
                curl -fsSL -o "$work/$1" "$from/$1" || fail "cannot fetch $from/$1"
            elif command -v wget >/dev/null 2>&1; then
                wget -q -O "$work/$1" "$from/$1" || fail "cannot fetch $from/$1"
            else
                fail 'neither curl nor wget is here'
            fi
            ;;
        *) cp "$from/$1" "$work/$1" 2>/dev/null || fail "cannot read $from/$1" ;;
    esac
}

sum_of() { # file
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    else
        fail 'neither sha256sum nor shasum is here'
    fi
}

fetch SHA256SUMS
archive='' wanted=''
for system in $systems; do
    while read -r sum name; do
        case $name in
            toolbus-"${version:-*}"-"$processor-$system".tar.gz) ;;
            toolbus-*-"$processor-$system".tar.gz) [ -z "$version" ] || continue ;;
            *) continue ;;
        esac
        archive=$name wanted=$sum
    done <"$work/SHA256SUMS"
    [ -z "$archive" ] || break
done
if [ -z "$archive" ]; then
    fail "there is no archive of toolbus${version:+ $version} for $processor in $from"
fi
case $archive in
    */*) fail "$archive is no name of a file" ;;
esac
fetch "$archive"
if [ "$(sum_of "$work/$archive")" != "$wanted" ]; then
    fail "the sum of $archive is not the one in SHA256SUMS"
fi

folder=$work/${archive%.tar.gz}
(cd "$work" && gzip -dc "$archive" | tar -xf -) || fail "cannot unpack $archive"

# What is written before, and what was: both are known to --uninstall.
old=''
[ ! -f "$prefix/$list" ] || old=$(cat "$prefix/$list")
: >"$work/files"
: >"$work/folders"

make_folder() { # path below the prefix
    if [ -n "$1" ] && [ ! -d "$prefix/$1" ]; then
        case $1 in
            */*) make_folder "${1%/*}" ;;
        esac
        printf '%s/\n' "$1" >>"$work/folders"
        [ -n "$is_dry" ] || mkdir "$prefix/$1" || fail "cannot make $prefix/$1"
    fi
}

put() { # file, mode, path below the prefix
    printf 'installs %s\n' "$prefix/$3"
    printf '%s\n' "$3" >>"$work/files"
    make_folder "${3%/*}"
    [ -z "$is_dry" ] || return 0
    # Beside it and renamed: a program that runs cannot be written over.
    cp "$1" "$prefix/$3.new" && chmod "$2" "$prefix/$3.new" && mv -f "$prefix/$3.new" "$prefix/$3" ||
        fail "cannot write $prefix/$3"
}

[ -n "$is_dry" ] || mkdir -p "$prefix" || fail "cannot make $prefix"
put "$folder/toolbus" 755 bin/toolbus
for page in "$folder"/man/man1/*.1; do
    [ -f "$page" ] || continue
    put "$page" 644 "share/man/man1/${page##*/}"
done
put "$folder/completions/toolbus.bash" 644 share/bash-completion/completions/toolbus
put "$folder/completions/_toolbus" 644 share/zsh/site-functions/_toolbus
put "$folder/completions/toolbus.fish" 644 share/fish/vendor_completions.d/toolbus.fish

printf '%s\n' "$list" >>"$work/files"
make_folder "${list%/*}"
printf '%s\n' "$old" | while IFS= read -r name; do
    case $name in
        '' | /* | ../* | */../* | */..) ;;
        */) grep -qxF "$name" "$work/folders" || printf '%s\n' "$name" >>"$work/folders" ;;
        *)
            # A file of an earlier version that this one has no more.
            if ! grep -qxF "$name" "$work/files"; then
                printf 'removes %s\n' "$prefix/$name"
                [ -n "$is_dry" ] || rm -f "$prefix/$name"
            fi
            ;;
    esac
done
printf 'installs %s\n' "$prefix/$list"
if [ -z "$is_dry" ]; then
    # The innermost folders first, so that each is empty when it is its turn.
    { cat "$work/files" && LC_ALL=C sort -r "$work/folders"; } >"$prefix/$list.new" &&
        mv -f "$prefix/$list.new" "$prefix/$list" || fail "cannot write $prefix/$list"
fi

case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) printf 'note: %s is not in PATH\n' "$prefix/bin" ;;
esac
