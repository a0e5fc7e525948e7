#!/usr/bin/env bash
# Fetches the text of Multi30K (Elliott et al., "Multi30K: multilingual English-German image descriptions", 2016) from
# the data set's public repository and checks every file.
set -euo pipefail

default_mirror=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1

usage() {
  cat <<END
Usage: fetch_multi30k.sh [--mirror URL] [DIR]

Fetches train, val and test_2016_flickr in English, German and French into DIR (default: multi30k), 8 MB in all:
  train.de.gz ...               as written; read directly, without unzipping
  train.lc.norm.tok.de ...      lower-cased and tokenised
Every file is checked by its SHA-256 sum. Run it again after a broken connection: what is complete stays, what is
incomplete continues.

  --mirror URL   take the files from there, e.g. file:///media/multi30k; they lie in raw/ and tok/ or side by side
                 (default: $default_mirror)
  --help         this text

Example: fetch_multi30k.sh data/multi30k && seqgrad train --preset multi30k --data data/multi30k --out run

The texts belong to their authors; https://github.com/multi30k/dataset says how they may be used.
Exit status: 0 all files are there and right, 1 a file could not be had or is wrong, 2 bad usage.
END
}

# SHA-256 sum and name. The tests put a table of their own in place of it.
sums() {
  if [[ -n ${SEQGRAD_MULTI30K_SUMS:-} ]]; then
    cat -- "$SEQGRAD_MULTI30K_SUMS"
    return
  fi
  cat <<END
9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8  test_2016_flickr.de.gz
611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9  test_2016_flickr.en.gz
6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90  test_2016_flickr.fr.gz
c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4  test_2016_flickr.lc.norm.tok.de
5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2  test_2016_flickr.lc.norm.tok.en
1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836  test_2016_flickr.lc.norm.tok.fr
726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6  train.de.gz
d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f  train.en.gz
622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c  train.fr.gz
cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505  train.lc.norm.tok.de
08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119  train.lc.norm.tok.en
8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1  train.lc.norm.tok.fr
f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a  val.de.gz
14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28  val.en.gz
ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9  val.fr.gz
97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00  val.lc.norm.tok.de
46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec  val.lc.norm.tok.en
b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a  val.lc.norm.tok.fr
END
}

fail() {
  echo "fetch_multi30k: $1" >&2
  exit "${2:-1}"
}

mirror=$default_mirror
folder=
while (($# > 0)); do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --mirror)
      (($# >= 2)) || fail "--mirror needs a URL (see --help)" 2
      mirror=${2%/}
      shift ;;
    --mirror=*)
      mirror=${1#--mirror=}
      mirror=${mirror%/} ;;
    -*) fail "unknown option $1 (see --help)" 2 ;;
    *)
      [[ -z $folder ]] || fail "one folder only, not $folder and $1 (see --help)" 2
      folder=$1 ;;
  esac
  shift
done
folder=${folder:-multi30k}
[[ $mirror == *://* ]] || fail "the mirror must be a URL, e.g. file:///media/multi30k, not '$mirror'" 2

if command -v sha256sum > /dev/null; then
  sum_of() { sha256sum < "$1" | cut -d ' ' -f 1; }
elif command -v shasum > /dev/null; then
  sum_of() { shasum -a 256 < "$1" | cut -d ' ' -f 1; }
else
  fail "needs sha256sum or shasum to check the files"
fi

# download URL FILE: continues FILE where it ends. Status 3: there is no such file, or it is no longer than FILE.
if command -v curl > /dev/null; then
  download() {
    local status=0
    curl --fail --silent --show-error --location --retry 3 --connect-timeout 30 --continue-at - --output "$2" "$1" \
      2> "$errors" || status=$?
    case $status in
      0) ;;
      22 | 33 | 36 | 37) return 3 ;;  # an HTTP error, no such range, no such local file
      *) return 1 ;;
    esac
  }
elif command -v wget > /dev/null; then
  download() {
    local status=0
    if [[ $1 == file://* ]]; then  # which wget does not know
      [[ -f ${1#file://} ]] || { echo "no such file" > "$errors" && return 3; }
      local have=0
      [[ ! -f $2 ]] || have=$(wc -c < "$2")
      tail -c +$((have + 1)) -- "${1#file://}" >> "$2" 2> "$errors" || return 1
      return 0
    fi
    wget --no-verbose --tries=3 --timeout=30 --continue --output-document="$2" "$1" 2> "$errors" || status=$?
    case $status in
      0) ;;
      8) return 3 ;;
      *) return 1 ;;
    esac
  }
else
  fail "needs curl or wget"
fi

mkdir -p -- "$folder" 2> /dev/null || fail "cannot make the folder $folder"
errors=$(mktemp)
trap 'rm -f -- "$errors"' EXIT
reason() { tail -n 1 -- "$errors" | sed 's/^curl: ([0-9]*) //'; }

# fetch NAME FILE: from the mirror's subfolder or, if it is not there, from the mirror itself.
fetch() {
  local sub=raw status
  [[ $1 == *.gz ]] || sub=tok
  for url in "$mirror/$sub/$1" "$mirror/$1"; do
    status=0
    download "$url" "$2" || status=$?
    ((status == 3)) || break
  done
  return "$status"
}

while read -r expected name; do
  file=$folder/$name
  part=$file.part
  if [[ -f $file ]]; then
    [[ $(sum_of "$file") != "$expected" ]] || continue
    # Perhaps the beginning of the right one.
    mv -f -- "$file" "$part" || fail "cannot replace $file"
  fi
  if [[ ! -f $part || $(sum_of "$part") != "$expected" ]]; then
    echo "fetching $name" >&2
    started_anew=true
    [[ ! -s $part ]] || started_anew=false
    status=0
    fetch "$name" "$part" || status=$?
    # What was there may be the beginning of something else: once more from the start.
    if [[ $started_anew == false ]] && { ((status == 3)) || { ((status == 0)) && [[ $(sum_of "$part") != "$expected" ]]; }; }; then
      rm -f -- "$part"
      status=0
      fetch "$name" "$part" || status=$?
    fi
    ((status == 0)) || fail "cannot fetch $name from $mirror: $(reason)"
  fi
  found=$(sum_of "$part")
  if [[ $found != "$expected" ]]; then
    mv -f -- "$part" "$file.wrong"
    fail "$name from $mirror has the wrong SHA-256 sum $found instead of $expected; it is kept as $file.wrong"
  fi
  mv -- "$part" "$file" || fail "cannot write $file"
done < <(sums)
echo "Multi30K is complete in $folder" >&2
