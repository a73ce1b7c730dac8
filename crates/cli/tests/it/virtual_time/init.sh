#!/bin/bash
# Process 1 of the kernel. The files of the machine are its root, read-only; $FOLDER is a folder of the machine, which
# takes the output of the test program, $PROGRAM, for its $TESTS. Where process 1 ends, the kernel ends.
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run LC_ALL=C.UTF-8 RUST_TEST_THREADS=1
unset LD_PRELOAD ORACLE_SEED
mount -t proc proc /proc
mount -t sysfs sys /sys
for place in /run /dev; do mount -t tmpfs tmpfs $place; done
mkdir /dev/net /run/out
mknod /dev/net/tun c 10 200
mknod /dev/null c 1 3
mknod /dev/zero c 1 5
mknod /dev/random c 1 8
mknod /dev/urandom c 1 9
chmod 666 /dev/null /dev/zero /dev/random /dev/urandom
ip link set dev lo up
mount -t hostfs none /run/out -o "$FOLDER"
cd "$PACKAGE"
"$PROGRAM" --show-output --exact $TESTS >/run/out/said 2>&1
