#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_raised.sh FIRST: a program with raised rights loads no library and writes no file that its
# user names. FIRST is docs/examples/first.c, linked with the simulated device.
#
# With getenv instead of secure_getenv in tnri_environment_driver or tnri_environment_conf it fails.
# Exit codes: 0 right; 1 not; 77 this needs root, and a file system that honours setuid.
set -euo pipefail
first=$1
[[ $(id -u) -eq 0 ]] || { echo "only root can make a program of another user's"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 777 "$folder"
cp "$first" "$folder/plain"
cp "$first" "$folder/raised"
chown nobody "$folder/raised"
chmod 4755 "$folder/raised"
cp "$(command -v id)" "$folder/id"
chown nobody "$folder/id"
chmod 4755 "$folder/id"
[[ $("$folder/id" -u) == "$(id -u nobody)" ]] || { echo "setuid has no effect here"; exit 77; }
export TENURE_DRIVER=sim TENURE_CONF=snapshot_at_exit:$folder/plain.json

said=$("$folder/plain" 2>&1)
[[ $said == "64 MiB at"* && -f $folder/plain.json ]] || { echo "the plain program: $said"; exit 1; }

unset TENURE_DRIVER
export TENURE_CONF=history:no_such_mode
said=$("$folder/plain" 2>&1) || true
[[ $said == *no_such_mode* ]] || { echo "the plain program ignores TENURE_CONF: $said"; exit 1; }
said=$("$folder/raised" 2>&1) || true
case $said in
    *no_such_mode*) echo "TENURE_CONF was read with raised rights: $said"; exit 1 ;;
esac

export TENURE_CONF= TENURE_DRIVER=$folder/no_such_driver.so
said=$("$folder/plain" 2>&1) || true
[[ $said == *no_such_driver* ]] || { echo "the plain program ignores it: $said"; exit 1; }
said=$("$folder/raised" 2>&1) || true
case $said in
    *no_such_driver*) echo "TENURE_DRIVER was loaded with raised rights: $said"; exit 1 ;;
esac
